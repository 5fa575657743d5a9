"""Lenses: the questions that sonde asks of a model."""

from sonde.base.options import Options
from sonde.base.registry import Registry
from sonde.lenses._defaults import LensDefaults
from sonde.lenses._lens import (
    Captured,
    Control,
    ControlObservations,
    Lens,
    LensSettings,
    Method,
    ReadingLens,
    Scoring,
    Training,
    TrainingLens,
)

LENSES: Registry[Lens] = Registry("sonde.lenses", "lens", "lens", protocols=(ReadingLens, TrainingLens))

DEFAULT_LENS = "surprisal"
"""The lens of a run that names none."""


def typed_options(lens: Lens) -> type[Options]:
    """The typed options of a lens; none where it names its options in a mapping alone."""
    return lens.typed_options if isinstance(lens, LensDefaults) else Options


def reading_lens(source: str) -> ReadingLens:
    """A lens by name or path that is known to read a frozen model."""
    lens = LENSES.load(source)
    assert isinstance(lens, ReadingLens), source
    return lens


def training_lens(source: str) -> TrainingLens:
    """A lens by name or path that is known to train."""
    lens = LENSES.load(source)
    assert isinstance(lens, TrainingLens), source
    return lens


__all__ = [
    "DEFAULT_LENS",
    "LENSES",
    "Captured",
    "Control",
    "ControlObservations",
    "Lens",
    "LensDefaults",
    "LensSettings",
    "Method",
    "ReadingLens",
    "Scoring",
    "Training",
    "TrainingLens",
    "reading_lens",
    "training_lens",
    "typed_options",
]
