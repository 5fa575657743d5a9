"""Sums over many ranges of one axis, as products with matrices of zeros and weights.

Most of such a matrix is zero, since the ranges follow each other. On a processor it is therefore cut into
bands of a few ranges and the stretch that these span; on an accelerator one product of the batch is cheaper.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

_BAND = 32


class Ranges:
    """Ranges of an axis, for each row of a batch.

    Args:
        start: First place of each range.
        stop: One past its last place; an empty range sums to zero.
        size: Length of the axis.
        device: Where the values are.
        mean: Whether ranges are averaged instead of added up.
    """

    def __init__(
        self,
        start: Int[np.ndarray, "batch range"],
        stop: Int[np.ndarray, "batch range"],
        size: int,
        device: torch.device,
        *,
        mean: bool = False,
    ) -> None:
        self._count = start.shape[1]
        begins, ends = (torch.from_numpy(part).to(device)[:, None] for part in (start, stop))
        place = torch.arange(size, device=device)[:, None]
        matrix = ((place >= begins) & (place < ends)).float()
        if mean:
            matrix /= matrix.sum(1, keepdim=True).clamp(min=1)
        self._matrix: Float[Tensor, "batch place range"] = matrix
        self._bands: list[tuple[int, slice, slice, Float[Tensor, "place range"]]] = []
        self._banded = device.type == "cpu"
        if self._banded:
            for row in range(len(start)):
                self._add_bands(row, start[row], stop[row])

    def over_last(self, values: Float[Tensor, "batch row place"]) -> Float[Tensor, "batch row range"]:
        """Sum over the last axis."""
        if not self._banded:
            return torch.bmm(values, self._matrix)
        sums = values.new_zeros((*values.shape[:2], self._count))
        for row, ranges, places, matrix in self._bands:
            torch.mm(values[row, :, places], matrix, out=sums[row, :, ranges])
        return sums

    def over_rows(self, values: Float[Tensor, "batch place column"]) -> Float[Tensor, "batch range column"]:
        """Sum over the middle axis."""
        if not self._banded:
            return torch.bmm(self._matrix.transpose(1, 2), values)
        sums = values.new_zeros((len(values), self._count, values.shape[2]))
        for row, ranges, places, matrix in self._bands:
            torch.mm(matrix.T, values[row, places], out=sums[row, ranges])
        return sums

    def _add_bands(self, row: int, start: Int[np.ndarray, " range"], stop: Int[np.ndarray, " range"]) -> None:
        for at in range(0, len(start), _BAND):
            held = start[at : at + _BAND] < stop[at : at + _BAND]
            if held.any():
                first = int(start[at : at + _BAND][held].min())
                last = int(stop[at : at + _BAND][held].max())
                ranges, places = slice(at, min(at + _BAND, len(start))), slice(first, last)
                self._bands.append((row, ranges, places, self._matrix[row, places, ranges].contiguous()))
