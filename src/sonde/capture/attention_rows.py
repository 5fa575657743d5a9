"""Selected rows of attention matrices, as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from sonde.capture.attention_backend import RowReader
from sonde.capture.hidden_states import select_layers
from sonde.capture.hooks import text_side
from sonde.capture.reducer import BatchReducer, ForwardBatch, ForwardStates, Reducer
from sonde.capture.requests import InputRows
from sonde.capture.tensors import PendingDownload
from sonde.capture.windows import Row, pad_rows


class RowReducer(Reducer[InputRows]):
    """Reads rows of the side that reads the text; an answer is (layer, head, row, subword)."""

    kind = InputRows

    def plan(self, batch: ForwardBatch) -> BatchReducer[Any] | None:
        """Plan the query columns that any row of a batch holds."""
        queries = [self._find_queries(row) for row in batch.rows]
        return _RowBatch(self, batch, queries) if any(map(len, queries)) else None

    def _find_queries(self, row: Row) -> Int[np.ndarray, "query 2"]:
        """Return the requested queries that a row holds: index in the request, and column."""
        request = self.requests.get(row.source)
        columns = np.array(request.rows if request else (), dtype=np.int64) - row.origin
        index = np.flatnonzero((row.read_start <= columns) & (columns < row.read_stop))
        return np.stack([index, columns[index]], axis=1)

    def add(self, row: Row, queries: Int[np.ndarray, "query 2"], attention: np.ndarray) -> None:
        """Add what one window gave, by layer, head, query and column."""
        subwords = len(self.block.get_item(row).alignment.subwords)
        if row.source not in self.answers:
            shape = (*attention.shape[:2], len(self.requests[row.source].rows), subwords)
            self.answers[row.source] = np.zeros(shape, dtype=np.float32)
        first, last = max(0, row.origin), min(subwords, row.origin + attention.shape[3])
        columns = slice(first - row.origin, last - row.origin)
        self.answers[row.source][:, :, queries[:, 0], first:last] = attention[..., columns]


class _RowBatch(BatchReducer[RowReducer]):
    """Keeps the rows of one batch."""

    def __init__(
        self, reducer: RowReducer, batch: ForwardBatch, queries: list[Int[np.ndarray, "query 2"]]
    ) -> None:
        super().__init__(reducer, batch)
        self._queries = queries
        columns = batch.upload.add(pad_rows([row_queries[:, 1] for row_queries in queries], 0))
        self._reader = RowReader(text_side(reducer.block.loaded), columns)
        self.readers = (self._reader,)
        self._layers: dict[int, PendingDownload] = {}

    def reduce(self, states: ForwardStates) -> None:
        """Add the rows of the requested layers to the download."""
        requests = [self.reducer.requests.get(row.source) for row in self.batch.rows]
        requested_layers = [request.layers for request in requests if request is not None]
        name = self.reducer.block.loaded.spec.name
        layers = select_layers(requested_layers, len(self._reader.layers), "attention layer", name)
        self._layers = {layer: self.batch.download.add(self._reader.layers[layer]) for layer in layers}

    def store(self) -> None:
        """Add the rows of each row of the batch to those of its input."""
        for index, (row, queries) in enumerate(zip(self.batch.rows, self._queries, strict=True)):
            if not len(queries):
                continue
            row_layers = self.reducer.requests[row.source].layers
            layers = [self._layers[layer].array for layer in (row_layers or self._layers)]
            attention = np.stack(
                [layer_rows[index, :, : len(queries), : len(row.tokens)] for layer_rows in layers]
            )
            if not np.isfinite(attention).all():
                raise self.reducer.block.build_error(row, ": attention rows are not finite")
            self.reducer.add(row, queries, attention)
