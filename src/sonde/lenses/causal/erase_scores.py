"""What erasing a property costs by layer, what probes find with nothing erased, and what is left behind.

At the layer that validation chooses, a property that a probe surely finds is then held against all draws of
its controls (`sonde.lenses.causal.erase_draws`); of one that no probe finds they could decide nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.causal.ablate import HEADS
from sonde.lenses.causal.ablate import NAME as ABLATE
from sonde.lenses.causal.effects import (
    ANSWERS,
    SURPRISAL,
    at_best,
    by_layer,
    chosen_layer,
    effects_of,
    unchanged,
)
from sonde.lenses.causal.erase_fits import CONTROL_TASK, LEACE, NAME, controls, drawn
from sonde.lenses.causal.erase_probes import AT_ERASED, MAJORITY, left_behind, probed
from sonde.lenses.causal.fits import Fits
from sonde.lenses.causal.properties import PropertyExamples, is_whole, subjects, why_not_fitted
from sonde.lenses.causal.verdicts import NOTICEABLE, surely_above
from sonde.results import Score, left_out


def score_erasures(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of every property by layer; what is tested at one layer is handed on."""
    effects, answers = (effects_of(scoring, NAME, fits.splits, of) for of in (SURPRISAL, ANSWERS))
    tried = {one.subject for one in fits.of(NAME)}
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    texts = dict(scoring.texts.collect().iter_rows())
    found: list[Score] = []
    for task in subjects(scoring.labels):
        template = dataclasses.replace(scoring.template, task=task, split="test", method=NAME)
        examples = PropertyExamples.of(task, scoring, fits.splits, texts)
        if task not in tried:
            plain = rows.filter(pl.col("method").is_null())
            found.append(left_out(template, why_not_fitted(examples.only("train", plain), plain)))
            continue
        mine = pl.col("subject") == task
        if effects.filter(mine).is_empty():
            found.append(left_out(template, "no function of validation or test was read with a change"))
            continue
        costs = [
            *unchanged(effects.filter(mine), template),
            *by_layer(effects.filter(mine), LEACE, template, among=controls(task)),
        ]
        lost = by_layer(answers.filter(mine), LEACE, template, ANSWERS)
        layer = chosen_layer(costs, NOTICEABLE)
        found += [*costs, *lost, *at_best(costs, layer), *at_best(lost, layer)]
        found += probed(rows, examples, template, layer)
        found += left_behind(rows, examples, template)
    yield from found
    if layers := layers_tested(found):
        followed = [
            dataclasses.replace(one, values=None, marks=())
            for one in fits.of(ABLATE)
            if one.kind == HEADS and not one.together
        ]
        held = (*drawn(scoring, fits.splits, fits.measured, layers), *followed)
        scoring.handed.append(Fits(held, fits.splits, fits.measured).frame())


def layers_tested(scores: Iterable[Score]) -> dict[str, int]:
    """The layer of each property at which a probe surely finds it, so that controls can decide."""
    gains: dict[str, dict[str | None, Score]] = {}
    for one in scores:
        if one.method == NAME and one.metric == "gain" and one.dimensions == (AT_ERASED,):
            gains.setdefault(str(one.task), {})[one.control] = one
    found: dict[str, int] = {}
    for task, held in gains.items():
        needed = [MAJORITY] if is_whole(task) else [MAJORITY, CONTROL_TASK]
        if all(name in held and surely_above(_row(held[name])) for name in needed):
            found[task] = int(held[MAJORITY].layer or 0)
    return found


def _row(one: Score) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
