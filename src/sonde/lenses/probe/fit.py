"""The probes of a run in one form, whichever protocol trained them; torch is imported when they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from sonde.lenses.probe.data import Examples, States
from sonde.lenses.probe.options import Probing
from sonde.training.probes.parts import Parts, check_labels, check_states


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Probes on every layer.

    Attributes:
        kind: ``linear``, ``mlp`` or ``paper``.
        predicted: Class that each layer's probe gives to each test example.
        correct: Whether it is right; a share of the seeds where there are several.
        valid: Validation accuracy of each layer.
        l2: Penalty chosen for each layer.
        best: Layer chosen on validation.
    """

    kind: str
    predicted: Int[np.ndarray, "layer test"]
    correct: Bool[np.ndarray, "layer test"] | Float[np.ndarray, "layer test"]
    valid: Float[np.ndarray, " layer"]
    l2: Float[np.ndarray, " layer"]
    best: int


def fit(states: States, examples: Examples, options: Probing) -> Fitted:
    """Probe the labels of a task.

    Raises:
        InputError: States that are not finite, one class only, or a class missing in a split.
    """
    check_states(examples.task, states)
    check_labels(examples.task, examples.labels, examples.classes, examples.parts)
    if not options.paper:
        return fit_several(states, examples.labels[None], examples, examples.parts, options)[0]
    from sonde.training.probes.adam import paper_layers

    found = paper_layers(
        states, examples.labels, examples.classes, examples.parts, name=examples.task, device=options.device
    )
    correct = found.predicted == examples.labels[examples.parts.test]
    return Fitted("paper", found.predicted, correct, found.valid_accuracy, found.l2, found.best)


def fit_several(
    states: States,
    labels: Int[np.ndarray, "target example"],
    examples: Examples,
    parts: Parts,
    options: Probing,
) -> list[Fitted]:
    """Linear probes for several label sets of the same classes at once."""
    from sonde.training.probes import probe_unchecked

    found = probe_unchecked(
        states, labels, len(examples.classes), parts, l2=options.l2, device=options.device
    )
    return [
        Fitted(
            kind="linear",
            predicted=one.predicted,
            correct=one.predicted == gold[parts.test],
            valid=one.chosen_valid_accuracy,
            l2=one.l2,
            best=one.best,
        )
        for one, gold in zip(found, labels, strict=True)
    ]


def fit_hidden(states: States, examples: Examples, seeds: Sequence[int], options: Probing) -> Fitted:
    """Probes with one hidden layer; right is the share of the seeds that are."""
    from sonde.training.probes.adam import mlp_layers

    found = mlp_layers(
        states,
        examples.labels,
        examples.classes,
        examples.parts,
        seeds=seeds,
        name=examples.task,
        device=options.device,
    )
    gold = examples.labels[examples.parts.test]
    correct = np.mean([one.predicted == gold for one in found], axis=0)
    valid = np.mean([one.valid_accuracy for one in found], axis=0)
    return Fitted("mlp", found[0].predicted, correct, valid, found[0].l2, int(valid.argmax()))
