"""What a checkpoint holds: its body alone, or the head of the class that reads it as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sonde.base.errors import InputError
from sonde.models._family import LoadedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What the files of a checkpoint hold of the class that reads it, beside the body.

    Attributes:
        head: Whether there is a head.
        tied: Whether all of its weights are the body's, its input embeddings.
    """

    head: bool
    tied: bool


_of_models: WeakKeyDictionary[Any, Contents] = WeakKeyDictionary()


def remember(model: Any, contents: Contents) -> None:
    """Note what the files of a model held when it was read."""
    _of_models[model] = contents


def contents_of(model: Any) -> Contents | None:
    """What the files of a model held when it was read; None of weights that come from no file."""
    return _of_models.get(model)


def refuse_without_head(loaded: LoadedModel) -> None:
    """Refuse to score or write with a model whose files hold no head.

    Raises:
        InputError: They hold the body alone.
    """
    if not loaded.capabilities.head:
        raise InputError(
            f"model {loaded.spec.name!r} has {loaded.capabilities.lacks}: its files hold its body alone; "
            "ask for states or attention, or name a checkpoint saved with its head"
        )
