"""Scores read off every layer of a batch: the logit lens (nostalgebraist 2020)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from sonde.base.errors import CaptureError, not_finite
from sonde.capture.collect import RowResult
from sonde.capture.reducers import score_positions
from sonde.capture.requests import ScoredLayers
from sonde.capture.rows import Row
from sonde.capture.states import vectors
from sonde.capture.transfer import Download, Fetched, Upload
from sonde.capture.union import MergedRequests
from sonde.models import LoadedModel
from sonde.models._heads import WholeHead
from sonde.models._norms import LastSteps, last_steps

_KEPT = ("nats", "rank", "top_ids")


class LayerReader:
    """Reads the layers of one model through its head.

    Args:
        loaded: The model.
        head: From states to logits.
        chunk: States whose logits exist at the same time.
    """

    def __init__(self, loaded: LoadedModel, head: WholeHead, chunk: int) -> None:
        self.loaded = loaded
        self._head = head
        self._chunk = chunk

    @cached_property
    def steps(self) -> LastSteps:
        """What the model does behind its last layer."""
        return last_steps(self.loaded)

    def of(self, batch: Sequence[Row], wanted: Sequence[MergedRequests], upload: Upload) -> LayerReading:
        """The scores that are asked of one batch."""
        return LayerReading(self, batch, wanted, upload)

    def scores(
        self, states: Sequence[Tensor], index: Tensor, column: Tensor, gold: Tensor
    ) -> list[list[Tensor]]:
        """Scores of some positions, a layer each.

        Args:
            states: The states of all layers, the last as the head takes them.
            index: Row of each position.
            column: Its column.
            gold: The id that is right there.
        """
        found: list[list[Tensor]] = []
        for layer, held in enumerate(states):
            own = held[index.to(held.device), column.to(held.device)]
            own = own if layer == len(states) - 1 else self.steps(own)
            scored = score_positions(own.to(gold.device), self._head, gold, top_k=1, chunk=self._chunk)
            found.append([getattr(scored, name) for name in _KEPT])
        return found


class LayerReading:
    """The scores from every layer that are asked of one batch; `LayerReader.of` makes it.

    Args:
        reader: Reads the layers.
        batch: The rows.
        wanted: What is asked of each row.
        upload: Takes places and right ids to where the model is.
    """

    def __init__(
        self, reader: LayerReader, batch: Sequence[Row], wanted: Sequence[MergedRequests], upload: Upload
    ) -> None:
        chosen = [np.isin(row.target, one.depth) for row, one in zip(batch, wanted, strict=True)]
        self._reader = reader
        self._batch = batch
        self._targets = [row.target[mine] for row, mine in zip(batch, chosen, strict=True)]
        self._fetched: list[list[Fetched]] = []
        if self.asked:
            lengths = [len(one) for one in self._targets]
            column = [row.query[mine] for row, mine in zip(batch, chosen, strict=True)]
            gold = [row.gold[mine] for row, mine in zip(batch, chosen, strict=True)]
            self._index = upload.add(np.repeat(np.arange(len(batch)), lengths))
            self._column, self._gold = upload.add(np.concatenate(column)), upload.add(np.concatenate(gold))

    @property
    def asked(self) -> bool:
        """Whether any position is read off the layers."""
        return any(map(len, self._targets))

    def hand_in(self, output: Any, download: Download) -> None:
        """Score from each layer, and have the scores fetched.

        Args:
            output: What the model returned, with the states of all layers. The last of them is not looked at:
                some models return it behind their final norm, others before it.
            download: Fetches the scores.

        Raises:
            CaptureError: The model returned no states, or not one vector a subword.
            InputError: What the model does behind its last layer cannot be done to other states.
        """
        if not self.asked:
            return
        # Where an encoder-decoder is read as a whole, both sides have states.
        states = getattr(output, "decoder_hidden_states", None) or output.hidden_states
        held = vectors(states, len(self._batch), self._reader.loaded.spec.name)
        places = self._index.tensor, self._column.tensor, self._gold.tensor
        found = self._reader.scores([*held[:-1], output.last_hidden_state], *places)
        self._fetched = [download.add_all(one) for one in found]

    def added(self, results: Sequence[RowResult], where: Callable[[Row], str]) -> list[RowResult]:
        """Results with what was read off the layers, once it was fetched.

        Args:
            results: Of each row.
            where: What to call a row.

        Raises:
            CaptureError: A layer gives no finite number.
        """
        if not self._fetched:
            return [*results]
        nats, rank, top_id = (
            np.stack([layer[at].array.reshape(-1) for layer in self._fetched]) for at in range(len(_KEPT))
        )
        with_layers: list[RowResult] = []
        begin = 0
        for row, target, result in zip(self._batch, self._targets, results, strict=True):
            mine = slice(begin, begin + len(target))
            begin = mine.stop
            if not np.isfinite(nats[:, mine]).all():
                cause = not_finite(self._reader.loaded.model.dtype)
                raise CaptureError(f"{where(row)}: a layer read through the head is not finite; {cause}")
            found = ScoredLayers(target, nats[:, mine], rank[:, mine], top_id[:, mine])
            with_layers.append(replace(result, layers=found) if len(target) else result)
        return with_layers
