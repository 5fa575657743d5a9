"""Deviations of INSPECT's released code from the lens `probe`, each from the corrected rule."""

from __future__ import annotations

from collections.abc import Mapping

from sonde.base.options import Option
from sonde.lenses.probe.fit import (
    DEFAULTS,
    PROTOCOL,
    Examples,
    FittedProbes,
    ProbeProtocol,
    States,
    evaluate_probes,
)
from sonde.papers.quirks import build_paper_preset


def adam_protocol(protocol: ProbeProtocol) -> ProbeProtocol:
    """Train with Adam on unscaled states, one item at a time, always 20 epochs, with one test part."""
    return ProbeProtocol(fit=fit_with_adam, uses_folds=False, alone_first=True)


def fit_with_adam(states: States, examples: Examples, device: str) -> FittedProbes:
    """Fit the published probes of every layer."""
    # Imported here: what only asks for the quirks does not wait for torch.
    from sonde.papers.inspect.adam import train_adam_layers

    (parts,) = examples.folds
    probes = train_adam_layers(
        states, examples.labels, examples.classes, parts, name=examples.task, device=device
    )
    return evaluate_probes("paper", probes, examples.labels[parts.test])


def summary_token(options: Mapping[str, Option]) -> Mapping[str, Option]:
    """Pool whole texts at the summary token only."""
    return {**options, "pooling": "summary"}


def isolated_tokens(options: Mapping[str, Option]) -> Mapping[str, Option]:
    """Show a token alone, for which the lens has a switch."""
    return {**options, "isolated": True}


published = build_paper_preset(
    "inspect",
    "probe",
    {
        "inspect.adam_protocol": PROTOCOL.quirk(adam_protocol),
        "inspect.summary_token": DEFAULTS.quirk(summary_token),
        "inspect.isolated_tokens": DEFAULTS.quirk(isolated_tokens),
    },
)
