"""Regressions on the number before classes, with and without what length says of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.lenses.probe.controls import Surfaces
from sonde.lenses.probe.data import Examples, States
from sonde.lenses.probe.fit import BEST
from sonde.lenses.probe.options import Probing
from sonde.results import Score, r2_difference_rows, r2_rows, spearman_rows
from sonde.results.dimensions import Dimensions
from sonde.results.local_cues import LOCAL_CUES

if TYPE_CHECKING:
    from sonde.training.probes.ridge import Regressed

RIDGE = "ridge"
WITHOUT_LENGTH = ("length", "removed")
"""Dimension of scores from which length is partialled out."""


def numbers(
    states: States, examples: Examples, options: Probing, template: Score, surfaces: Surfaces | None = None
) -> Iterator[Score]:
    """R2 of every layer, R2 and rank correlation of the one chosen on validation, and R2 of baselines.

    Partialled out means: the regression is on what is left of the number when length (code tokens and
    characters, as they are and in logarithms) has said what it can by least squares. Where nothing is left,
    as with the length itself, there are no such rows.
    """
    from sonde.training.probes.ridge import regress_layers, without_length

    held = np.flatnonzero(np.isfinite(examples.values))
    if len(held) < len(examples.values):
        examples, states = examples.only(held), states[:, held]
    clusters = examples.clusters[examples.tested]
    rest = [without_length(examples.values, examples.lengths, parts) for parts in examples.folds]
    kept = [one for one in rest if one is not None]
    targets: dict[Dimensions, Sequence[Float[np.ndarray, " example"]]] = {(): [examples.values] * len(rest)}
    if len(kept) == len(rest):
        targets[(WITHOUT_LENGTH,)] = kept
    found = [
        regress_layers(states, np.stack(values), parts, name=examples.task, device=options.device)
        for parts, *values in zip(examples.folds, *targets.values(), strict=True)
    ]
    for place, target in enumerate(targets):
        yield from _rows([one[place] for one in found], clusters, target, template)
    if len(kept) == len(rest):
        said = [(examples.values - one)[parts.test] for one, parts in zip(kept, examples.folds, strict=True)]
        control = dataclasses.replace(template, metric="r2", control="length")
        row = {"method": RIDGE}
        gold = examples.values[examples.tested]
        yield from r2_rows(control, gold, np.concatenate(said)[None], clusters, [row])
    if surfaces is not None:
        yield from _beside_cues([one[0] for one in found], clusters, surfaces.of_cues(examples), template)


def _rows(
    folds: Sequence[Regressed], clusters: Int[np.ndarray, " tested"], target: Dimensions, template: Score
) -> Iterator[Score]:
    """Of one target: every layer, and the layer that each fold chose."""
    gold = np.concatenate([one.gold for one in folds])
    predicted = np.concatenate([one.predicted for one in folds], axis=1)
    l2 = np.median([one.l2 for one in folds], axis=0).tolist()
    fields = [
        {"layer": layer, "dimensions": target, "l2": each, "method": RIDGE} for layer, each in enumerate(l2)
    ]
    r2 = dataclasses.replace(template, metric="r2")
    yield from r2_rows(r2, gold, predicted, clusters, fields)
    best = {**fields[_best_layer(folds)], "dimensions": (BEST, *target)}
    chosen = _chosen(folds)
    yield from r2_rows(r2, gold, chosen[None], clusters, [best])
    ranked = dataclasses.replace(template, metric="spearman", **best)
    yield from spearman_rows(ranked, gold, chosen, clusters, template.seed)


def _best_layer(folds: Sequence[Regressed]) -> int:
    """Return the layer that most folds chose."""
    return Counter(one.best for one in folds).most_common(1)[0][0]


def _chosen(folds: Sequence[Regressed]) -> Float[np.ndarray, " tested"]:
    """Return what the layer says that each fold chose."""
    return np.concatenate([one.predicted[one.best] for one in folds])


def _beside_cues(
    folds: Sequence[Regressed], clusters: Int[np.ndarray, " tested"], cues: pl.DataFrame, template: Score
) -> Iterator[Score]:
    """Score local cues and the paired difference of the chosen layer to them."""
    if cues.is_empty() or cues["number"].has_nulls():
        return
    gold, said = np.concatenate([one.gold for one in folds]), cues["number"].to_numpy()
    own = dataclasses.replace(template, metric="r2", control=LOCAL_CUES, method=RIDGE).within(BEST)
    yield from r2_rows(own, gold, said[None], clusters)
    gain = dataclasses.replace(own, metric="cues_gain", of_metric="r2", layer=_best_layer(folds))
    yield from r2_difference_rows(gain, gold, _chosen(folds), said, clusters)
