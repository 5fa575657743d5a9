"""Sums over many ranges of one axis, as products with matrices of zeros and weights.

Most of such a matrix is zero, since the ranges follow each other. On a processor it is therefore cut into
bands of a few ranges and the stretch that these span; on an accelerator one product of the batch is cheaper.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.capture.transfer import Upload

_BAND = 32


class Ranges:
    """Ranges of an axis, for each row of a batch.

    Args:
        start: First place of each range.
        stop: One past its last place; an empty range sums to zero.
        upload: Takes the bounds to where the values are; sent before the first sum.
        mean: Whether ranges are averaged instead of added up.
    """

    def __init__(
        self,
        start: Int[np.ndarray, "batch range"],
        stop: Int[np.ndarray, "batch range"],
        upload: Upload,
        *,
        mean: bool = False,
    ) -> None:
        self._count, self._mean = start.shape[1], mean
        self._start, self._stop = start, stop
        self._bounds = upload.add(start), upload.add(stop)
        self._made: Float[Tensor, "batch place range"] | None = None
        self._bands: list[tuple[int, slice, slice, Float[Tensor, "place range"]]] = []
        self._banded = upload.device.type == "cpu"

    def _matrix(self, size: int) -> Float[Tensor, "batch place range"]:
        """The matrix of an axis of so many places, made when the first values come."""
        if self._made is None:
            begins, ends = (sent.tensor[:, None] for sent in self._bounds)
            place = torch.arange(size, device=begins.device)[:, None]
            self._made = ((place >= begins) & (place < ends)).float()
            if self._mean:
                self._made /= self._made.sum(1, keepdim=True).clamp(min=1)
            if self._banded:
                for row in range(len(self._start)):
                    self._add_bands(self._made, row, self._start[row], self._stop[row])
        return self._made

    def over_last(self, values: Float[Tensor, "batch row place"]) -> Float[Tensor, "batch row range"]:
        """Sum over the last axis."""
        whole = self._matrix(values.shape[2])
        if not self._banded:
            return torch.bmm(values, whole)
        sums = values.new_zeros((*values.shape[:2], self._count))
        for row, ranges, places, matrix in self._bands:
            torch.mm(values[row, :, places], matrix, out=sums[row, :, ranges])
        return sums

    def over_rows(self, values: Float[Tensor, "batch place column"]) -> Float[Tensor, "batch range column"]:
        """Sum over the middle axis."""
        whole = self._matrix(values.shape[1])
        if not self._banded:
            return torch.bmm(whole.transpose(1, 2), values)
        sums = values.new_zeros((len(values), self._count, values.shape[2]))
        for row, ranges, places, matrix in self._bands:
            torch.mm(matrix.T, values[row, places], out=sums[row, ranges])
        return sums

    def _add_bands(
        self,
        whole: Float[Tensor, "batch place range"],
        row: int,
        start: Int[np.ndarray, " range"],
        stop: Int[np.ndarray, " range"],
    ) -> None:
        for at in range(0, len(start), _BAND):
            held = start[at : at + _BAND] < stop[at : at + _BAND]
            if held.any():
                first = int(start[at : at + _BAND][held].min())
                last = int(stop[at : at + _BAND][held].max())
                ranges, places = slice(at, min(at + _BAND, len(start))), slice(first, last)
                self._bands.append((row, ranges, places, whole[row, places, ranges].contiguous()))
