"""Scores read off every layer through the head: the logit lens (nostalgebraist 2020).

The states of a layer go through the model's final norm and head.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from sonde.capture.hidden_states import subword_vectors
from sonde.capture.reducer import BatchReducer, ForwardBatch, ForwardStates, Reducer
from sonde.capture.requests import InputLayers, ScoredLayers
from sonde.capture.scoring import SharedStates, score_positions
from sonde.capture.tensors import PendingDownload
from sonde.capture.windows import Row
from sonde.models.engine.lm_head import LastSteps, last_steps


class LayerScoreReducer(Reducer[InputLayers]):
    """Reads layers through the head of one model."""

    kind = InputLayers

    @cached_property
    def steps(self) -> LastSteps:
        """Return the model's own steps after its last layer."""
        return last_steps(self.block.loaded)

    def plan(self, batch: ForwardBatch) -> BatchReducer[Any] | None:
        """Plan the entries of a batch that any of its rows holds."""
        entries = [self._select_entries(row) for row in batch.rows]
        return _LayerBatch(self, batch, entries) if any(map(len, entries)) else None

    def _select_entries(self, row: Row) -> Int[np.ndarray, "entry 2"]:
        """Select the entries that a row holds: index among its targets, and the other id."""
        request = self.requests.get(row.source)
        index = {target: column for column, target in enumerate(row.target.tolist())} if request else {}
        entries = request.entries if request else ()
        entries_of_row = [(index[position], other_id) for position, other_id in entries if position in index]
        return np.array(sorted(entries_of_row), dtype=np.int64).reshape(-1, 2)

    def get_answer(self, source: int) -> ScoredLayers | None:
        """Return what the windows of an input gave, in the order of positions."""
        windows: list[ScoredLayers] | None = self.answers.get(source)
        if not windows:
            return None
        position, other_ids = (
            np.concatenate([getattr(window, name) for window in windows]) for name in ("position", "other")
        )
        order = np.argsort(position, kind="stable")
        scores = (
            np.concatenate([getattr(window, name) for window in windows], axis=1)[:, order]
            for name in ("nats", "rank", "top_id", "margin")
        )
        states = [window.states for window in windows if window.states is not None]
        joined_states = np.concatenate(states, axis=1)[:, order] if states else None
        return ScoredLayers(position[order], other_ids[order], *scores, states=joined_states)


class _LayerBatch(BatchReducer[LayerScoreReducer]):
    """The entries of one batch: row, column, right id, and the id that it is compared with (-1 for none)."""

    needs_layers = True

    def __init__(
        self, reducer: LayerScoreReducer, batch: ForwardBatch, entries: Sequence[Int[np.ndarray, "entry 2"]]
    ) -> None:
        super().__init__(reducer, batch)
        self._entries = entries
        rows, upload = batch.rows, batch.upload
        index = [row_entries[:, 0] for row_entries in entries]
        other_ids = np.concatenate([row_entries[:, 1] for row_entries in entries])
        self._index = upload.add(np.repeat(np.arange(len(rows)), [len(row_entries) for row_entries in index]))
        self._column = upload.add(
            np.concatenate([row.query[row_entries] for row, row_entries in zip(rows, index, strict=True)])
        )
        self._gold = upload.add(
            np.concatenate([row.gold[row_entries] for row, row_entries in zip(rows, index, strict=True)])
        )
        self._other = upload.add(other_ids)
        self._contrasted = bool((other_ids >= 0).any())
        requests = [reducer.requests.get(row.source) for row in rows]
        self._states = any(request.states for request in requests if request is not None)
        self._scores: list[list[PendingDownload]] = []

    def reduce(self, states: ForwardStates) -> None:
        """Score from each layer, and have the scores fetched.

        The last of the layers is not looked at: with some models it is after their final norm, with others
        before it.
        """
        block = self.reducer.block
        vectors = subword_vectors(states.layers, len(self.batch.rows), block.loaded.spec.name)
        scores = self._score_layers([*vectors[:-1], states.last])
        self._scores = [self.batch.download.add_all(layer_scores) for layer_scores in scores]

    def _score_layers(self, layers: Sequence[Tensor]) -> list[list[Tensor]]:
        """Score the entries from each layer, the last as the head takes it."""
        gold, other_ids = self._gold.tensor, self._other.tensor
        source: SharedStates | None = None
        ids = gold
        if self._contrasted:
            # Both ids of a position are scored from one projection.
            ids = torch.stack([gold, torch.where(other_ids < 0, gold, other_ids)], 1).flatten()
            state_index = np.repeat(np.arange(len(gold)), 2)
            source = SharedStates(state_index, torch.from_numpy(state_index).to(gold.device))
        block = self.reducer.block
        scores: list[list[Tensor]] = []
        for layer, vectors in enumerate(layers):
            states = vectors[self._index.tensor.to(vectors.device), self._column.tensor.to(vectors.device)]
            states = states if layer == len(layers) - 1 else self.reducer.steps(states)
            position_scores = score_positions(
                states.to(gold.device), block.head, ids, top_k=1, chunk=block.chunk, source=source
            )
            nats, rank, top_id = position_scores.nats, position_scores.rank, position_scores.top_ids[:, 0]
            margin = torch.full_like(nats, torch.nan)
            if source is not None:
                difference = nats[1::2] - nats[::2]
                nats, rank, top_id = nats[::2], rank[::2], top_id[::2]
                margin = torch.where(other_ids < 0, torch.nan, difference)
            scores.append([nats, rank, top_id, margin, *([states.float()] if self._states else [])])
        return scores

    def store(self) -> None:
        """Store the entries of each row by input."""
        columns = [
            np.stack([download.array for download in column]) for column in zip(*self._scores, strict=True)
        ]
        begin = 0
        for row, entries in zip(self.batch.rows, self._entries, strict=True):
            columns_of_row = slice(begin, begin + len(entries))
            begin = columns_of_row.stop
            if not np.isfinite(columns[0][:, columns_of_row]).all():
                raise self.reducer.block.build_error(row, ": a layer read through the head is not finite")
            if len(entries):
                scores = (column[:, columns_of_row] for column in columns)
                window = ScoredLayers(row.target[entries[:, 0]], entries[:, 1], *scores)
                self.reducer.answers.setdefault(row.source, []).append(window)
