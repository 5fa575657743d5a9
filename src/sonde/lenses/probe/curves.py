"""How accuracy grows with the examples, and how short the labels' code becomes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from sonde.base.fingerprint import derive_seed
from sonde.lenses.probe.data import Examples, States
from sonde.lenses.probe.fit import fit_several
from sonde.lenses.probe.options import SIZES, Probing
from sonde.results import Score, mean_rows
from sonde.training.probes.parts import Parts

TRAIN_SHARE, VALID_SHARE = 0.6, 0.2


def curves(states: States, examples: Examples, options: Probing, template: Score) -> Iterator[Score]:
    """Accuracy of the layer chosen on validation, by the size of the data set.

    A set of N examples trains on 60 % of N and chooses on 20 %, drawn class by class; all are tested on the
    whole test part, so that sizes differ in nothing else. Each fold draws a set of its own; where there is
    one fold, several are drawn and averaged.
    """
    total = len(examples.labels)
    draws = options.seeds if len(examples.folds) == 1 else 1
    clusters = examples.clusters[examples.tested]
    for size in [size for size in SIZES if size < total]:
        correct: list[np.ndarray] = []
        for number in range(draws):
            folds: list[Parts] = []
            for fold, parts in enumerate(examples.folds):
                rng = np.random.default_rng(derive_seed("curve", template.seed, number + fold))
                folds.append(
                    Parts(
                        _drawn(parts.train, examples.labels, round(TRAIN_SHARE * size), rng),
                        _drawn(parts.valid, examples.labels, round(VALID_SHARE * size), rng),
                        parts.test,
                    )
                )
            (found,) = fit_several(states, examples.labels[None], examples, folds, options)
            correct.append(found.chosen(found.correct))
        row = {"dimensions": (("size", str(size)),), "k": size, "method": "linear"}
        own = dataclasses.replace(template, metric="accuracy")
        yield from mean_rows(own, np.mean(correct, axis=0)[None], clusters, [row])


def _drawn(
    rows: Int[np.ndarray, " row"], labels: Int[np.ndarray, " example"], size: int, rng: np.random.Generator
) -> Int[np.ndarray, " drawn"]:
    """So many of the rows, the classes in turn."""
    order = rng.permutation(rows)
    turn = np.empty(len(order))
    for label in np.unique(labels[order]):
        members = labels[order] == label
        turn[members] = np.arange(members.sum())
    return np.sort(order[np.argsort(turn, kind="stable")[:size]])


def codelength(states: States, examples: Examples, options: Probing, template: Score) -> Iterator[Score]:
    """Online codelength of the training labels: bits a label, and how often shorter than the uniform code.

    Every label is coded by probes of what came before it, so folds would add nothing: it is over the training
    part of the first fold.
    """
    from sonde.training.probes.codelength import online_codelength

    parts = examples.folds[0]
    found = online_codelength(
        states,
        examples.labels,
        len(examples.classes),
        parts,
        seed=template.seed,
        l2=options.l2,
        device=options.device,
    )
    clusters = len(np.unique(examples.clusters[parts.train]))
    for metric, values in (
        ("codelength", found.bits / found.items),
        ("compression", found.compression),
    ):
        for layer, value in enumerate(values.tolist()):
            assert math.isfinite(value)
            yield dataclasses.replace(
                template,
                metric=metric,
                split="train",
                layer=layer,
                value=value,
                n=found.items,
                n_clusters=clusters,
            )
