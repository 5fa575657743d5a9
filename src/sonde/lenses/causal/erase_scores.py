"""What erasing a property costs, by layer and construct, and what probes still find behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.lenses._lens import Scoring
from sonde.lenses.causal.effects import (
    APART,
    BEST,
    EXCESS,
    asked_of,
    at_best,
    by_layer,
    change,
    chosen_layer,
    controls_of,
    effects_of,
)
from sonde.lenses.causal.erase import (
    LEACE,
    NAME,
    RANDOM,
    draw,
    examples_of,
    labelled,
    numbered,
    subjects,
    why_not_fitted,
)
from sonde.lenses.causal.fits import Fits
from sonde.lenses.causal.rows import states_of
from sonde.results import Score, left_out, mean_differences, mean_rows, means, trained_rows
from sonde.training.probes.parts import Parts

FEWEST = 30
"""Subwords of a construct, on validation and on test, below which nothing is said of it."""

MAJORITY = "majority"


def score(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of every property."""
    effects = effects_of(scoring, NAME, fits.splits)
    tried = {one.subject for one in fits.of(NAME)}
    plain = scoring.observations.filter(
        pl.col("what").is_in(["mean", "token"]), pl.col("method").is_null()
    ).collect()
    for task in subjects(scoring.labels):
        template = dataclasses.replace(scoring.template, task=task, split="test", method=NAME)
        if task not in tried:
            labels = labelled(task, scoring.labels[task], fits.splits).filter(pl.col("split") == "train")
            yield left_out(template, why_not_fitted(task, examples_of(task, labels, plain)))
            continue
        yield from _effects(effects.filter(pl.col("subject") == task), template)
        yield from _probes(fits, scoring, template)


def _effects(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    if effects.is_empty():
        yield left_out(template, "no function of validation or test was read with a change")
        return
    scores = by_layer(effects, LEACE, template)
    yield from scores
    layer = chosen_layer(scores, RANDOM)
    yield from at_best(scores, layer)
    if layer is not None:
        yield from _constructs(
            effects.filter(pl.col("layer") == layer), dataclasses.replace(template, layer=layer)
        )


def _constructs(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """By construct on test; and how much further it is where the effect is largest on validation."""
    excess = [change(EXCESS, pl.col(LEACE) - pl.col(RANDOM), RANDOM)]
    sides = {side: effects.filter(pl.col("split") == side) for side in ("valid", "test")}
    by = {"construct": pl.col("group")}
    counted = pl.col("n")
    test = sides["test"]
    yield from means(
        test, asked_of(LEACE, controls_of(test, LEACE)), template, by=by, minimum=FEWEST, counted=counted
    )
    valid = list(means(sides["valid"], excess, template, by=by, minimum=FEWEST, counted=counted))
    if not valid:
        return
    largest = dict(max(valid, key=lambda score: score.value).dimensions)["construct"]
    where = pl.when(pl.col("group") == largest).then(pl.lit("here")).otherwise(pl.lit("elsewhere"))
    apart = [change(APART, pl.col(LEACE) - pl.col(RANDOM), RANDOM)]
    of = template.within(BEST, ("construct", largest))
    yield from mean_differences(test.with_columns(where=where), apart, of, ("where", "here", "elsewhere"))


def _probes(fits: Fits, scoring: Scoring, template: Score) -> Iterator[Score]:
    """What probes find with nothing changed, and what new ones find behind a change, here and later."""
    task = template.task
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    examples = labelled(task, scoring.labels[task], fits.splits)
    examples = examples.join(scoring.items.select("item_id", "cluster"), on="item_id")
    plain = examples_of(task, examples, rows.filter(pl.col("method").is_null()))
    test, best = _predicted(plain)
    if test is None:
        yield left_out(
            template, f"{task}: a class is missing on test, so that no probe can be held against it"
        )
        return
    gold, clusters, before = test
    layers = range(len(before))
    accuracy = dataclasses.replace(template, metric="accuracy")
    yield from mean_rows(accuracy, before == gold, clusters, [{"layer": layer} for layer in layers])
    classes, labels = numbered(plain)
    train = (plain["split"] == "train").to_numpy()
    most = int(np.bincount(labels[train], minlength=len(classes)).argmax())
    yield from mean_rows(
        dataclasses.replace(accuracy, control=MAJORITY), (gold == most)[None], clusters, [{}]
    )
    gain = dataclasses.replace(template, metric="gain", control=MAJORITY, layer=best).within(BEST)
    yield from trained_rows(gain, before[best] == gold, clusters, less=gold == most)
    for kind, control in ((LEACE, None), (draw(0), RANDOM)):
        mine = rows.filter((pl.col("subject") == task) & (pl.col("kind") == kind))
        for layer in sorted(set(mine["layer"].to_list())):
            held = examples_of(task, examples, mine.filter(pl.col("layer") == layer))
            found, _ = _predicted(held)
            if found is None:
                continue
            gold, clusters, after = found
            about = dataclasses.replace(accuracy, control=control).within(("erased", str(layer)))
            fields = [{"layer": layer + later} for later in range(len(after))]
            yield from mean_rows(about, after == gold, clusters, fields)


_Test = tuple[Int[np.ndarray, " test"], np.ndarray, Int[np.ndarray, "layer test"]]
"""Classes of the tested examples, their clusters, and what the probe of each layer says."""


def _predicted(examples: pl.DataFrame) -> tuple[_Test | None, int]:
    """Probes of every layer, trained on the training split, with the penalty chosen on a part of it.

    Returns:
        None where a class is missing; and the layer that is best where the penalty is chosen.
    """
    from sonde.training.probes.linear import probe_unchecked

    parts = Parts.of(examples["split"].to_list())
    classes, labels = numbered(examples)
    if len(classes) < 2 or any(not len(part) for part in (parts.train, parts.valid, parts.test)):
        return None, 0
    (probed,) = probe_unchecked(states_of(examples), labels[None], len(classes), parts)
    clusters = examples["cluster"].to_numpy()[parts.test]
    return (labels[parts.test], clusters, probed.predicted), probed.best
