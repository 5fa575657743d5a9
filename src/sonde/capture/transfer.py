"""One copy to the device and one back a batch: at each the processor waits for the device, or it for him.

What a batch needs there is added to an `Upload` before the forward, what it gave to a `Download` after it. On
a processor nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_ALIGNED = 16
"""Bytes that each array begins at a multiple of: any type can then be read in place."""


class Sent:
    """An array of an `Upload`."""

    __slots__ = ("tensor",)

    tensor: Tensor
    """Where the model is; there once the upload was sent."""


class Fetched:
    """A tensor of a `Download`."""

    __slots__ = ("array",)

    array: np.ndarray
    """The same on the processor; there once the download was fetched."""


class Upload:
    """Arrays that go to a device in one copy, from pinned memory, which it fetches by itself.

    Args:
        device: Where to.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._held: list[tuple[np.ndarray, Sent]] = []

    def add(self, array: np.ndarray) -> Sent:
        """Take an array; it must stay as it is until `send`."""
        sent = Sent()
        self._held.append((np.ascontiguousarray(array), sent))
        return sent

    def send(self) -> None:
        """Send all that was added since the last time."""
        held, self._held = self._held, []
        if self.device.type == "cpu":
            for array, sent in held:
                sent.tensor = torch.from_numpy(array)
            return
        begins: list[int] = []
        size = 0
        for array, _ in held:
            begins.append(size)
            size += -(-array.nbytes // _ALIGNED) * _ALIGNED
        if not size:
            begins, size = [0] * len(held), _ALIGNED
        packed = torch.empty(size, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        into = packed.numpy()
        for begin, (array, _) in zip(begins, held, strict=True):
            into[begin : begin + array.nbytes] = array.reshape(-1).view(np.uint8)
        there = packed.to(self.device, non_blocking=True)
        for begin, (array, sent) in zip(begins, held, strict=True):
            flat = there[begin : begin + array.nbytes]
            sent.tensor = flat.view(_TYPES[array.dtype.str]).view(array.shape)


class Download:
    """Tensors that come from a device in one copy."""

    def __init__(self) -> None:
        self._held: list[tuple[Tensor, Fetched]] = []

    def add(self, tensor: Tensor) -> Fetched:
        """Take a tensor."""
        fetched = Fetched()
        self._held.append((tensor, fetched))
        return fetched

    def add_all(self, tensors: Sequence[Tensor]) -> list[Fetched]:
        """Take several tensors."""
        return [self.add(one) for one in tensors]

    def fetch(self) -> None:
        """Fetch all that was added since the last time."""
        held, self._held = self._held, []
        if all(tensor.device.type == "cpu" for tensor, _ in held):
            for tensor, fetched in held:
                fetched.array = tensor.numpy()
            return
        # Wide types first, so that each begins at a multiple of its own size.
        held.sort(key=lambda one: -one[0].element_size())
        # Layers of a model over several devices give theirs to that of the first tensor.
        there = held[0][0].device
        flat = [tensor.to(there).contiguous().view(-1).view(torch.uint8) for tensor, _ in held]
        bytes_here = torch.cat(flat).cpu().numpy()
        begin = 0
        for (tensor, fetched), part in zip(held, flat, strict=True):
            mine = bytes_here[begin : begin + len(part)]
            fetched.array = mine.view(_NAMES[tensor.dtype]).reshape(tuple(tensor.shape))
            begin += len(part)


_TYPES = {
    np.dtype(kind).str: getattr(torch, kind)
    for kind in ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
}
_NAMES = {kind: np.dtype(name) for name, kind in _TYPES.items()}
