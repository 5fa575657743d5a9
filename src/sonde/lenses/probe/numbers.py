"""Regressions on the number before classes, with and without what length says of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from sonde.lenses.probe.data import Examples, States
from sonde.lenses.probe.options import Probing
from sonde.lenses.probe.rows import BEST, r2_rows, spearman_row
from sonde.results.scores import Score

RIDGE = "ridge"
WITHOUT_LENGTH = "without length"
"""Slice of scores from which length is partialled out."""


def numbers(states: States, examples: Examples, options: Probing, template: Score) -> Iterator[Score]:
    """R2 of every layer, R2 and rank correlation of the one chosen on validation, and length's own R2.

    Partialled out means: the regression is on what is left of the number when length (code tokens and
    characters, as they are and in logarithms) has said what it can by least squares. Where nothing is left,
    as with the length itself, there are no such rows.
    """
    from sonde.training.probes.ridge import regress_layers, without_length

    held = np.flatnonzero(np.isfinite(examples.values))
    if len(held) < len(examples.values):
        examples, states = examples.only(held), states[:, held]
    parts = examples.parts
    clusters = examples.clusters[parts.test]
    rest = without_length(examples.values, examples.lengths, parts)
    targets = {"all": examples.values} if rest is None else {"all": examples.values, WITHOUT_LENGTH: rest}
    found = regress_layers(
        states, np.stack(list(targets.values())), parts, name=examples.task, device=options.device
    )
    for name, one in zip(targets, found, strict=True):
        params = [{"l2": l2, "name": RIDGE} for l2 in one.l2.tolist()]
        fields = [{"layer": layer, "slice": name, "params": each} for layer, each in enumerate(params)]
        yield from r2_rows(
            dataclasses.replace(template, metric="r2"), one.gold, one.predicted, clusters, fields
        )
        where = BEST if name == "all" else f"{BEST};{name}"
        best = {"layer": one.best, "slice": where, "params": params[one.best]}
        chosen = one.predicted[[one.best]]
        yield from r2_rows(dataclasses.replace(template, metric="r2"), one.gold, chosen, clusters, [best])
        ranked = dataclasses.replace(template, metric="spearman")
        yield spearman_row(ranked, one.gold, chosen[0], clusters, best, template.seed)
    if rest is not None:
        said = (examples.values - rest)[parts.test][None]
        control = dataclasses.replace(template, metric="r2", control="length")
        row = {"slice": "all", "params": {"name": RIDGE}}
        yield from r2_rows(control, examples.values[parts.test], said, clusters, [row])
