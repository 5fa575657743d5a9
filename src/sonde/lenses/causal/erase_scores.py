"""What erasing a property costs, by layer and construct, and what probes still find behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.lenses._lens import Scoring
from sonde.lenses.causal import heads_behind
from sonde.lenses.causal.effects import (
    ANSWERS,
    APART,
    BEST,
    SURPRISAL,
    asked_of,
    at_best,
    by_layer,
    chosen_layer,
    effects_of,
    excess_of,
    unchanged,
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

ERASED_PROPERTY = "erased_property"
"""Dimension of what probes of one property find behind the erasure of another."""


def score(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of every property."""
    effects, answers = (effects_of(scoring, NAME, fits.splits, of) for of in (SURPRISAL, ANSWERS))
    tried = {one.subject for one in fits.of(NAME)}
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    plain = rows.filter(pl.col("method").is_null())
    for task in subjects(scoring.labels):
        template = dataclasses.replace(scoring.template, task=task, split="test", method=NAME)
        if task not in tried:
            labels = labelled(task, scoring.labels[task], fits.splits).filter(pl.col("split") == "train")
            yield left_out(template, why_not_fitted(task, examples_of(task, labels, plain)))
            continue
        mine = pl.col("subject") == task
        scores = list(_effects(effects.filter(mine), answers.filter(mine), template))
        yield from scores
        yield from heads_behind.score(scoring, task, LEACE, fits.splits, template)
        yield from _probes(rows, _examples(fits, scoring, task), template)
        for layer in {one.layer for one in scores if one.dimensions == (BEST,) and one.layer is not None}:
            erased = rows.filter((pl.col("subject") == task) & (pl.col("layer") == layer))
            for other in subjects(scoring.labels):
                if other != task:
                    own = dataclasses.replace(template, task=other).within(
                        ("erased", str(layer)), (ERASED_PROPERTY, task)
                    )
                    yield from _others(erased, _examples(fits, scoring, other), own, layer)


def _examples(fits: Fits, scoring: Scoring, task: str) -> pl.DataFrame:
    """The examples of a property with their clusters."""
    examples = labelled(task, scoring.labels[task], fits.splits)
    return examples.join(scoring.items.select("item_id", "cluster"), on="item_id")


def _others(erased: pl.DataFrame, examples: pl.DataFrame, template: Score, layer: int) -> Iterator[Score]:
    """What new probes find of another property behind an erasure, less than behind a random subspace."""
    found = [
        _predicted(examples_of(template.task, examples, erased.filter(pl.col("kind") == kind)))[0]
        for kind in (LEACE, draw(0))
    ]
    if any(one is None for one in found):
        return
    (gold, clusters, own), (_, _, beside) = (one for one in found if one is not None)
    accuracy = dataclasses.replace(template, metric="accuracy")
    fields = [{"layer": layer + later} for later in range(len(own))]
    yield from mean_rows(accuracy, own == gold, clusters, fields)
    yield from mean_rows(dataclasses.replace(accuracy, control=RANDOM), beside == gold, clusters, fields)
    for later, (mine, theirs) in enumerate(zip(own, beside, strict=True)):
        gain = dataclasses.replace(template, metric="gain", control=RANDOM, layer=layer + later)
        yield from trained_rows(gain, mine == gold, clusters, less=theirs == gold)


def _effects(effects: pl.DataFrame, answers: pl.DataFrame, template: Score) -> Iterator[Score]:
    if effects.is_empty():
        yield left_out(template, "no function of validation or test was read with a change")
        return
    yield from unchanged(effects, template)
    scores = by_layer(effects, LEACE, template)
    lost = by_layer(answers, LEACE, template, ANSWERS)
    layer = chosen_layer(scores, RANDOM)
    for held in (scores, lost):
        yield from held
        yield from at_best(held, layer)
    if layer is not None:
        yield from _constructs(
            effects.filter(pl.col("layer") == layer), dataclasses.replace(template, layer=layer)
        )


def _constructs(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """By construct on test; and how much further it is where the effect is largest on validation."""
    excess = [excess_of(effects, LEACE, RANDOM)]
    sides = {side: effects.filter(pl.col("split") == side) for side in ("valid", "test")}
    by = {"construct": pl.col("group")}
    counted = pl.col("n")
    test = sides["test"]
    yield from means(test, asked_of(test, LEACE), template, by=by, minimum=FEWEST, counted=counted)
    valid = list(means(sides["valid"], excess, template, by=by, minimum=FEWEST, counted=counted))
    if not valid:
        return
    largest = dict(max(valid, key=lambda score: score.value).dimensions)["construct"]
    where = pl.when(pl.col("group") == largest).then(pl.lit("here")).otherwise(pl.lit("elsewhere"))
    apart = [excess_of(effects, LEACE, RANDOM, APART)]
    of = template.within(BEST, ("construct", largest))
    yield from mean_differences(test.with_columns(where=where), apart, of, ("where", "here", "elsewhere"))


def _probes(rows: pl.DataFrame, examples: pl.DataFrame, template: Score) -> Iterator[Score]:
    """What probes find with nothing changed, and what new ones find behind a change, here and later."""
    task = template.task
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
