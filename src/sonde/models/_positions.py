"""How many positions a model has: read off the tables that it looks its positions up in.

A configuration says how many rows such a table has, and not how many of them a text can use: RoBERTa and its
like, MPNet, data2vec or Nystromformer begin behind a padding id or an offset. So a few subwords are read at
several lengths: each table of the model's own whose used part grows with the text is one of positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from sonde.models._family import LoadedModel
from sonde.models._samples import forward_rows

_LENGTHS = (24, 36, 48)
"""Subwords that are read: more than relative positions have buckets for single distances."""

_Table = tuple[int, int, int]
"""Storage of a tensor, an axis of it and its size."""


def table_positions(loaded: LoadedModel) -> int | None:
    """The longest row that fits into all tables of positions; None where the model has none.

    Args:
        loaded: The model; of one with two sides both are read.
    """
    special = loaded.special
    usual = next(
        one
        for one in range(loaded.capabilities.vocab)
        if one not in {*special.prefix, *special.suffix, special.pad, special.mask, special.bos}
    )
    most = min(loaded.capabilities.context // 2, _LENGTHS[-1])
    lengths = sorted({length * most // _LENGTHS[-1] for length in _LENGTHS})
    if len(lengths) < len(_LENGTHS) or lengths[0] < 1:
        return None
    used: list[dict[_Table, int]] = []
    for length in lengths:
        with torch.no_grad(), _Watch(loaded.model) as watch:
            forward_rows(loaded, [[usual] * length])
        used.append(watch.used)
    found: list[int] = []
    for table in used[0].keys() & used[1].keys() & used[2].keys():
        before = {one[table] - length for one, length in zip(used, lengths, strict=True)}
        if len(before) == 1:
            found.append(table[2] - before.pop())
    return min(found, default=None)


class _Watch(TorchDispatchMode):
    """Notes how far into each tensor of a model's own it is looked.

    Args:
        model: The model.

    Attributes:
        used: The largest index plus one, by tensor and axis.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._own = {one.untyped_storage().data_ptr() for one in _tensors(model)}
        self.used: dict[_Table, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, and note what it looks up."""
        for table, axis, last in _lookups(func, args):
            storage = table.untyped_storage().data_ptr()
            if storage in self._own:
                key = (storage, axis, table.shape[axis])
                self.used[key] = max(self.used.get(key, 0), last)
        return func(*args, **(kwargs or {}))


def _tensors(model: Any) -> Iterator[Tensor]:
    """Parameters, buffers, and tensors that modules merely hold."""
    for module in model.modules():
        held = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
        yield from (one for one in held if isinstance(one, Tensor) and one.device.type != "meta")


def _lookups(func: Any, args: tuple[Any, ...]) -> Iterator[tuple[Tensor, int, int]]:
    """The table, the axis, and the largest index plus one of each look-up of an operation."""
    aten = torch.ops.aten
    if func is aten.embedding.default:
        yield args[0], 0, _last(args[1])
    elif func in (aten.index_select.default, aten.gather.default):
        yield args[0], args[1] % args[0].ndim, _last(args[2])
    elif func is aten.index.Tensor:
        for axis, index in enumerate(args[1]):
            if isinstance(index, Tensor) and index.dtype not in (torch.bool, torch.uint8):
                yield args[0], axis, _last(index)
    elif func is aten.slice.Tensor and len(args) > 3 and args[3] is not None:
        axis = args[1] % args[0].ndim
        yield args[0], axis, min(args[3], args[0].shape[axis])


def _last(index: Tensor) -> int:
    return int(index.max()) + 1 if index.numel() else 0
