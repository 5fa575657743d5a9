"""Tensors of a processor that pose as an accelerator's: what a machine without one can find out.

Within `posing`, ``cuda:0`` exists: what is made there or moved there says that it is there, computes on the
processor, refuses to be mixed with tensors of the processor as a real one does, and cannot be read by numpy.
Whatever makes the processor wait for an accelerator is counted.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

_WAITS = (
    *("__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "item", "tolist"),
    *("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "is_nonzero"),
    *("allclose", "equal", "histc"),
)
"""What a device cannot answer without being waited for."""

_INDEXING = ("__getitem__", "__setitem__", "index_put", "index_put_")
_MOVES = ("to", "cuda", "cpu", "_to_copy", "type", "copy_", "set_", "__set__", "new_tensor")


class Posing(Tensor):
    """A tensor that says it lies on an accelerator."""

    place: torch.device


class Device(TorchFunctionMode):
    """The mode itself.

    Attributes:
        waits: How often the processor waited for the device, by what for; a copy from pinned memory, which is
            not waited for, is apart.
        forward: Is told of every product with weights before it is made; may raise what a full device does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.pinned = 0
        self.forward: Callable[..., None] = lambda *_: None

    @property
    def waited(self) -> int:
        """How often in all."""
        return self.waits.total()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        leaves = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        there = [one for one in leaves if isinstance(one, Posing)]
        if name == "__get__" and there:
            owner = getattr(func, "__self__", None)
            if owner is Tensor.device or owner is Tensor.is_cuda:
                return there[0].place if owner is Tensor.device else True
        if name == "_has_compatible_shallow_copy_type" and len(there) == 1:
            return False
        to = _asked(name, args, kwargs)
        if there:
            self._count(name, args, leaves, to)
            if name not in _MOVES:
                _refuse_mixing(name, leaves, there)
            if name == "numpy" or (name == "__array__" and to is None):
                raise TypeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu()")
        elif to is not None and to.type == "cuda" and leaves:
            waited = not (getattr(leaves[0], "is_pinned_here", False) and kwargs.get("non_blocking"))
            self.pinned += not waited
            self.waits["upload"] += waited
        elif to is not None and to.type == "cuda" and name in ("tensor", "as_tensor", "asarray"):
            self.waits["upload"] += 1
        pinned = kwargs.pop("pin_memory", False)
        if name not in ("_parse_to", "device"):
            args, kwargs = tree_map(_elsewhere, (args, kwargs))
        if name == "linear" and there:
            self.forward(*args)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        place = to or (there[0].place if there else torch.device("cpu"))
        if name == "copy_":
            return args[0]
        if name == "to" and isinstance(leaves[0], Posing) != (place.type == "cuda"):
            # Nothing that is changed there changes what it was copied from.
            result = result.clone()
        if pinned:
            result.is_pinned_here = True
        if isinstance(result, torch.Size):
            return result
        return tree_map(functools.partial(_placed, place=place), result)

    def _count(self, name: str, args: Any, leaves: list[Tensor], to: torch.device | None) -> None:
        alone = (name == "where" and len(args) == 1) or (
            name == "repeat_interleave" and len(leaves) > 1 and len(args) > 1
        )
        if name in _WAITS or alone:
            self.waits[name] += 1
        elif name in _INDEXING and isinstance(args[0], Posing):
            for one in args[1] if isinstance(args[1], list | tuple) else [args[1]]:
                self.waits["nonzero"] += isinstance(one, Tensor) and one.dtype == torch.bool
                self.waits["upload"] += isinstance(one, list | np.ndarray) or type(one) is Tensor
        elif name == "copy_" and len({isinstance(one, Posing) for one in leaves}) > 1:
            self.waits["upload" if isinstance(args[0], Posing) else "download"] += 1
        elif to is not None and to.type == "cpu":
            self.waits["download"] += 1


def _asked(name: str, args: Any, kwargs: dict[str, Any]) -> torch.device | None:
    """The device that a call names."""
    if name == "cpu":
        return torch.device("cpu")
    named = kwargs.get("device")
    if named is None and name == "to":
        named = next((one for one in args[1:] if isinstance(one, torch.device | str)), None)
        if named is None and len(args) > 1 and isinstance(args[1], Tensor):
            named = args[1].device
    if named is None or isinstance(named, int):
        return None
    named = torch.device(named)
    return torch.device("cuda", 0) if named == torch.device("cuda") else named


def _elsewhere(one: Any) -> Any:
    """What a call is given, for the processor that carries it out."""
    if isinstance(one, torch.device):
        return torch.device("cpu") if one.type == "cuda" else one
    return "cpu" if isinstance(one, str) and one.split(":")[0] == "cuda" else one


def _placed(one: Any, place: torch.device) -> Any:
    if not isinstance(one, Tensor):
        return one
    if place.type == "cuda" and not isinstance(one, Posing):
        one = one.as_subclass(Posing)
    elif place.type != "cuda" and isinstance(one, Posing):
        return one.as_subclass(Tensor)
    if isinstance(one, Posing):
        one.place = place
    return one


def _refuse_mixing(name: str, leaves: list[Tensor], there: list[Posing]) -> None:
    """As an accelerator does: only numbers without an axis, and indices, may come from the processor."""
    others = [one for one in leaves if not isinstance(one, Posing)]
    places = {str(one.place) for one in there}
    if (any(one.ndim for one in others) and name not in _INDEXING) or len(places) > 1:
        found = " and ".join(sorted({*places, *(["cpu"] if others else [])}))
        raise RuntimeError(f"Expected all tensors to be on the same device, but found {found} ({name})")


@contextmanager
def posing(devices: int = 1) -> Generator[Device]:
    """Let accelerators be there."""
    with (
        mock.patch.object(torch.cuda, "device_count", lambda: devices),
        mock.patch.object(torch.cuda, "get_rng_state", return_value=torch.zeros(0)),
        mock.patch.object(torch.cuda, "set_rng_state"),
        Device() as device,
    ):
        yield device
