"""Hidden states and head outputs of a batch, summed over segments of the rows on the model's device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, InputError
from sonde.capture.hooks import keep_head_outputs, text_side
from sonde.capture.reducer import BatchReducer, ForwardBatch, ForwardStates, Reducer
from sonde.capture.requests import InputHeads, InputStates
from sonde.capture.tensors import PendingDownload
from sonde.capture.windows import Row
from sonde.models import SpecialTokens

S = TypeVar("S", InputStates, InputHeads)

Segments = list[tuple[int, int]]
"""Columns of a row that vectors are summed over, half-open; empty where the row adds nothing."""


def segment_mask(
    start: Int[Tensor, "batch segment"], stop: Int[Tensor, "batch segment"], tokens: int
) -> Bool[Tensor, "batch segment token"]:
    """Mark the tokens of each segment, given half-open bounds."""
    columns = torch.arange(tokens, device=start.device)
    return (columns >= start[:, :, None]) & (columns < stop[:, :, None])


def pool_states(
    states: Float[Tensor, "batch token d_model"], weights: Bool[Tensor, "batch segment token"]
) -> Float[Tensor, "batch segment d_model"]:
    """Sum hidden states over segments of each row, in float32."""
    # Padding may hold anything, infinity included, and 0 * inf is not 0.
    used = weights.any(1)
    states_in_use = states.float().masked_fill(~used[:, :, None], 0.0)
    return torch.bmm(weights.float(), states_in_use)


class _SegmentReducer(Reducer[S]):
    """Averages vectors of layers over segments, which several windows may hold parts of.

    Attributes:
        layer_name: What messages call a layer.
    """

    layer_name = "layer"

    def get_segments(self, row: Row) -> Segments:
        """Return the segments of a row in the order of its request."""
        raise NotImplementedError

    def add(self, source: int, sums: Float[np.ndarray, "layer segment width"], segments: Segments) -> None:
        """Add what one window holds."""
        counts = np.array([max(0, stop - start) for start, stop in segments], dtype=np.float64)
        known_sums, known_counts = self.answers.get(source, (0, 0))
        self.answers[source] = sums + known_sums, counts + known_counts

    def get_means(self, source: int) -> Float[np.ndarray, "layer segment width"] | None:
        """Return means over the segments, NaN for an empty one; None where nothing was added."""
        if source not in self.answers:
            return None
        sums, counts = self.answers[source]
        with np.errstate(invalid="ignore"):
            return (sums / counts[:, None]).astype(np.float32)


class StateReducer(_SegmentReducer[InputStates]):
    """Pools hidden states."""

    kind = InputStates

    def get_segments(self, row: Row) -> Segments:
        """Return a segment per pooling, and one per span for ``"spans"``."""
        request, subwords = self.requests[row.source], len(self.block.get_item(row).alignment.subwords)
        segments: Segments = []
        for pooling in request.pooling:
            if pooling == "summary":
                segments.append(_summary_column(row, self.block.loaded.special))
            elif pooling == "spans":
                segments += [_clip_to_row(row, start, stop) for start, stop in request.spans]
            else:
                segments.append(_clip_to_row(row, 0 if pooling == "mean" else subwords - 1, subwords))
        return segments

    def get_answer(self, source: int) -> dict[str, np.ndarray] | None:
        """Return the means by pooling."""
        means = self.get_means(source)
        if means is None:
            return None
        request = self.requests[source]
        states: dict[str, np.ndarray] = {}
        begin = 0
        for pooling in request.pooling:
            stop = begin + (len(request.spans) if pooling == "spans" else 1)
            states[pooling] = means[:, begin:stop] if pooling == "spans" else means[:, begin]
            begin = stop
        return states


class HeadReducer(_SegmentReducer[InputHeads]):
    """Averages what heads give over spans."""

    kind = InputHeads
    layer_name = "attention layer"

    def get_segments(self, row: Row) -> Segments:
        """Return a segment per span."""
        return [_clip_to_row(row, start, stop) for start, stop in self.requests[row.source].spans]

    def get_answer(self, source: int) -> Float[np.ndarray, "layer span head d_head"] | None:
        """Return the means by layer, span and head."""
        means = self.get_means(source)
        heads = self.block.loaded.capabilities.heads
        return None if means is None else means.reshape(*means.shape[:2], heads, -1)


def _clip_to_row(row: Row, start: int, stop: int) -> tuple[int, int]:
    return max(start - row.origin, row.read_start), min(stop - row.origin, row.read_stop)


def _summary_column(row: Row, special: SpecialTokens) -> tuple[int, int]:
    """Return the first special token before the text, else after it; empty where none is."""
    if special.prefix:
        return 0, 1
    if special.suffix:
        column = len(row.tokens) - len(special.suffix)
        return column, column + 1
    return 0, 0


class _SegmentBatch(BatchReducer[_SegmentReducer[Any]]):
    """The sums of one batch over its segments."""

    needs_layers = True

    def __init__(self, reducer: _SegmentReducer[Any], batch: ForwardBatch) -> None:
        super().__init__(reducer, batch)
        self._requests = [reducer.requests.get(row.source) for row in batch.rows]
        self._segments = [
            reducer.get_segments(row) if request is not None else []
            for row, request in zip(batch.rows, self._requests, strict=True)
        ]
        bounds = np.zeros((2, len(batch.rows), max(map(len, self._segments))), dtype=np.int64)
        for row, segments in enumerate(self._segments):
            if segments:
                bounds[:, row, : len(segments)] = np.array(segments, dtype=np.int64).T
        self._bounds = batch.upload.add(bounds)
        self._layers: list[int] = []
        self._sums: PendingDownload | None = None

    def reduce(self, states: ForwardStates) -> None:
        """Sum the states of the requested layers, and have them fetched."""
        self.add_sums(states.layers)

    def add_sums(self, layers: Sequence[Tensor | None] | None) -> None:
        """Sum vectors of all layers over the segments, and have the sums of the requested ones fetched."""
        name = self.reducer.block.loaded.spec.name
        start, stop = self._bounds.tensor
        vectors = subword_vectors(layers, len(start), name)
        requested_layers = [request.layers for request in self._requests if request is not None]
        self._layers = select_layers(requested_layers, len(vectors), self.reducer.layer_name, name)
        mask = segment_mask(start, stop, vectors[0].shape[1])
        self._sums = self.batch.download.add(
            torch.stack([pool_states(vectors[layer].to(mask.device), mask) for layer in self._layers])
        )

    def store(self) -> None:
        """Add the sums of each row to those of its input."""
        assert self._sums is not None
        finite = np.asarray(np.isfinite(self._sums.array).all(axis=(2, 3)))
        index = {layer: column for column, layer in enumerate(self._layers)}
        sums = self._sums.array.astype(np.float64)
        for row_index, (row, request) in enumerate(zip(self.batch.rows, self._requests, strict=True)):
            if request is None:
                continue
            layers = [index[layer] for layer in (self._layers if request.layers is None else request.layers)]
            broken_layers = [layer for layer in sorted(layers) if not finite[layer, row_index]]
            if broken_layers:
                message = f": the hidden states of layer {self._layers[broken_layers[0]]} are not finite"
                raise self.reducer.block.build_error(row, message)
            segments = self._segments[row_index]
            self.reducer.add(row.source, sums[layers, row_index, : len(segments)], segments)


class _HeadBatch(_SegmentBatch):
    """The same of what heads give."""

    needs_layers = False

    def open_hooks(self) -> AbstractContextManager[Any]:
        """Return a context in which what heads give is kept."""
        block = self.reducer.block
        assert block.hooks is not None
        self._outputs: list[Tensor] = []
        return keep_head_outputs(block.hooks, text_side(block.loaded), self._outputs)

    def reduce(self, states: ForwardStates) -> None:
        """Sum what the heads of the requested layers give, and have the sums fetched."""
        self.add_sums(self._outputs)


StateReducer.batch_reducer = _SegmentBatch
HeadReducer.batch_reducer = _HeadBatch


def select_layers(
    requested_layers: Sequence[tuple[int, ...] | None], count: int, layer_name: str, model: str
) -> list[int]:
    """Return the layers that any row requests.

    Raises:
        InputError: A layer that the model does not have.
    """
    layers_in_use = sorted(
        {layer for layers in requested_layers for layer in (range(count) if layers is None else layers)}
    )
    for layer in layers_in_use:
        if not 0 <= layer < count:
            raise InputError(f"model {model!r} has no {layer_name} {layer}; it has 0 to {count - 1}")
    return layers_in_use


def subword_vectors(states: Sequence[Tensor | None] | None, rows: int, model: str) -> list[Tensor]:
    """Return the states of all layers, one vector per subword."""
    vectors = [layer_states for layer_states in states or () if layer_states is not None]
    if not vectors or len(vectors) < len(states or ()):
        raise CaptureError(f"model {model!r} returned no hidden states though asked for them")
    shapes = [tuple(layer_states.shape) for layer_states in vectors]
    odd = [shape for shape in shapes if len(shape) != 3 or shape[:2] != shapes[0][:2]]
    if odd or shapes[0][0] != rows:
        raise CaptureError(
            f"model {model!r}: its hidden states are {' x '.join(map(str, (odd or shapes)[0]))}, "
            "not one vector per subword; use its losses instead"
        )
    return vectors
