"""Lenses: the questions that sonde asks of a model."""

from sonde.base.registry import Registry
from sonde.lenses._lens import (
    Captured,
    LensDefaults,
    LensSettings,
    ReadingLens,
    Scoring,
    Twin,
    TwinObservations,
)

LENSES: Registry[ReadingLens] = Registry("sonde.lenses", "lens", "lens")

__all__ = [
    "LENSES",
    "Captured",
    "LensDefaults",
    "LensSettings",
    "ReadingLens",
    "Scoring",
    "Twin",
    "TwinObservations",
]
