"""Lenses: the questions that sonde asks of a model."""

from collections.abc import Mapping

from sonde.base.options import Option, Options
from sonde.base.registry import Registry
from sonde.lenses.engine.lens import (
    CapturedItem,
    Control,
    ControlObservations,
    Lens,
    LensDefaults,
    LensSettings,
    Method,
    PairingLens,
    ReadingLens,
    ScoringContext,
    Training,
    TrainingLens,
)

LENSES: Registry[Lens] = Registry("sonde.lenses", "lens", "lens", protocols=(ReadingLens, TrainingLens))

DEFAULT_LENS = "surprisal"
"""The lens of a run that names none."""


def get_option_type(lens: Lens) -> type[Options]:
    """The typed options of a lens; none where it names its options in a mapping alone."""
    return lens.typed_options if isinstance(lens, LensDefaults) else Options


def get_paired_tasks(lens: Lens, options: Mapping[str, Option]) -> tuple[str, ...]:
    """The tasks that options of a lens have it read as minimal pairs; empty for none."""
    return lens.pairs(options) if isinstance(lens, PairingLens) else ()


def load_reading_lens(source: str) -> ReadingLens:
    """A lens by name or path that is known to read a frozen model."""
    lens = LENSES.load(source)
    assert isinstance(lens, ReadingLens), source
    return lens


def load_training_lens(source: str) -> TrainingLens:
    """A lens by name or path that is known to train."""
    lens = LENSES.load(source)
    assert isinstance(lens, TrainingLens), source
    return lens


__all__ = [
    "DEFAULT_LENS",
    "LENSES",
    "CapturedItem",
    "Control",
    "ControlObservations",
    "Lens",
    "LensDefaults",
    "LensSettings",
    "Method",
    "PairingLens",
    "ReadingLens",
    "ScoringContext",
    "Training",
    "TrainingLens",
    "get_option_type",
    "get_paired_tasks",
    "load_reading_lens",
    "load_training_lens",
]
