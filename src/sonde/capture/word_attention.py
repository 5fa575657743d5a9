"""Word-level attention of a batch, reduced on the device to the ranks that were requested.

A plan states once per batch which rows, words and ranks are needed; each layer's rows then go through two
products with 0/1 matrices (subwords to words) and one count per rank. No attention leaves the device. The
functions that rank words are pure.

Sums over many ranges of one axis are products with matrices of zeros and weights. Most of such a matrix is
zero, since the ranges follow each other. On a CPU it is therefore split into bands of a few ranges and the
columns that these span; on an accelerator one product of the batch is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt16
from torch import Tensor

from sonde.base.errors import CaptureError
from sonde.capture.attention_backend import SIDES
from sonde.capture.reducer import BatchReducer, ForwardBatch, ForwardStates, Reducer
from sonde.capture.requests import (
    NEVER,
    InputWords,
    Lookups,
    RankRules,
    WordLookups,
    WordRanks,
)
from sonde.capture.tensors import Download, PendingDownload, Upload
from sonde.capture.windows import Row, pad_rows

NEAR_TIE = 1e-5
"""Share of a word's attention within which another counts as tied; the shape of a batch moves it by less."""


EXCLUDED = -1.0
"""What is paid to a word that is no candidate."""


def compute_ranks(
    words: Float[Tensor, "target head word"],
    first: Int[Tensor, " target"],
    last: Int[Tensor, " target"] | None,
    later_wins: bool,
) -> Int[Tensor, "target head"]:
    """Rank of a word, or of the best word from ``first`` to ``last``, among the words of its row.

    Args:
        words: What is paid to each word; overwritten.
        first: First word looked for.
        last: Last word; None where all are single words.
        later_wins: Which of equal words is ahead.
    """
    index = torch.arange(words.shape[2], device=words.device)
    if last is None:
        best = words.gather(2, first[:, None, None].expand(-1, words.shape[1], 1))
        last, self_count = first, 1
    else:
        is_target = ((index >= first[:, None]) & (index <= last[:, None]))[:, None]
        best = words.masked_fill(~is_target, EXCLUDED).amax(-1, keepdim=True)
        words.masked_fill_(is_target, EXCLUDED)
        self_count = 0
    # Differences stay in float: comparisons that make booleans are several times slower on a processor.
    if later_wins:
        is_ahead = words.sub_(best)
        is_ahead = is_ahead.masked_fill_((is_ahead == 0) & (index <= last[:, None])[:, None], -1.0).ge_(0)
        self_count = 0
    else:
        is_ahead = words.sub_(best * (1 - NEAR_TIE)).ge_(0)
    rank = (is_ahead.sum(-1).to(torch.int32) + (1 - self_count)).clamp(max=NEVER - 1)
    return rank.masked_fill(best[:, :, 0] < 0, NEVER)


def top_word(words: Float[Tensor, "row head word"], *, later_wins: bool) -> Int[Tensor, "row head"]:
    """Return the word that ranks first in each row."""
    if not later_wins:
        return words.argmax(-1)
    # The first of the greatest from behind.
    return words.shape[2] - 1 - words.flip(-1).argmax(-1)


_BAND = 32


class SegmentSums:
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
        """Build the matrix of an axis of `size` positions once, when the first values come."""
        if self._made is None:
            begins, ends = (bounds.tensor[:, None] for bounds in self._bounds)
            index = torch.arange(size, device=begins.device)[:, None]
            self._made = ((index >= begins) & (index < ends)).float()
            if self._mean:
                self._made /= self._made.sum(1, keepdim=True).clamp(min=1)
            if self._banded:
                for row in range(len(self._start)):
                    self._add_bands(self._made, row, self._start[row], self._stop[row])
        return self._made

    def over_last(self, values: Float[Tensor, "batch row place"]) -> Float[Tensor, "batch row range"]:
        """Sum over the last axis."""
        matrix_of_all = self._matrix(values.shape[2])
        if not self._banded:
            return torch.bmm(values, matrix_of_all)
        sums = values.new_zeros((*values.shape[:2], self._count))
        for row, ranges, columns, matrix in self._bands:
            torch.mm(values[row, :, columns], matrix, out=sums[row, :, ranges])
        return sums

    def over_rows(self, values: Float[Tensor, "batch place column"]) -> Float[Tensor, "batch range column"]:
        """Sum over the middle axis."""
        matrix_of_all = self._matrix(values.shape[1])
        if not self._banded:
            return torch.bmm(matrix_of_all.transpose(1, 2), values)
        sums = values.new_zeros((len(values), self._count, values.shape[2]))
        for row, ranges, columns, matrix in self._bands:
            torch.mm(matrix.T, values[row, columns], out=sums[row, ranges])
        return sums

    def _add_bands(
        self,
        matrix: Float[Tensor, "batch place range"],
        row: int,
        start: Int[np.ndarray, " range"],
        stop: Int[np.ndarray, " range"],
    ) -> None:
        for begin in range(0, len(start), _BAND):
            has_columns = start[begin : begin + _BAND] < stop[begin : begin + _BAND]
            if has_columns.any():
                first = int(start[begin : begin + _BAND][has_columns].min())
                last = int(stop[begin : begin + _BAND][has_columns].max())
                ranges, columns = slice(begin, min(begin + _BAND, len(start))), slice(first, last)
                self._bands.append((row, ranges, columns, matrix[row, columns, ranges].contiguous()))


_CPU_CELLS = 1 << 18


_ACCELERATOR_CELLS = 1 << 25


_EMPTY = np.zeros(0, dtype=np.int64)


_Ends = Int[np.ndarray, "lookup 2"]


_Pairs = tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " lookup"]]
"""Where the ranks of every query word of the lookups lie, and where each lookup's begin."""


def _expand_runs(
    first: Int[np.ndarray, " run"], last: Int[np.ndarray, " run"]
) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]:
    """Expand runs into their words, with the run of each."""
    sizes = last - first + 1
    run = np.repeat(np.arange(len(first)), sizes)
    return run, np.arange(len(run)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[run]


@dataclass(frozen=True, slots=True, eq=False)
class RowWords:
    """Words of one row of a batch.

    Attributes:
        words: Its words.
        lookups: Those of its lookups that the side of the model can answer.
        query_offset: Column of the item's first subword among the queries.
        key_offset: The same among the keys.
        separators: Columns of the special tokens behind the item among the keys, half-open.
    """

    words: WordLookups
    lookups: Lookups
    query_offset: int
    key_offset: int
    separators: tuple[int, int] = (0, 0)


_NO_LOOKUPS = Lookups(_EMPTY, _EMPTY, _EMPTY, _EMPTY)


_NO_WORDS = RowWords(
    WordLookups(_EMPTY, _EMPTY, _EMPTY.astype(np.bool_), _NO_LOOKUPS, _NO_LOOKUPS), _NO_LOOKUPS, 0, 0
)
"""Stand for a row of which nothing is asked."""


def _query_words(row_words: RowWords, side: str) -> Int[np.ndarray, " query"]:
    """Return the words whose attention is read: those of the lookups, or all."""
    if row_words.words.heads.get(side):
        return np.arange(len(row_words.words.first))
    return np.unique(_expand_runs(row_words.lookups.query, row_words.lookups.until)[1])


class WordReader:
    """Reads the attention of one side of a model, layer after layer.

    Args:
        side: Which side.
        row_words: What is asked of each row of the batch; None where nothing is.
        rules: How words are ranked.
        causal: Whether the side sees only what stands before a word.
        upload: Takes what is needed where the attention is; sent before the first layer is read.

    Attributes:
        columns: Query columns wanted of each row of the batch.
    """

    def __init__(
        self,
        side: str,
        row_words: Sequence[RowWords | None],
        rules: RankRules,
        causal: bool,
        upload: Upload,
    ) -> None:
        self.side = side
        self._asked = row_words
        self._words = [_NO_WORDS if words is None else words for words in row_words]
        self._rules = rules
        self._causal = causal
        self._queries = [_query_words(words, side) for words in self._words]
        self._kept: list[list[Float[Tensor, "head word word"]]] = [[] for _ in row_words]
        self._height = max((len(queries) for queries in self._queries), default=0)
        self._width = max((len(words.words.first) for words in self._words), default=0)
        # Of distinct ranks, of single words, then of the best in a range: which query row of the batch,
        # counted over its items, and the first and last word looked for.
        targets, self._ends, self._pairs = self._distinct()
        self._singles = int((targets[1] == targets[2]).sum())
        self._number = len(targets[0])
        self._targets = [upload.add(part) for part in targets]
        columns, self._average = self._columns(upload)
        self.columns = upload.add(columns)
        self._to_sum = self._segments(upload)
        self._competitors = [upload.add(part) for part in self._find_competitors()]
        self._asking = upload.add(self._with_subwords())
        separators = np.array([words.separators for words in self._words], np.int64)
        self._separators = upload.add(separators.reshape(-1, 2))
        self._excluded: Tensor | None = None
        self._fetched: dict[str, PendingDownload] = {}
        self._fetched_kept: list[list[PendingDownload]] = []
        self._sinks: list[Float[Tensor, "batch head sink"]] = []
        self._ranks: list[Int[Tensor, "target head"]] = []
        self._picks: list[Int[Tensor, "row head"]] = []
        self._finite: list[Tensor] = []

    def read(self, rows: Float[Tensor, "batch head row token"]) -> None:
        """Rank the words of one layer."""
        words = self._to_words(rows)
        self._finite.append(torch.isfinite(words.sum()))
        self._keep(words)
        self._ranks.append(self._rank(words))
        if self._rules.picks:
            self._picks.append(top_word(words, later_wins=self._rules.later_wins))

    def hand_in(self, download: Download) -> None:
        """Add all that was read to the download, after the last layer."""
        if self._ranks:
            parts = {"ranks": torch.stack(self._ranks).to(torch.int32), "finite": torch.stack(self._finite)}
            parts["sinks"] = torch.stack(self._sinks, dim=1)
            if self._picks:
                parts["picks"] = torch.stack(self._picks).to(torch.int32)
            self._fetched = {name: download.add(part) for name, part in parts.items()}
            self._fetched_kept = [download.add_all(matrices) for matrices in self._kept]

    @property
    def finite(self) -> bool:
        """Return whether all that was fetched is finite."""
        return not self._fetched or bool(self._fetched["finite"].array.all())

    def results(self) -> list[WordRanks | None]:
        """Return the ranks of each row of the batch, once they were fetched."""
        if not self._fetched:
            return [None] * len(self._asked)
        # By layer, target and head.
        ranks, sinks = self._fetched["ranks"].array, self._fetched["sinks"].array
        picks = self._fetched["picks"].array if self._picks else None
        answers: list[WordRanks | None] = []
        for index, row_words in enumerate(self._asked):
            if row_words is None:
                answers.append(None)
                continue
            pairs, begins = self._pairs[index]
            best = np.minimum.reduceat(ranks[:, pairs], begins, axis=1) if len(pairs) else ranks[:, pairs]
            ends = ranks[:, self._ends[index]]
            lookup_ranks = np.concatenate([ends, best[:, :, None]], axis=2).transpose(0, 3, 1, 2)
            lookup_ranks = np.ascontiguousarray(lookup_ranks.astype(np.uint16))
            matrices_of_layers = [part.array for part in self._fetched_kept[index]]
            matrices = np.concatenate(matrices_of_layers) if matrices_of_layers else None
            if matrices is not None:
                matrices = np.where(matrices < 0, np.float32(np.nan), matrices)
            answers.append(
                WordRanks(
                    lookup_ranks,
                    self._select_picks(index, row_words, picks),
                    matrices,
                    np.array(sinks[index]),
                )
            )
        return answers

    def _keep(self, words: Float[Tensor, "row head word"]) -> None:
        """Take the attention between all words of a row, for those heads of this layer that are asked for."""
        layer = len(self._ranks)
        for index, row_words in enumerate(self._words):
            kept_heads = row_words.words.heads.get(self.side, ())
            heads = [head for head_layer, head in kept_heads if head_layer == layer]
            if heads:
                count, first_row = len(row_words.words.first), index * self._height
                row_attention = words[first_row : first_row + count, :, :count].float()
                self._kept[index].append(torch.stack([row_attention[:, head] for head in heads]))

    def _select_picks(
        self, index: int, row_words: RowWords, picks: Int[np.ndarray, "layer row head"] | None
    ) -> UInt16[np.ndarray, "layer head lookup"] | None:
        if picks is None:
            return None
        rows = index * self._height + np.searchsorted(self._queries[index], row_words.lookups.query)
        return np.ascontiguousarray(picks[:, rows].transpose(0, 2, 1).astype(np.uint16))

    def _distinct(self) -> tuple[list[Int[np.ndarray, " target"]], list[_Ends], list[_Pairs]]:
        """List each requested rank once, and index those of every lookup."""
        width = max(self._width, 1)
        keys: list[Int[np.ndarray, " key"]] = [_EMPTY]
        begins: list[Int[np.ndarray, " lookup"]] = []
        for index, (row_words, queries) in enumerate(zip(self._words, self._queries, strict=True)):
            lookups, first_row = row_words.lookups, index * self._height
            query, last_query = (
                first_row + np.searchsorted(queries, side) for side in (lookups.query, lookups.until)
            )
            run, query_words = _expand_runs(lookups.query, lookups.until)
            rows = first_row + np.searchsorted(queries, query_words)
            # A single word is a run of one, so that all share one space of keys.
            keys.append(_lookup_key(query, lookups.first, lookups.first, width))
            keys.append(_lookup_key(last_query, lookups.last, lookups.last, width))
            keys.append(_lookup_key(rows, lookups.first[run], lookups.last[run], width))
            begins.append(np.searchsorted(run, np.arange(len(lookups))))
        distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        at_row, first, last = distinct // width // width, distinct // width % width, distinct % width
        order = np.argsort(first != last, kind="stable")
        new_index = np.empty(len(order), np.int64)
        new_index[order] = np.arange(len(order))
        parts = iter(np.split(new_index[inverse], np.cumsum([len(key) for key in keys])[:-1])[1:])
        ends: list[_Ends] = []
        pairs: list[_Pairs] = []
        for begin in begins:
            ends.append(np.stack([next(parts), next(parts)], axis=1))
            pairs.append((next(parts), begin))
        return [part[order] for part in (at_row, first, last)], ends, pairs

    def _columns(self, upload: Upload) -> tuple[Int[np.ndarray, "batch row"], SegmentSums]:
        """Find the columns of the query words' subwords (padded with 0), and the rows of each word."""
        starts: list[Int[np.ndarray, " query"]] = []
        stops: list[Int[np.ndarray, " query"]] = []
        columns: list[Int[np.ndarray, " column"]] = []
        for row_words, queries in zip(self._words, self._queries, strict=True):
            first = row_words.words.first[queries]
            last_stop = np.maximum(row_words.words.stop[queries], first)
            distinct = np.unique(_expand_runs(first, last_stop - 1)[1])
            starts.append(np.searchsorted(distinct, first))
            stops.append(np.searchsorted(distinct, last_stop))
            columns.append(distinct + row_words.query_offset)
        return pad_rows(columns, 0), SegmentSums(pad_rows(starts, 0), pad_rows(stops, 0), upload, mean=True)

    def _find_competitors(self) -> list[np.ndarray]:
        """Find the first subword and candidacy of each word, and what each query word sees."""
        words = [row_words.words for row_words in self._words]
        visible_stops = [words.stop[queries] for words, queries in zip(words, self._queries, strict=True)]
        return [
            pad_rows([words.first for words in words], 0)[:, None],
            pad_rows([words.candidates for words in words], 0)[:, None].astype(np.bool_),
            pad_rows(visible_stops, 0)[:, :, None],
            pad_rows(self._queries, 0)[:, :, None],
        ]

    def _masks(self) -> tuple[Bool[Tensor, "batch query 1 word"], Bool[Tensor, "batch query 1 word"]]:
        """Mark the words that are no candidates of a query word, and the query words themselves."""
        first, competes, visible_stop, query_word = (part.tensor for part in self._competitors)
        is_query = query_word == torch.arange(self._width, device=query_word.device)
        exclusion_mask = (~competes).expand(-1, self._height, -1)
        if not self._rules.self_competes:
            exclusion_mask = exclusion_mask | is_query
            if self._causal:
                exclusion_mask = exclusion_mask | (first >= visible_stop)
        return exclusion_mask[:, :, None], is_query[:, :, None]

    def _segments(self, upload: Upload) -> SegmentSums:
        """Find the columns of each word."""
        start, stop = (
            pad_rows([getattr(words.words, bound) + words.key_offset for words in self._words], 0)
            for bound in ("first", "stop")
        )
        return SegmentSums(start, stop, upload)

    def _to_words(self, rows: Float[Tensor, "batch head row token"]) -> Float[Tensor, "row head word"]:
        batch, heads, count, tokens = rows.shape
        query_attention = self._average.over_rows(rows.transpose(1, 2).reshape(batch, count, heads * tokens))
        self._sink(query_attention.reshape(batch, self._height, heads, tokens))
        if self._excluded is None:
            self._excluded, self._itself = self._masks()
        words = self._to_sum.over_last(query_attention.reshape(batch, self._height * heads, tokens))
        words = words.reshape(batch, self._height, heads, self._width)
        if self._rules.self_competes:
            words.masked_fill_(self._itself, 0.0)
        return words.masked_fill_(self._excluded, EXCLUDED).flatten(0, 1)

    def _sink(self, query_attention: Float[Tensor, "batch query head token"]) -> None:
        """Add what the query words of this layer pay to the first token, and to the separators."""
        index = torch.arange(query_attention.shape[-1], device=query_attention.device)
        start, stop = self._separators.tensor[:, :1], self._separators.tensor[:, 1:]
        is_separator = ((index >= start) & (index < stop)).float()
        paid = query_attention.float()
        ends = torch.stack([paid[..., 0], torch.einsum("bqht,bt->bqh", paid, is_separator)], dim=-1)
        mean = torch.einsum("bqhs,bq->bhs", ends, self._asking.tensor)
        # Where nothing stands behind the text, there is no share of it.
        has_no_separator = is_separator.sum(-1) == 0
        mean[:, :, 1] = mean[:, :, 1].masked_fill(has_no_separator[:, None], torch.nan)
        self._sinks.append(mean)

    def _with_subwords(self) -> Float[np.ndarray, "batch query"]:
        """Weigh query words that have subwords equally, adding up to one, if any has."""
        have_subwords = [
            row_words.words.stop[queries] > row_words.words.first[queries]
            for row_words, queries in zip(self._words, self._queries, strict=True)
        ]
        weights = pad_rows(have_subwords, 0).astype(np.float32)
        return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1.0)

    def _rank(self, words: Float[Tensor, "row head word"]) -> Int[Tensor, "target head"]:
        cells = words.shape[1] * words.shape[2]
        maximum = _CPU_CELLS if words.device.type == "cpu" else _ACCELERATOR_CELLS
        step = max(1, maximum // max(cells, 1))
        parts: list[Int[Tensor, "target head"]] = []
        row, first, words_last = (part.tensor for part in self._targets)
        for begin in [*range(0, self._singles, step), *range(self._singles, self._number, step)]:
            end = min(begin + step, self._singles) if begin < self._singles else begin + step
            targets = slice(begin, end)
            last = None if begin < self._singles else words_last[targets]
            target_words = words.index_select(0, row[targets])
            parts.append(compute_ranks(target_words, first[targets], last, self._rules.later_wins))
        return torch.cat(parts)


def rank_words(
    side: str,
    row_words: Sequence[RowWords | None],
    rules: RankRules,
    causal: bool,
    layers: Callable[[Int[Tensor, "batch row"]], Iterable[Float[Tensor, "batch head row token"]]],
) -> list[WordRanks | None]:
    """Ranks in attention that lies on the processor; see `WordReader`.

    Args:
        side: Which side.
        row_words: What is asked of each row of the batch.
        rules: How words are ranked.
        causal: Whether the side sees only what stands before a word.
        layers: Gives the rows of each layer from the query columns that are wanted.
    """
    upload, download = Upload(torch.device("cpu")), Download()
    reader = WordReader(side, row_words, rules, causal, upload)
    upload.send()
    for rows in layers(reader.columns.tensor):
        reader.read(rows)
    reader.hand_in(download)
    download.fetch()
    return reader.results()


def rank_orders(
    orders: Float[np.ndarray, "order word"],
    candidates: Bool[np.ndarray, " word"],
    lookups: Lookups,
    rules: RankRules,
    causal: bool,
) -> UInt16[np.ndarray, "lookup metric order"]:
    """Rank words by values that are the same for every word that asks, as `rank_words` ranks attention.

    Args:
        orders: Value of each word in each order, not negative; a word with a greater one ranks first.
        candidates: Whether a word competes.
        lookups: What is looked up.
        rules: How words are ranked.
        causal: Whether a word sees only what stands before it.

    Returns:
        For each lookup the rank of the first, the last and the best word that is looked for.
    """
    # Of a run of words that see what stands before them, the first has the fewest competitors, so no other
    # one finds a better rank.
    run, query = _expand_runs(lookups.query, lookups.query if causal else lookups.until)
    queries = np.concatenate([lookups.query, lookups.until, query])
    first = np.concatenate([lookups.first, lookups.last, lookups.first[run]])
    last = np.concatenate([lookups.first, lookups.last, lookups.last[run]])
    asks_for_itself = (last >= queries) & (causal | (first <= queries))
    if rules.self_competes or rules.later_wins or asks_for_itself.any():
        return _rank_orders_as_attention(orders, candidates, lookups, rules, causal)
    ranks = _count_better(orders, candidates, queries, first, last, causal)
    by_first, by_last, best = np.split(ranks, [len(lookups), 2 * len(lookups)])
    best = np.minimum.reduceat(best, np.searchsorted(run, np.arange(len(lookups))), axis=0)
    return np.stack([by_first, by_last, best], axis=1).astype(np.uint16)


def _count_better(
    orders: Float[np.ndarray, "order word"],
    candidates: Bool[np.ndarray, " word"],
    query: Int[np.ndarray, " target"],
    first: Int[np.ndarray, " target"],
    last: Int[np.ndarray, " target"],
    causal: bool,
) -> Int[np.ndarray, "target order"]:
    """Return the rank of the best word from ``first`` to ``last`` among what each query word sees beside."""
    values, width = np.where(candidates, orders, np.float32(EXCLUDED)), len(candidates)
    # Words that are looked for by several queries are compared with all others once.
    distinct, index = np.unique(first * width + last, return_inverse=True)
    starts, stops = distinct // width, distinct % width + 1
    # A range ends before the word behind it; the last word has one more behind it.
    padded = np.concatenate([values, values[:, :1]], axis=1)
    best = np.maximum.reduceat(padded, np.stack([starts, stops], axis=1).reshape(-1), axis=1)[:, ::2]
    limit = best * np.float32(1 - NEAR_TIE)
    run, word = _expand_runs(starts, stops - 1)
    own = np.add.reduceat(
        values[:, word] >= limit[:, run],
        np.searchsorted(run, np.arange(len(distinct))),
        axis=1,
        dtype=np.int64,
    )
    if causal:
        ahead = _count_before(values, limit, query, index)
    else:
        sorted_values = np.sort(values, axis=1)
        ahead = np.stack(
            [
                width - np.searchsorted(row, row_limit)
                for row, row_limit in zip(sorted_values, limit, strict=True)
            ]
        )[:, index]
        ahead -= values[:, query] >= limit[:, index]
    ranks = np.minimum(ahead - own[:, index] + 1, NEVER - 1)
    return np.where(best[:, index] < 0, NEVER, ranks).T


def _count_before(
    values: Float[np.ndarray, "order word"],
    limit: Float[np.ndarray, "order distinct"],
    query: Int[np.ndarray, " target"],
    index: Int[np.ndarray, " target"],
) -> Int[np.ndarray, "order target"]:
    """Count the words before each query whose values reach the limit at an index."""
    counts = np.empty((len(values), len(query)), np.int64)
    order = np.argsort(index, kind="stable")
    step = max(1, _CPU_CELLS // max(values.size, 1))
    for begin in range(0, limit.shape[1], step):
        targets = order[slice(*np.searchsorted(index[order], [begin, begin + step]))]
        reached = np.cumsum(values[:, None] >= limit[:, begin : begin + step, None], axis=2, dtype=np.int32)
        # Nothing stands before the first word, which asks for none.
        counts[:, targets] = reached[:, index[targets] - begin, query[targets] - 1]
    return counts


def _rank_orders_as_attention(
    orders: Float[np.ndarray, "order word"],
    candidates: Bool[np.ndarray, " word"],
    lookups: Lookups,
    rules: RankRules,
    causal: bool,
) -> UInt16[np.ndarray, "lookup metric order"]:
    """Rank words with `rank_words`, which takes the values for the attention of every word."""
    index, values = np.arange(len(candidates)), torch.from_numpy(orders)
    words = WordLookups(index, index + 1, candidates, lookups, lookups, rules)
    (ranks,) = rank_words(
        "decoder" if causal else "encoder",
        [RowWords(words, lookups, 0, 0)],
        rules,
        causal,
        lambda columns: [values[None, :, None].expand(-1, -1, columns.shape[1], -1)],
    )
    assert ranks is not None
    return ranks.ranks[0].transpose(1, 2, 0)


def _lookup_key(
    row: Int[np.ndarray, " lookup"],
    first: Int[np.ndarray, " lookup"],
    last: Int[np.ndarray, " lookup"],
    width: int,
) -> Int[np.ndarray, " lookup"]:
    return (row * width + first) * width + last


class WordReducer(Reducer[InputWords]):
    """Ranks words on every side of a model; an answer holds ranks by side, for each lookup."""

    kind = InputWords


class _WordBatch(BatchReducer[WordReducer]):
    """Ranks the words of one batch: per reader one lookup of each row, the first, the second and so on."""

    def __init__(self, reducer: WordReducer, batch: ForwardBatch) -> None:
        super().__init__(reducer, batch)
        kind = reducer.block.loaded.capabilities.kind
        requests = [reducer.requests.get(row.source) for row in batch.rows]
        lookups = [() if request is None else request.lookups for request in requests]
        self._numbered_readers: list[tuple[int, WordReader]] = []
        for number in range(max(map(len, lookups))):
            words = [row_lookups[number] if number < len(row_lookups) else None for row_lookups in lookups]
            for rules in dict.fromkeys(row_lookups.rules for row_lookups in words if row_lookups is not None):
                for side in SIDES if kind == "encoder-decoder" else (kind,):
                    row_words = [
                        _build_row_words(row, row_lookups, side, kind)
                        if row_lookups is not None and row_lookups.rules == rules
                        else None
                        for row, row_lookups in zip(batch.rows, words, strict=True)
                    ]
                    reader = WordReader(side, row_words, rules, side == "decoder", batch.upload)
                    self._numbered_readers.append((number, reader))
        self.readers = [reader for _, reader in self._numbered_readers]

    def reduce(self, states: ForwardStates) -> None:
        """Add all that was read to the download."""
        for _, reader in self._numbered_readers:
            reader.hand_in(self.batch.download)

    def store(self) -> None:
        """Store the ranks of each row by input."""
        for number, reader in self._numbered_readers:
            if not reader.finite:
                label = self.reducer.block.describe_row(self.batch.rows[0])
                raise CaptureError(f"{label}: attention is not finite; the model is broken")
            for row, ranks in zip(self.batch.rows, reader.results(), strict=True):
                if ranks is not None:
                    count = len(self.reducer.requests[row.source].lookups)
                    by_lookup = self.reducer.answers.setdefault(row.source, [{} for _ in range(count)])
                    by_lookup[number][reader.side] = ranks


WordReducer.batch_reducer = _WordBatch


def _build_row_words(row: Row, words: WordLookups, side: str, kind: str) -> RowWords:
    # The decoder of an encoder-decoder reads its start token and then the item.
    starts = {"encoder": -row.origin, "decoder": 1 if kind == "encoder-decoder" else -row.origin, "cross": 1}
    query = starts[side]
    key = starts["encoder"] if side == "cross" else query
    lookups = words.behind if side == "decoder" else words.ahead
    # What only stands before it is seen by a decoder's word, so no separator behind the text.
    separators = (0, 0) if side == "decoder" else (row.read_stop, len(row.tokens))
    return RowWords(words, lookups, query, key, separators)
