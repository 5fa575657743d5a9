"""From the results of rows to the capture of an input: what several windows read is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sonde.capture.merge_requests import MergedCapture, MergedRequests
from sonde.capture.requests import ScoredAnswers, ScoredLayers, ScoredSubwords, WordRanks
from sonde.capture.windows import Row
from sonde.models import SpecialTokens


@dataclass(frozen=True, slots=True, eq=False)
class RowResult:
    """What one row gave; fields not asked for are None.

    Attributes:
        scores: Scores of the row's targets, in their order, by their names in `ScoredSubwords`.
        sums: Hidden states of the wanted layers, summed over each of the row's `state_segments`.
        heads: What heads of the wanted layers give, summed over each of the row's `head_segments`.
        attention: Attention of the wanted layers, for the row's `attention_queries`.
        words: For each lookup of words that is wanted, ranks by side; empty where none were looked up.
        answers: Ranks of texts at the row's targets.
        layers: Scores of some of the row's targets from every layer.
    """

    scores: Mapping[str, Float[np.ndarray, ...] | Int[np.ndarray, ...]] | None = None
    sums: Float[np.ndarray, "layer segment d_model"] | None = None
    heads: Float[np.ndarray, "layer segment width"] | None = None
    attention: Float[np.ndarray, "layer head row token"] | None = None
    words: tuple[Mapping[str, WordRanks], ...] = ()
    answers: ScoredAnswers | None = None
    layers: ScoredLayers | None = None


Finish = Callable[[Sequence[RowResult]], list[RowResult]]
"""From the scores of rows to all that they get, once it was fetched."""


def state_segments(
    row: Row, wanted: MergedRequests, subwords: int, special: SpecialTokens
) -> list[tuple[int, int]]:
    """Columns of a row that each pooled vector is summed over, half-open; empty where the row adds nothing.

    The order is that of `wanted.pooling`, ``"spans"`` standing for all spans.
    """
    found: list[tuple[int, int]] = []
    for pooling in wanted.pooling:
        if pooling == "summary":
            found.append(_summary_column(row, special))
        elif pooling == "spans":
            found += [_clip_to_row(row, start, stop) for start, stop in wanted.spans]
        else:
            found.append(_clip_to_row(row, 0 if pooling == "mean" else subwords - 1, subwords))
    return found


def head_segments(row: Row, wanted: MergedRequests) -> list[tuple[int, int]]:
    """Columns of a row that what heads give is summed over, half-open."""
    return [_clip_to_row(row, start, stop) for start, stop in wanted.head_spans]


def attention_queries(row: Row, wanted: MergedRequests) -> list[tuple[int, int]]:
    """Attention rows that are read from this window: (index among the wanted rows, column)."""
    columns = [(index, position - row.origin) for index, position in enumerate(wanted.rows)]
    return [(index, column) for index, column in columns if row.read_start <= column < row.read_stop]


def _clip_to_row(row: Row, start: int, stop: int) -> tuple[int, int]:
    return max(start - row.origin, row.read_start), min(stop - row.origin, row.read_stop)


def _summary_column(row: Row, special: SpecialTokens) -> tuple[int, int]:
    """The first special token before the text, else the first one after it; nothing where there is none."""
    if special.prefix:
        return 0, 1
    if special.suffix:
        column = len(row.tokens) - len(special.suffix)
        return column, column + 1
    return 0, 0


class _Sums:
    """Sums over segments that several windows hold parts of."""

    def __init__(self) -> None:
        self._sums: Float[np.ndarray, "layer segment width"] | None = None
        self._counts = np.zeros(0)

    def add(self, sums: Float[np.ndarray, "layer segment width"], bounds: Sequence[tuple[int, int]]) -> None:
        """Add what one window holds."""
        counts = np.array([max(0, stop - start) for start, stop in bounds], dtype=np.float64)
        self._sums = sums + (0 if self._sums is None else self._sums)
        self._counts = counts if len(self._counts) == 0 else self._counts + counts

    def means(self) -> Float[np.ndarray, "layer segment width"] | None:
        """Means over the segments, NaN for an empty one; None where nothing was added."""
        if self._sums is None:
            return None
        with np.errstate(invalid="ignore"):
            return (self._sums / self._counts[:, None]).astype(np.float32)


class Collector:
    """Puts the windows of one input together.

    Args:
        item_id: The item.
        subwords: Its number of subwords.
        wanted: What is asked of the input.
        special: The model's special tokens.
        heads: Query heads a layer.
    """

    def __init__(
        self, item_id: str, subwords: int, wanted: MergedRequests, special: SpecialTokens, heads: int
    ) -> None:
        self._item_id = item_id
        self._subwords = subwords
        self._wanted = wanted
        self._special = special
        self._head_count = heads
        self._scores: ScoredSubwords | None = None
        if wanted.top_k is not None:
            self._scores = empty_scores(subwords, wanted.top_k)
        self._sums = _Sums()
        self._heads = _Sums()
        self._rows: Float[np.ndarray, "layer head row subword"] | None = None
        self._words: tuple[Mapping[str, WordRanks], ...] = ()
        self._layers: list[ScoredLayers] = []
        self._answers: ScoredAnswers | None = None
        if wanted.answers is not None:
            self._answers = empty_ranks(subwords)

    def add(self, row: Row, result: RowResult) -> None:
        """Add what one window gave."""
        if result.scores is not None and self._scores is not None:
            self._add_scores(row, result.scores, self._scores)
        if result.sums is not None:
            self._sums.add(result.sums, state_segments(row, self._wanted, self._subwords, self._special))
        if result.heads is not None:
            self._heads.add(result.heads, head_segments(row, self._wanted))
        if result.attention is not None:
            self._add_rows(row, result.attention)
        self._words = result.words or self._words
        if result.layers is not None:
            self._layers.append(result.layers)
        if result.answers is not None and self._answers is not None:
            for name in ("nats", "rank", "shared_nats", "shared_rank"):
                getattr(self._answers, name)[row.target] = getattr(result.answers, name)

    def finish(self) -> MergedCapture:
        """The capture, after the last window."""
        states: dict[str, Float[np.ndarray, ...]] = {}
        means, heads = self._sums.means(), self._heads.means()
        if means is not None:
            at = 0
            for pooling in self._wanted.pooling:
                width = len(self._wanted.spans) if pooling == "spans" else 1
                states[pooling] = means[:, at : at + width] if pooling == "spans" else means[:, at]
                at += width
        if heads is not None:
            heads = heads.reshape(*heads.shape[:2], self._head_count, -1)
        return MergedCapture(
            self._item_id,
            scores=self._scores,
            states=states,
            heads=heads,
            rows=self._rows,
            word_ranks=self._words,
            answers=self._answers,
            layers=_join_windows(self._layers),
        )

    def _add_scores(self, row: Row, scores: Mapping[str, np.ndarray], into: ScoredSubwords) -> None:
        at = row.target
        into.context[at], into.scored[at] = row.context, True
        for name, values in scores.items():
            held: np.ndarray = getattr(into, name)
            if values.ndim == 1:
                held[at] = values
            else:
                width = min(held.shape[1], values.shape[1])
                held[at, :width] = values[:, :width]

    def _add_rows(self, row: Row, attention: Float[np.ndarray, "layer head row token"]) -> None:
        if self._rows is None:
            shape = (*attention.shape[:2], len(self._wanted.rows), self._subwords)
            self._rows = np.zeros(shape, dtype=np.float32)
        first = max(0, row.origin)
        last = min(self._subwords, row.origin + attention.shape[3])
        for place, (index, _) in enumerate(attention_queries(row, self._wanted)):
            columns = slice(first - row.origin, last - row.origin)
            self._rows[:, :, index, first:last] = attention[:, :, place, columns]


def _join_windows(windows: Sequence[ScoredLayers]) -> ScoredLayers | None:
    """What several windows read off every layer, each position in one of them."""
    if not windows:
        return None
    position, other = (
        np.concatenate([getattr(one, name) for one in windows]) for name in ("position", "other")
    )
    order = np.argsort(position, kind="stable")
    scores = (
        np.concatenate([getattr(one, name) for one in windows], axis=1)[:, order]
        for name in ("nats", "rank", "top_id", "margin")
    )
    states = [one.states for one in windows if one.states is not None]
    held = np.concatenate(states, axis=1)[:, order] if states else None
    return ScoredLayers(position[order], other[order], *scores, states=held)


def empty_ranks(subwords: int) -> ScoredAnswers:
    """Rows without an answer yet."""
    nothing, never = np.full(subwords, np.nan, dtype=np.float32), np.zeros(subwords, dtype=np.int32)
    return ScoredAnswers(nothing, never, nothing.copy(), never.copy())


def empty_scores(subwords: int, top_k: int) -> ScoredSubwords:
    """Rows that hold no score yet."""
    return ScoredSubwords(
        nats=np.full(subwords, np.nan, dtype=np.float32),
        rank=np.zeros(subwords, dtype=np.int32),
        entropy=np.full(subwords, np.nan, dtype=np.float32),
        context=np.zeros(subwords, dtype=np.int32),
        scored=np.zeros(subwords, dtype=np.bool_),
        top_ids=np.full((subwords, top_k), -1, dtype=np.int32),
        top_nats=np.full((subwords, top_k), np.nan, dtype=np.float32),
    )
