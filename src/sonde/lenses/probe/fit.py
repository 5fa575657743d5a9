"""The probes of a run in one form, whichever protocol trained them; torch is imported when they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from sonde.lenses.probe.examples import Examples, FittedProbes, States
from sonde.lenses.probe.options import ResolvedProbeOptions
from sonde.results.schema import SELECTION
from sonde.training.probes.splits import Splits, check_folds, check_states

if TYPE_CHECKING:
    from sonde.training.probes.adam import TrainedProbes
    from sonde.training.probes.linear import ProbeResult

BEST = (SELECTION, "best")
"""Dimension of scores of the layer that was chosen on validation."""


def join_folds(folds: Sequence[FittedProbes]) -> FittedProbes:
    """The folds as one, their tested examples one after the other."""
    penalties = np.stack([one.l2 for one in folds])
    return FittedProbes(
        kind=folds[0].kind,
        predicted=np.concatenate([one.predicted for one in folds], axis=1),
        correct=np.concatenate([one.correct for one in folds], axis=1),
        valid=np.mean([one.valid for one in folds], axis=0),
        l2=np.array([_commonest(held) for held in penalties.T.tolist()]),
        layers=tuple(layer for one in folds for layer in one.layers),
        sizes=tuple(size for one in folds for size in one.sizes),
    )


def _commonest(penalties: Sequence[float]) -> float:
    """Of equally frequent ones the strongest."""
    times = Counter(penalties)
    return max(times, key=lambda penalty: (times[penalty], penalty))


def fit_probes(states: States, examples: Examples, options: ResolvedProbeOptions) -> FittedProbes:
    """Probe the labels of a task, in every fold.

    Raises:
        InputError: States that are not finite, one class only, or a class missing in a split.
    """
    check_states(examples.task, states)
    check_folds(examples.task, examples.labels, examples.classes, examples.folds)
    if options.protocol.fit is not None:
        return options.protocol.fit(states, examples, options.device)
    return fit_label_sets(states, examples.labels[None], examples, examples.folds, options)[0]


def fit_label_sets(
    states: States,
    labels: Int[np.ndarray, "target example"],
    examples: Examples,
    folds: Sequence[Splits],
    options: ResolvedProbeOptions,
) -> list[FittedProbes]:
    """Linear probes for several label sets of the same classes at once."""
    from sonde.training.probes.linear import probe_without_checks

    found: list[list[FittedProbes]] = [[] for _ in labels]
    for parts in folds:
        probed = probe_without_checks(
            states, labels, len(examples.classes), parts, l2=options.l2, device=options.device
        )
        for own, one, gold in zip(found, probed, labels, strict=True):
            own.append(evaluate_probes("linear", one, gold[parts.test]))
    return [join_folds(own) for own in found]


def evaluate_probes(
    kind: str, probed: ProbeResult | TrainedProbes, gold: Int[np.ndarray, " tested"]
) -> FittedProbes:
    """The probes of one fold, held against the labels of its tested examples."""
    return FittedProbes(
        kind=kind,
        predicted=probed.predicted,
        correct=probed.predicted == gold,
        valid=probed.chosen_valid_accuracy,
        l2=probed.l2,
        layers=(probed.best,),
        sizes=(len(gold),),
    )


def fit_hidden_probes(
    states: States, examples: Examples, seeds: Sequence[int], options: ResolvedProbeOptions
) -> FittedProbes:
    """Probes with one hidden layer, in every fold; right is the share of the seeds that are."""
    from sonde.training.probes.adam import train_mlp_layers

    folds: list[FittedProbes] = []
    for parts in examples.folds:
        found = train_mlp_layers(
            states,
            examples.labels,
            examples.classes,
            parts,
            seeds=seeds,
            name=examples.task,
            device=options.device,
        )
        gold = examples.labels[parts.test]
        valid = np.mean([one.chosen_valid_accuracy for one in found], axis=0)
        folds.append(
            FittedProbes(
                kind="mlp",
                predicted=found[0].predicted,
                correct=np.mean([one.predicted == gold for one in found], axis=0),
                valid=valid,
                l2=found[0].l2,
                layers=(int(valid.argmax()),),
                sizes=(len(gold),),
            )
        )
    return join_folds(folds)
