"""Lenses: the questions that sonde asks of a model."""

from sonde.base.registry import Registry
from sonde.lenses._lens import LensSettings, ReadingLens, Scoring

LENSES: Registry[ReadingLens] = Registry("sonde.lenses", "lens", "lens")

__all__ = ["LENSES", "LensSettings", "ReadingLens", "Scoring"]
