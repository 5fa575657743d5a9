"""Tensors of a batch: model inputs, gathered positions and transfers between host and device.

Each batch has one copy to the device and one back, since at each copy the CPU waits for the device or the
device for the CPU. Arrays for the device are added to an `Upload` before the forward pass, results to a
`Download` after it. On a CPU nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.capture.windows import Row, pad_rows
from sonde.models import LoadedModel

_ALIGNED = 16
"""Bytes that each array begins at a multiple of: any type can then be read in place."""


class PendingUpload:
    """An array of an `Upload`."""

    __slots__ = ("tensor",)

    tensor: Tensor
    """Where the model is; there once the upload was sent."""


class PendingDownload:
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
        self._held: list[tuple[np.ndarray, PendingUpload]] = []

    def add(self, array: np.ndarray) -> PendingUpload:
        """Take an array; it must stay as it is until `send`."""
        upload = PendingUpload()
        self._held.append((np.ascontiguousarray(array), upload))
        return upload

    def send(self) -> None:
        """Send all that was added since the last time."""
        entries, self._held = self._held, []
        if self.device.type == "cpu":
            for array, upload in entries:
                upload.tensor = torch.from_numpy(array)
            return
        begins: list[int] = []
        size = 0
        for array, _ in entries:
            begins.append(size)
            size += -(-array.nbytes // _ALIGNED) * _ALIGNED
        if not size:
            begins, size = [0] * len(entries), _ALIGNED
        buffer = torch.empty(size, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        target = buffer.numpy()
        for begin, (array, _) in zip(begins, entries, strict=True):
            target[begin : begin + array.nbytes] = array.reshape(-1).view(np.uint8)
        device_buffer = buffer.to(self.device, non_blocking=True)
        for begin, (array, upload) in zip(begins, entries, strict=True):
            flat = device_buffer[begin : begin + array.nbytes]
            upload.tensor = flat.view(_TYPES[array.dtype.str]).view(array.shape)


class Download:
    """Tensors that come from a device in one copy."""

    def __init__(self) -> None:
        self._held: list[tuple[Tensor, PendingDownload]] = []

    def add(self, tensor: Tensor) -> PendingDownload:
        """Take a tensor."""
        download = PendingDownload()
        self._held.append((tensor, download))
        return download

    def add_all(self, tensors: Sequence[Tensor]) -> list[PendingDownload]:
        """Take several tensors."""
        return [self.add(tensor) for tensor in tensors]

    def fetch(self) -> None:
        """Fetch all that was added since the last time."""
        entries, self._held = self._held, []
        if all(tensor.device.type == "cpu" for tensor, _ in entries):
            for tensor, download in entries:
                download.array = tensor.numpy()
            return
        # Wide types first, so that each begins at a multiple of its own size.
        entries.sort(key=lambda pair: -pair[0].element_size())
        # Layers of a model over several devices give theirs to that of the first tensor.
        device = entries[0][0].device
        flat = [tensor.to(device).contiguous().view(-1).view(torch.uint8) for tensor, _ in entries]
        bytes_here = torch.cat(flat).cpu().numpy()
        begin = 0
        for (tensor, download), part in zip(entries, flat, strict=True):
            part_bytes = bytes_here[begin : begin + len(part)]
            download.array = part_bytes.view(_NAMES[tensor.dtype]).reshape(tuple(tensor.shape))
            begin += len(part)


_TYPES = {
    np.dtype(kind).str: getattr(torch, kind)
    for kind in ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
}


_NAMES = {kind: np.dtype(name) for name, kind in _TYPES.items()}


class BatchTokens:
    """Ids and mask of a batch that is read as it is.

    Of a decoder padding stands to the right, where no real position looks: without a mask the fused
    triangular attention applies and positions count from 0, as they should.

    Args:
        batch: The rows.
        kind: Kind of the model.
        fill: Id of the padding.
        upload: Takes them to where the model is.
    """

    def __init__(self, batch: Sequence[Row], kind: str, fill: int, upload: Upload) -> None:
        self._kind = kind
        self._tokens = upload.add(pad_rows([row.tokens for row in batch], fill))
        needs_no_mask = kind == "decoder" and all(row.attended < 0 for row in batch)
        self._mask = None if needs_no_mask else upload.add(build_attention_mask(batch))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the body, once the upload was sent."""
        arguments: dict[str, Any] = {"input_ids": self._tokens.tensor}
        if self._kind == "decoder":
            arguments["use_cache"] = False
        if self._mask is not None:
            arguments["attention_mask"] = self._mask.tensor
        return arguments


def build_attention_mask(batch: Sequence[Row]) -> Int[np.ndarray, "batch token"]:
    """Mark the columns of a batch that are seen."""
    width = max(len(row.tokens) for row in batch)
    visible_stop = np.array([len(row.tokens) if row.attended < 0 else row.attended for row in batch])
    return (np.arange(width) < visible_stop[:, None]).astype(np.int64)


def gather_positions(
    last: Float[Tensor, "batch token d_model"], positions: tuple[PendingUpload, PendingUpload]
) -> Tensor:
    """Gather the states at the scored positions, row after row, on the batch's device."""
    index, query = positions
    # Of a model over several devices the last layer need not lie where the first one reads.
    states = last[index.tensor.to(last.device), query.tensor.to(last.device)]
    return states.to(index.tensor.device)


def build_decoder(loaded_model: LoadedModel, batch: Sequence[Row], upload: Upload) -> Callable[..., None]:
    """Let the decoder of an encoder-decoder read the same items, after its start token."""
    special = loaded_model.special
    start = special.pad if special.bos is None else special.bos
    suffix_length = len(special.suffix)
    rows = [
        np.concatenate([[start], row.tokens[-row.origin : len(row.tokens) - suffix_length]]) for row in batch
    ]
    tokens = upload.add(pad_rows(rows, special.pad))

    def decode(states: Float[Tensor, "batch token d_model"], mask: Tensor, **options: bool) -> None:
        loaded_model.model.get_decoder()(
            input_ids=tokens.tensor,
            encoder_hidden_states=states,
            encoder_attention_mask=mask,
            use_cache=False,
            **options,
        )

    return decode


@contextmanager
def use_matmul_precision(tf32: bool) -> Generator[None]:
    """Let an accelerator multiply float32 with fewer digits, if so asked for and not otherwise."""
    previous = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(previous)
