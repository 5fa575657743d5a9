"""What probes find of a property: with nothing erased, and behind an erasure of which they saw nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.lenses.causal.erase_fits import CONTROL_TASK, LEACE
from sonde.lenses.causal.properties import PropertyExamples, examples_of, is_whole, numbered
from sonde.lenses.causal.rows import states_of
from sonde.results import Score, left_out, mean_rows, trained_rows
from sonde.results.dimensions import SELECTION
from sonde.results.verdict import ENOUGH_SEEDS
from sonde.training.probes.control import control_labels
from sonde.training.probes.parts import Parts, grouped_folds

MAJORITY = "majority"

BEST, AT_ERASED = (SELECTION, "best"), (SELECTION, "erased")
"""Dimensions: at the layer where a probe is best, and at the one where the property is erased."""

ERASED, ERASED_PROPERTY, NOTHING = "erased", "erased_property", "nothing"
"""Dimensions of what probes find behind an erasure: its layer, or nothing; and whose it is, where that is
another property's."""

FOLDS = 4
"""Folds of the functions that no map was fitted to: two train a probe, one chooses, one is tested."""

_Test = tuple[Int[np.ndarray, " test"], np.ndarray, Int[np.ndarray, "layer test"]]
"""Classes of the tested examples, their clusters, and what the probe of each layer says."""


def probed(
    rows: pl.DataFrame, examples: PropertyExamples, template: Score, layer: int | None
) -> Iterator[Score]:
    """What probes find with nothing erased, beside the commonest class and, of tokens, a class per word.

    Args:
        rows: States of functions and tokens.
        examples: The examples.
        template: What the scores share.
        layer: Where the property is erased; None for nowhere.
    """
    from sonde.training.probes.linear import probe_unchecked

    task = examples.task
    plain = examples_of(task, examples.frame, rows.filter(pl.col("method").is_null()))
    parts, labels = Parts.of(plain["split"].to_list()), numbered(plain, examples.classes)
    if any(not len(part) for part in (parts.train, parts.valid, parts.test)):
        yield left_out(template, f"{task}: a part of the functions has no example, so that nothing is probed")
        return
    states, clusters = states_of(plain), plain["cluster"].to_numpy()[parts.test]
    count, gold = len(examples.classes), labels[parts.test]
    (found,) = probe_unchecked(states, labels[None], count, parts)
    layers = range(len(states))
    accuracy = dataclasses.replace(template, metric="accuracy")
    yield from mean_rows(accuracy, found.predicted == gold, clusters, [{"layer": at} for at in layers])
    common = gold == int(np.bincount(labels[parts.train], minlength=count).argmax())
    yield from mean_rows(dataclasses.replace(accuracy, control=MAJORITY), common[None], clusters, [{}])
    gain = dataclasses.replace(template, metric="gain", control=MAJORITY)
    for at, dimension in ((found.best, BEST), (layer, AT_ERASED)):
        if at is not None:
            own = dataclasses.replace(gain, layer=at).within(dimension)
            yield from trained_rows(own, found.predicted[at] == gold, clusters, less=common)
    if layer is None or is_whole(task):
        return
    words = dataclasses.replace(examples, frame=plain).words
    seeds = [derive_seed("control task", template.seed, number) % 2**63 for number in range(ENOUGH_SEEDS)]
    drawn = np.stack([control_labels(words, labels, seed) for seed in seeds])
    learned = probe_unchecked(states[layer][None], drawn, count, parts)
    right = np.stack([one.predicted[0] == own[parts.test] for one, own in zip(learned, drawn, strict=True)])
    own = dataclasses.replace(template, control=CONTROL_TASK, layer=layer, seeds=ENOUGH_SEEDS)
    yield from trained_rows(dataclasses.replace(own, metric="accuracy").within(AT_ERASED), right, clusters)
    yield from trained_rows(
        dataclasses.replace(own, metric="gain").within(AT_ERASED), found.predicted[layer] == gold, clusters,
        less=right,
    )  # fmt: skip


def left_behind(rows: pl.DataFrame, examples: PropertyExamples, template: Score) -> Iterator[Score]:
    """What new probes find behind an erasure, at its layer and at later ones, and with nothing erased.

    They are trained and tested, fold by fold, on functions that the map was not fitted to: on the others a
    probe is at the commonest class by construction, and what is left would not be seen.
    """
    accuracy = dataclasses.replace(template, metric="accuracy")
    plain = cross_fitted(rows.filter(pl.col("method").is_null()), examples, template.seed)
    if plain is None:
        yield left_out(
            template,
            f"{template.task}: functions that no map was fitted to lie in too few clusters, or lack a class, "
            "so that what is left behind an erasure is not probed",
        )
        return
    gold, clusters, before = plain
    common = gold == np.bincount(gold).argmax()
    nothing = accuracy.within((ERASED, NOTHING))
    yield from mean_rows(nothing, before == gold, clusters, [{"layer": at} for at in range(len(before))])
    yield from mean_rows(dataclasses.replace(nothing, control=MAJORITY), common[None], clusters)
    mine = rows.filter((pl.col("subject") == template.task) & (pl.col("kind") == LEACE))
    for layer in sorted(set(mine["layer"].to_list())):
        found = cross_fitted(mine.filter(pl.col("layer") == layer), examples, template.seed)
        if found is not None:
            gold, clusters, after = found
            fields = [{"layer": layer + later} for later in range(len(after))]
            yield from mean_rows(accuracy.within((ERASED, str(layer))), after == gold, clusters, fields)


def cross_fitted(rows: pl.DataFrame, examples: PropertyExamples, seed: int) -> _Test | None:
    """Probes of every layer, fold by fold over whole clusters, in functions that no map was fitted to.

    Args:
        rows: States, of one change or of none.
        examples: The examples.
        seed: Deals folds, alike for all states of the same examples.

    Returns:
        None where clusters are too few, or a fold would not learn two classes.
    """
    from sonde.training.probes.linear import probe_unchecked

    unseen = examples.frame.filter(pl.col("split") != "train")
    held = examples_of(examples.task, unseen, rows)
    if held.is_empty():
        return None
    labels, clusters = numbered(held, examples.classes), held["cluster"].to_numpy()
    groups = np.unique(clusters.astype(str), return_inverse=True)[1]
    try:
        folds = grouped_folds(labels, groups, FOLDS, seed)
    except InputError:
        return None
    if any(len(np.unique(labels[fold.train])) < 2 for fold in folds):
        return None
    states = states_of(held)
    predicted = np.zeros((len(states), len(labels)), dtype=np.int64)
    for fold in folds:
        (found,) = probe_unchecked(states, labels[None], len(examples.classes), fold)
        predicted[:, fold.test] = found.predicted
    return labels, clusters, predicted
