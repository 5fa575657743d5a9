"""Hidden states of a batch: sums over segments, and scores read off every layer (logit lens).

`PooledStates` sums the states of the requested layers over segments of the rows, on the model's device.
`LayerScorer` applies the model's final norm and head to every layer (nostalgebraist 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, InputError, explain_nan
from sonde.capture.collect import RowResult
from sonde.capture.merge_requests import MergedRequests
from sonde.capture.requests import ScoredLayers
from sonde.capture.scoring import SharedStates, score_positions
from sonde.capture.tensors import Download, PendingDownload, PendingUpload, Upload
from sonde.capture.windows import Row
from sonde.models import LoadedModel
from sonde.models.engine.lm_head import FullHead, LastSteps, last_steps


def segment_mask(
    start: Int[Tensor, "batch segment"], stop: Int[Tensor, "batch segment"], tokens: int
) -> Bool[Tensor, "batch segment token"]:
    """Which tokens lie in which segments, from their half-open bounds."""
    place = torch.arange(tokens, device=start.device)
    return (place >= start[:, :, None]) & (place < stop[:, :, None])


def pool_states(
    states: Float[Tensor, "batch token d_model"], weights: Bool[Tensor, "batch segment token"]
) -> Float[Tensor, "batch segment d_model"]:
    """Sum hidden states over segments of each row, in float32."""
    # Padding may hold anything, infinity included, and 0 * inf is not 0.
    used = weights.any(1)
    kept = states.float().masked_fill(~used[:, :, None], 0.0)
    return torch.bmm(weights.float(), kept)


class PooledStates:
    """The sums that are asked of one batch.

    Args:
        bounds: Segments of each row, half-open columns; `sonde.capture.collect.state_segments` gives them.
        layers: The layers that each row asks for; None for all, no layer where it asks for nothing.
        upload: Takes the bounds to where the model is.
        model: What to call the model.
        what: What to call a layer of it.
    """

    def __init__(
        self,
        bounds: Sequence[Sequence[tuple[int, int]]],
        layers: Sequence[tuple[int, ...] | None],
        upload: Upload,
        model: str,
        what: str = "layer",
    ) -> None:
        self._asked = layers
        self._model = model
        self._what = what
        self._counts = [len(one) for one in bounds]
        sides = np.zeros((2, len(bounds), max(self._counts, default=0)), dtype=np.int64)
        for row, spans in enumerate(bounds):
            if spans:
                sides[:, row, : len(spans)] = np.array(spans, dtype=np.int64).T
        self._sides = upload.add(sides) if self.has_requests else None
        self._layers: list[int] = []
        self._fetched: PendingDownload | None = None

    @property
    def has_requests(self) -> bool:
        """Whether any row asks for states."""
        return any(one is None or one for one in self._asked)

    def hand_in(self, states: Sequence[Tensor | None] | None, download: Download) -> None:
        """Sum the states of the layers that are asked for, and have them fetched.

        Args:
            states: What the model returned, a layer each.
            download: Fetches the sums.

        Raises:
            CaptureError: The model returned no states, or not one vector a subword.
            InputError: A layer is asked for that the model does not have.
        """
        if self._sides is None:
            return
        start, stop = self._sides.tensor
        held = subword_vectors(states, len(start), self._model)
        self._layers = select_layers(self._asked, len(held), self._what, self._model)
        within = segment_mask(start, stop, held[0].shape[1])
        self._fetched = download.add(
            torch.stack([pool_states(held[layer].to(within.device), within) for layer in self._layers])
        )

    def results(self) -> list[Float[np.ndarray, "layer segment d_model"] | None]:
        """The sums of each row, once they were fetched."""
        if self._fetched is None:
            return [None] * len(self._asked)
        sums = self._fetched.array.astype(np.float64)
        places = {layer: at for at, layer in enumerate(self._layers)}
        return [
            sums[[*places.values()] if one is None else [places[layer] for layer in one], row, :count]
            if one is None or one
            else None
            for row, (one, count) in enumerate(zip(self._asked, self._counts, strict=True))
        ]

    def first_non_finite(self) -> tuple[int, int] | None:
        """The first row and layer whose sums are not finite; None where all are."""
        if self._fetched is None or np.isfinite(self._fetched.array).all():
            return None
        finite = np.asarray(np.isfinite(self._fetched.array).all(axis=(2, 3)))
        for row, one in enumerate(self._asked):
            for place, layer in enumerate(self._layers):
                if (one is None or layer in one) and not finite[place, row]:
                    return row, layer
        return None


def select_layers(asked: Sequence[tuple[int, ...] | None], count: int, what: str, model: str) -> list[int]:
    """The layers that any row asks for.

    Raises:
        InputError: A layer that the model does not have.
    """
    found = sorted({layer for one in asked for layer in (range(count) if one is None else one)})
    for layer in found:
        if not 0 <= layer < count:
            raise InputError(f"model {model!r} has no {what} {layer}; it has 0 to {count - 1}")
    return found


def subword_vectors(states: Sequence[Tensor | None] | None, rows: int, model: str) -> list[Tensor]:
    """The states of all layers, one vector a subword."""
    held = [one for one in states or () if one is not None]
    if not held or len(held) < len(states or ()):
        raise CaptureError(f"model {model!r} returned no hidden states though asked for them")
    shapes = [tuple(one.shape) for one in held]
    odd = [shape for shape in shapes if len(shape) != 3 or shape[:2] != shapes[0][:2]]
    if odd or shapes[0][0] != rows:
        raise CaptureError(
            f"model {model!r}: its hidden states are {' x '.join(map(str, (odd or shapes)[0]))}, "
            "not one vector a subword; ask for losses instead"
        )
    return held


class LayerReader:
    """Reads the layers of one model through its head.

    Args:
        loaded: The model.
        head: From states to logits.
        chunk: States whose logits exist at the same time.
    """

    def __init__(self, loaded: LoadedModel, head: FullHead, chunk: int) -> None:
        self.loaded = loaded
        self._head = head
        self._chunk = chunk

    @cached_property
    def steps(self) -> LastSteps:
        """What the model does behind its last layer."""
        return last_steps(self.loaded)

    def build_scorer(
        self, batch: Sequence[Row], wanted: Sequence[MergedRequests], upload: Upload
    ) -> LayerScorer:
        """The scores that are asked of one batch."""
        return LayerScorer(self, batch, wanted, upload)

    def scores(self, states: Sequence[Tensor], entries: _Entries) -> list[list[Tensor]]:
        """Scores of some positions, a layer each.

        Args:
            states: The states of all layers, the last as the head takes them.
            entries: Where they are, and what is right there.
        """
        gold, other = entries.gold.tensor, entries.other.tensor
        source: SharedStates | None = None
        ids = gold
        if entries.contrasted:
            # Both ids of a position are scored from one projection.
            ids = torch.stack([gold, torch.where(other < 0, gold, other)], 1).flatten()
            here = np.repeat(np.arange(len(gold)), 2)
            source = SharedStates(here, torch.from_numpy(here).to(gold.device))
        found: list[list[Tensor]] = []
        for layer, held in enumerate(states):
            own = held[entries.index.tensor.to(held.device), entries.column.tensor.to(held.device)]
            own = own if layer == len(states) - 1 else self.steps(own)
            scored = score_positions(
                own.to(gold.device), self._head, ids, top_k=1, chunk=self._chunk, source=source
            )
            nats, rank, top_id = scored.nats, scored.rank, scored.top_ids[:, 0]
            margin = torch.full_like(nats, torch.nan)
            if source is not None:
                apart = nats[1::2] - nats[::2]
                nats, rank, top_id = nats[::2], rank[::2], top_id[::2]
                margin = torch.where(other < 0, torch.nan, apart)
            found.append([nats, rank, top_id, margin, *([own.float()] if entries.states else [])])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Positions of a batch that are read off the layers.

    Attributes:
        index: The row of each.
        column: Its column.
        gold: The id that is right there.
        other: The id that it is held against, -1 for none.
        contrasted: Whether there is any such id.
        states: Whether the states are wanted as well.
    """

    index: PendingUpload
    column: PendingUpload
    gold: PendingUpload
    other: PendingUpload
    contrasted: bool
    states: bool


class LayerScorer:
    """The scores from every layer that are asked of one batch; `LayerReader.build_scorer` makes it.

    Args:
        reader: Reads the layers.
        batch: The rows.
        wanted: What is asked of each row.
        upload: Takes places and right ids to where the model is.
    """

    def __init__(
        self, reader: LayerReader, batch: Sequence[Row], wanted: Sequence[MergedRequests], upload: Upload
    ) -> None:
        self._reader = reader
        self._batch = batch
        # Of each row: index among the columns that it is scored at, and the id that is held against it.
        self._asked = [_select_entries(row, one.depth) for row, one in zip(batch, wanted, strict=True)]
        self._fetched: list[list[PendingDownload]] = []
        if self.has_requests:
            at = [found[:, 0] for found in self._asked]
            other = np.concatenate([found[:, 1] for found in self._asked])
            self._entries = _Entries(
                index=upload.add(np.repeat(np.arange(len(batch)), [len(one) for one in at])),
                column=upload.add(
                    np.concatenate([row.query[one] for row, one in zip(batch, at, strict=True)])
                ),
                gold=upload.add(np.concatenate([row.gold[one] for row, one in zip(batch, at, strict=True)])),
                other=upload.add(other),
                contrasted=bool((other >= 0).any()),
                states=any(one.depth_states for one in wanted),
            )

    @property
    def has_requests(self) -> bool:
        """Whether any position is read off the layers."""
        return any(map(len, self._asked))

    def hand_in(self, states: Sequence[Tensor | None], last: Tensor, download: Download) -> None:
        """Score from each layer, and have the scores fetched.

        Args:
            states: What the model returned, a layer each. The last of them is not looked at: with some models
                it is behind their final norm, with others before it.
            last: The last states, as the head is given them.
            download: Fetches the scores.

        Raises:
            CaptureError: The model returned no states, or not one vector a subword.
            InputError: What the model does behind its last layer cannot be done to other states.
        """
        held = subword_vectors(states, len(self._batch), self._reader.loaded.spec.name)
        found = self._reader.scores([*held[:-1], last], self._entries)
        self._fetched = [download.add_all(one) for one in found]

    def extend_results(self, results: Sequence[RowResult], where: Callable[[Row], str]) -> list[RowResult]:
        """Results with what was read off the layers, once it was fetched.

        Args:
            results: Of each row.
            where: What to call a row.

        Raises:
            CaptureError: A layer gives no finite number.
        """
        if not self._fetched:
            return [*results]
        held = [np.stack([layer[at].array for layer in self._fetched]) for at in range(len(self._fetched[0]))]
        with_layers: list[RowResult] = []
        begin = 0
        for row, asked, result in zip(self._batch, self._asked, results, strict=True):
            mine = slice(begin, begin + len(asked))
            begin = mine.stop
            if not np.isfinite(held[0][:, mine]).all():
                cause = explain_nan(self._reader.loaded.model.dtype)
                raise CaptureError(f"{where(row)}: a layer read through the head is not finite; {cause}")
            found = ScoredLayers(row.target[asked[:, 0]], asked[:, 1], *(one[:, mine] for one in held))
            with_layers.append(replace(result, layers=found) if len(asked) else result)
        return with_layers


def _select_entries(row: Row, entries: Sequence[tuple[int, int]]) -> Int[np.ndarray, "entry 2"]:
    """Of the entries those that a row holds: index among its targets, and the other id."""
    places = {target: at for at, target in enumerate(row.target.tolist())}
    found = [(places[position], other) for position, other in entries if position in places]
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)
