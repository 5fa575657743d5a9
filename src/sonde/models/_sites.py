"""Where a model can be changed on its way: its layers, the heads in them, and what gives its last states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sonde.base.errors import CaptureError
from sonde.models import _shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNames:
    """Names of one side's parts, below the body; of several names the first that the model has counts.

    Attributes:
        layers: The list of layers.
        heads: In a layer, the projection that mixes what its heads give; its input is one slice a head.
        cross: The same of attention to the other side, in the same layers.
        final: What gives the last states behind all layers, a norm; where there is none, the last layer does.
        count: Fields of the configuration that say how many query heads a layer has.
    """

    layers: tuple[str, ...]
    heads: tuple[str, ...]
    cross: tuple[str, ...] = ()
    final: tuple[str, ...] = ()
    count: tuple[str, ...] = ("num_attention_heads", "n_head", "num_heads")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelSide:
    """One side of a loaded model.

    Attributes:
        layers: Its layers, in order.
        heads: Output projections of their attention.
        cross: Output projections of their attention to the other side; empty where there is none.
        final: The module whose output the last states are, where that is not the last layer.
        count: Query heads a layer.
    """

    layers: tuple[Any, ...]
    heads: tuple[Any, ...]
    cross: tuple[Any, ...]
    final: Any | None
    count: int


Sites = Mapping[str, ModelSide]
"""The sides of a model: ``"encoder"``, ``"decoder"``."""


def find(body: Any, places: Mapping[str, ModuleNames], model: Any) -> Sites:
    """The modules that places name.

    Args:
        body: What their names begin at.
        places: Of each side.
        model: The whole, for its configuration.

    Raises:
        CaptureError: The model has no such modules.
    """
    return {side: _side(body, one, model) for side, one in places.items()}


def _side(body: Any, places: ModuleNames, model: Any) -> ModelSide:
    layers = _first(body, places.layers)
    if layers is None or not len(layers):
        raise _unknown(model, "layers")
    heads = tuple(_first(layer, places.heads) for layer in layers)
    cross = tuple(_first(layer, places.cross) for layer in layers) if places.cross else ()
    return ModelSide(
        layers=tuple(layers),
        heads=heads,
        cross=cross,
        final=_first(body, places.final),
        count=_shapes.number(_shapes.text_config(model.config), *places.count),
    )


def _first(module: Any, names: tuple[str, ...]) -> Any | None:
    """The first of several parts that a module has."""
    for name in names:
        at = module
        for part in name.split("."):
            at = getattr(at, part, None)
            if at is None:
                break
        else:
            return at
    return None


def _unknown(model: Any, what: str) -> CaptureError:
    return CaptureError(
        f"model class {type(model).__name__}: its family does not say where its {what} are, so nothing can "
        "be changed in it; read it as it is"
    )
