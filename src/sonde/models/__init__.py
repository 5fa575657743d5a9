"""Models: any checkpoint that transformers loads, by path, hub name or bundled name."""

from sonde.base.registry import Registry
from sonde.models._family import Capabilities, Family, LoadedModel, ModelSpec, SpecialTokens

FAMILIES: Registry[Family] = Registry("sonde.models", "model family", "family")

__all__ = ["FAMILIES", "Capabilities", "Family", "LoadedModel", "ModelSpec", "SpecialTokens"]
