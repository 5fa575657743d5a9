"""Lenses: the questions that sonde asks of a model."""

from sonde.base.registry import Registry
from sonde.lenses.engine.lens import (
    CapturedItem,
    Control,
    ControlObservations,
    Lens,
    LensSettings,
    Method,
    ReadingLens,
    ScoringContext,
    Training,
    TrainingLens,
)

LENSES: Registry[Lens] = Registry("sonde.lenses", "lens", "lens", protocols=(ReadingLens, TrainingLens))

DEFAULT_LENS = "surprisal"
"""The lens of a run that names none."""


def load_reading_lens(source: str) -> ReadingLens:
    """Load a lens by name or path that is known to read a frozen model."""
    lens = LENSES.load(source)
    assert isinstance(lens, ReadingLens), source
    return lens


def load_training_lens(source: str) -> TrainingLens:
    """Load a lens by name or path that is known to train."""
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
    "LensSettings",
    "Method",
    "ReadingLens",
    "ScoringContext",
    "Training",
    "TrainingLens",
    "load_reading_lens",
    "load_training_lens",
]
