"""The item table of the surprisal lens: one row per scored subword, with its labels and context.

Items are laid end to end, a character apart, and every column is computed for all of them at once. The
columns give, for each piece, the kinds of the syntax nodes above it (`ancestors`), the target of the call
that it belongs to (`call_columns`: the labels of the task ``call_origin`` on subwords), and the span of
characters that contains or touches it.

`QuirkHook` constants such as `TAGS` mark where published rules replace those of the lens; docs/paper-modes.md
lists these rules. A server that scores a text returns its log-probabilities and only part of the rest;
`unknown_metrics` lists the metrics that this leaves without a value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from sonde.alignment import Alignment, split_segments
from sonde.alignment.align import trim_spans
from sonde.base.errors import UnknownNameError
from sonde.capture.requests import Prepared, ScoredSubwords
from sonde.languages import LANGUAGES, Tree
from sonde.languages.engine.text import whitespace_mask
from sonde.lenses.engine.lens import LensSettings, QuirkHook, get_active_quirks, get_quirk_lines
from sonde.results.schema import FILE_COLUMNS, OBSERVATIONS_SCHEMA


def take_strings(values: Sequence[str], rows: Int[np.ndarray, " row"]) -> pl.Series:
    """Return the string of each row; of row -1 the last one."""
    return pl.Series(values, dtype=pl.String)[rows]


def keep_strings(values: pl.Series, is_kept: Bool[np.ndarray, " row"], replacement: str = "") -> pl.Series:
    """Replace the strings of rows that are not kept."""
    return values.zip_with(pl.Series(is_kept), pl.Series([replacement]))


def alternatives(
    ids: Int[np.ndarray, "row top_k"], nats: Float[np.ndarray, "row top_k"], surfaces: Sequence[str]
) -> list[pl.Series]:
    """Return the columns ``top`` and ``top_nats``: surfaces of alternatives, and their surprisal.

    Where there are fewer alternatives than columns, the last ones cost NaN and are left out.
    """
    is_used = np.zeros(len(surfaces), np.bool_)
    is_used[ids] = True
    pool = [surfaces[number] for number in np.flatnonzero(is_used).tolist()]
    names = take_strings(pool, (np.cumsum(is_used) - 1)[ids.ravel()]).rename("top")
    values = pl.Series("top_nats", nats.astype(np.float32).ravel(), pl.Float32)
    columns = [column.reshape(ids.shape).arr.to_list() for column in (names, values)]
    finite_counts = np.isfinite(nats).sum(axis=1)
    if len(ids) and finite_counts.min() < ids.shape[1]:
        columns = (
            pl.DataFrame([*columns, pl.Series("there", finite_counts)])
            .select(pl.col("top", "top_nats").list.head("there"))
            .get_columns()
        )
    return columns


@dataclass(slots=True)
class _KindPaths:
    """Paths of distinct kinds, outermost first, each once; the empty one is number 0."""

    paths: list[tuple[str, ...]] = field(default_factory=lambda: [()])
    _extensions: dict[tuple[int, str], int] = field(default_factory=dict)

    def append_kind(self, path: int, kind: str) -> int:
        """Return the number of a path with one more kind at its end, unless it has the kind already."""
        number = self._extensions.get((path, kind))
        if number is None:
            kinds, number = self.paths[path], path
            if kind not in kinds:
                number = len(self.paths)
                self.paths.append((*kinds, kind))
            self._extensions[path, kind] = number
        return number


def ancestors(prepared_items: Sequence[Prepared]) -> pl.Series:
    """Join the distinct kinds above each subword by slashes, outermost first."""
    paths = _KindPaths()
    codes: list[Int[np.ndarray, " subword"]] = []
    for prepared_item in prepared_items:
        tree, alignment = prepared_item.tree, prepared_item.alignment
        # The node of a piece over several code tokens is above it already.
        is_split = alignment.last - alignment.first > 1
        parents = np.where(is_split, alignment.node, np.append(tree.parent, -1)[alignment.node])
        codes.append(_numbers(tree, parents, paths)[parents])
    return take_strings(["/".join(kinds) for kinds in paths.paths], np.concatenate(codes))


def _numbers(
    tree: Tree, node_parents: Int[np.ndarray, " piece"], paths: _KindPaths
) -> Int[np.ndarray, " node_and_none"]:
    """Return the numbers of the paths to the requested nodes; 0 for none, which is the last entry."""
    numbers = [0] * (len(tree) + 1)
    # Parents stand before their children.
    is_needed = tree.last > np.arange(1, len(tree) + 1)
    is_needed[node_parents[node_parents >= 0]] = True
    rows = np.flatnonzero(is_needed)
    parents, kinds = tree.parent[rows].tolist(), tree.kind[rows].tolist()
    for row, parent, kind in zip(rows.tolist(), parents, kinds, strict=True):
        numbers[row] = paths.append_kind(numbers[parent], tree.kinds[kind])
    return np.array(numbers)


_SPAN_BATCH = 16


@dataclass(frozen=True, slots=True, eq=False)
class PieceSpans:
    """The characters of each piece that count: spaces at its ends are left out, unless it has no others.

    Attributes:
        start: First character.
        end: One past the last character; equal to ``start`` where a piece covers nothing.
        length: Characters of the text.
    """

    start: Int[np.ndarray, " piece"]
    end: Int[np.ndarray, " piece"]
    length: int

    @classmethod
    def trim(cls, text: str, start: Int[np.ndarray, " piece"], end: Int[np.ndarray, " piece"]) -> PieceSpans:
        """Trim the spaces of a tokenizer's spans."""
        ink_start, ink_end = trim_spans(start, end, ~whitespace_mask(text))
        holds_ink = ink_start < ink_end
        return cls(np.where(holds_ink, ink_start, start), np.where(holds_ink, ink_end, end), len(text))


def shortest_spans(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], length: int
) -> Int[np.ndarray, " character"]:
    """Return the shortest span over each character, -1 for none; of equally long ones the later.

    Longer spans are painted first, so that shorter ones remain on top.
    """
    span_numbers = np.full(length, -1, np.int32)
    order = np.argsort(start - end, kind="stable")
    for span, left, right in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        span_numbers[left:right] = span
    return span_numbers


def at_ends(
    span_numbers: Int[np.ndarray, " character"], pieces: PieceSpans
) -> tuple[Int[np.ndarray, " piece"], Int[np.ndarray, " piece"]]:
    """Return the spans over the first and the last character of each piece; -1 for an empty piece."""
    extended = np.append(span_numbers, np.int32(-1))
    covers = pieces.end > pieces.start
    first = np.where(covers, extended[np.minimum(pieces.start, pieces.length)], -1)
    last = np.where(covers, extended[np.maximum(pieces.end, 1) - 1], -1)
    return first, last


def innermost_spans(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], pieces: PieceSpans
) -> Int[np.ndarray, " piece"]:
    """Return the shortest span that contains each piece, -1 for none; of equally long ones the later."""
    first, last = at_ends(shortest_spans(start, end, pieces.length), pieces)
    innermost = np.where(first == last, first, -1)
    # A piece over two constructs is held by an outer one, if any. Neighbours have few spans in common.
    crossing = np.flatnonzero((first != last) & (first >= 0) & (last >= 0))
    for batch in np.split(crossing, range(_SPAN_BATCH, len(crossing), _SPAN_BATCH)) if len(crossing) else ():
        left, right = pieces.start[batch], pieces.end[batch]
        neighbours = np.flatnonzero((start <= left.max()) & (end >= right.min()))[::-1]
        if len(neighbours):
            holds = (start[neighbours] <= left[:, None]) & (end[neighbours] >= right[:, None])
            size = np.where(holds, (end - start)[neighbours], np.iinfo(np.int32).max)
            innermost[batch] = np.where(holds.any(axis=1), neighbours[size.argmin(axis=1)], -1)
    return innermost


def overlaps_spans(start: int, end: int, pieces: PieceSpans) -> Bool[np.ndarray, " piece"]:
    """Return which pieces share a character with a span."""
    return (pieces.start < end) & (pieces.end > start) & (pieces.start < pieces.end)


def call_columns(labels: pl.DataFrame, layout: Layout) -> list[pl.Series]:
    """Return the origin, part and form of the call of each piece; empty without a call.

    Of nested calls the innermost decides, so ``g`` in ``f(g(x))`` is a name, not an argument. A piece over
    several spans (``f(``, ``))``) keeps what both of its ends agree on.

    Args:
        labels: The rows of the task `call_origin`.
        layout: The items.
    """
    # Null labels, calls inside ERROR nodes, belong to nothing; an outer call may still hold their pieces.
    calls, pieces = layout.labels(labels.drop_nulls("label")), layout.pieces
    ends = at_ends(shortest_spans(calls["start"].to_numpy(), calls["end"].to_numpy(), pieces.length), pieces)
    return [_mask_disagreement(calls[name].to_list(), *ends) for name in ("label", "part", "call_form")]


def _mask_disagreement(
    values: Sequence[str], first: Int[np.ndarray, " piece"], last: Int[np.ndarray, " piece"]
) -> pl.Series:
    at_first, at_last = (take_strings([*values, ""], ends) for ends in (first, last))
    return keep_strings(at_first, (at_first == at_last).to_numpy())


LENS = "surprisal"


TagRule = Callable[[Prepared], Sequence[str]]
"""Gives the tag of each subword of an item."""


TAGS: QuirkHook[TagRule, []] = QuirkHook(LENS)
"""How subwords are tagged."""


CALLS: QuirkHook[pl.DataFrame, []] = QuirkHook(LENS)
"""Labels of calls, before subwords are joined with them."""


ORIGINS: QuirkHook[pl.Series, [Mapping[str, pl.DataFrame], Layout]] = QuirkHook(LENS)
"""Where the call of each subword goes; told the labels of all tasks, and the items."""


FILED: QuirkHook[SubwordLabels, [Layout]] = QuirkHook(LENS)
"""Under which tag and call each score is filed; of scores from left to right only."""


SUBWORD: QuirkHook[pl.Expr, []] = QuirkHook(LENS)
"""What a slice of the dimension ``subword`` is called."""


FIRST_APART: QuirkHook[pl.Expr, []] = QuirkHook(LENS)
"""Which subwords are in no slice, since nothing of their text stands before them."""


FIRST_UNSCORED, PADS = "perplexed.first_unscored", "perplexed.pads"
"""Switches: nothing is put before a text but what the tokenizer puts there, and pads are scored."""


def check_active_quirks(settings: LensSettings) -> frozenset[str]:
    """Return the quirks of the lens that are on.

    Raises:
        UnknownNameError: A quirk of these papers that does not exist.
        InputError: Quirks are on, and what papers published is not registered.
    """
    active = frozenset(quirk.name for quirk in get_active_quirks(LENS, settings))
    if unknown := sorted(settings.quirks - active):
        quirk_lines = get_quirk_lines(LENS)
        papers = {name.partition(".")[0] for name in quirk_lines}
        for quirk in unknown:
            if quirk.partition(".")[0] in papers:
                raise UnknownNameError("quirk", quirk, quirk_lines)
    return active


# Stands between items, so that no span of one touches another; it is not blank.
_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Items laid end to end.

    Attributes:
        prepared: The items.
        base: For each item the place of its first character.
        row: For each item the row of its first subword, then the total number of rows.
        item: For each subword its item.
        pieces: The subwords.
        layout: Subwords of spaces only.
        merged: Code tokens that each subword lies in.
    """

    prepared: Sequence[Prepared]
    base: Int[np.ndarray, " item"]
    row: Int[np.ndarray, " item_and_end"]
    item: Int[np.ndarray, " subword"]
    pieces: PieceSpans
    layout: Bool[np.ndarray, " subword"]
    merged: Int[np.ndarray, " subword"]

    @classmethod
    def from_items(cls, prepared_items: Sequence[Prepared]) -> Layout:
        """Lay items end to end."""
        texts = [prepared_item.item.text for prepared_item in prepared_items]
        base = np.cumsum([0, *(len(text) + len(_SEPARATOR) for text in texts)])[:-1]
        sizes = [len(prepared_item.alignment.subwords) for prepared_item in prepared_items]
        item = np.repeat(np.arange(len(prepared_items)), sizes)
        start, end = (
            base[item]
            + np.concatenate(
                [getattr(prepared_item.alignment.subwords, side) for prepared_item in prepared_items]
            )
            for side in ("start", "end")
        )
        token_counts = np.concatenate(
            [prepared_item.alignment.last - prepared_item.alignment.first for prepared_item in prepared_items]
        )
        pieces = PieceSpans.trim(_SEPARATOR.join(texts), start, end)
        return cls(
            prepared_items, base, np.cumsum([0, *sizes]), item, pieces, token_counts == 0, token_counts
        )

    def column(self, values: Callable[[Alignment], np.ndarray]) -> np.ndarray:
        """Concatenate a column of all items."""
        return np.concatenate([values(prepared_item.alignment) for prepared_item in self.prepared])

    def strings(self, values: Callable[[Alignment], Sequence[str]]) -> list[str]:
        """Concatenate a column of strings of all items."""
        return list(chain.from_iterable(values(prepared_item.alignment) for prepared_item in self.prepared))

    def of_items(self, value: Callable[[Prepared], str]) -> pl.Series:
        """Repeat a value of each item for all of its subwords."""
        return take_strings([value(prepared_item) for prepared_item in self.prepared], self.item)

    def labels(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the label rows of these items, with spans moved to the layout's positions."""
        bases = {
            prepared_item.item.item_id: base
            for prepared_item, base in zip(self.prepared, self.base.tolist(), strict=True)
        }
        base = np.array([bases.get(key, -1) for key in table["item_id"].to_list()], np.int64)
        rows = np.flatnonzero(base >= 0)
        item_rows = table[rows]
        layout_spans = {side: item_rows[side].to_numpy() + base[rows] for side in ("start", "end")}
        return item_rows.with_columns(
            **{side: pl.Series(positions) for side, positions in layout_spans.items()}
        )


@dataclass(frozen=True, slots=True, eq=False)
class SubwordLabels:
    """Labels that the score of each subword counts for: its tag, and its call, empty without one."""

    tag: pl.Series
    origin: pl.Series
    origin_part: pl.Series
    call_form: pl.Series

    def map(self, rule: Callable[[pl.Series], pl.Series]) -> SubwordLabels:
        """Apply a rule to every column."""
        return SubwordLabels(*map(rule, (self.tag, self.origin, self.origin_part, self.call_form)))


def observe_items(
    prepared_items: Sequence[Prepared],
    item_scores: Sequence[ScoredSubwords],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    surfaces: Sequence[str],
    units: pl.Series | None = None,
) -> pl.DataFrame:
    """Return the rows of a few items in `OBSERVATIONS_SCHEMA`.

    Args:
        prepared_items: The items with tree, tokens and alignment; at least one.
        item_scores: What the model said of each, one row a subword.
        labels: Label rows of the tasks of the lens, with their ``item_id``.
        settings: What the user chose.
        surfaces: Readable surface of each vocabulary id.
        units: The column of that name; None for a column of nulls.
    """
    layout, scores = Layout.from_items(prepared_items), _concatenate_scores(item_scores)
    subword_labels = label_subwords(layout, labels, settings)
    segments = [split_segments(prepared_item.alignment.subwords) for prepared_item in prepared_items]
    position = np.arange(len(layout.item)) - layout.row[layout.item]
    columns: dict[str, pl.Series | Sequence[str] | Sequence[None] | np.ndarray] = {
        "item_id": layout.of_items(lambda prepared_item: prepared_item.item.item_id),
        "file": layout.of_items(lambda prepared_item: prepared_item.item.path),
        "cluster": layout.of_items(lambda prepared_item: prepared_item.item.cluster),
        "language": layout.of_items(lambda prepared_item: prepared_item.item.language),
        "position": position,
        "start": layout.column(lambda alignment: alignment.subwords.start),
        "end": layout.column(lambda alignment: alignment.subwords.end),
        "subword": layout.strings(lambda alignment: alignment.subwords.surface),
        "subword_id": layout.column(lambda alignment: alignment.subwords.ids),
        "nats": scores.nats,
        "rank": scores.rank,
        "entropy": scores.entropy,
        "context": scores.context,
        "bytes": layout.column(lambda alignment: alignment.subwords.bytes),
        "text_characters": np.concatenate([segment.characters for segment in segments]),
        "text_bytes": np.concatenate([segment.bytes for segment in segments]),
        "covered": np.concatenate([segment.covered for segment in segments]),
        **{name: [None] * len(layout.item) for name in FILE_COLUMNS},
        **subword_labels,
        "merged": layout.merged,
        "token": np.where(layout.layout, -1, layout.column(lambda alignment: alignment.first)),
        "word": _words(layout),
        "units": [None] * len(layout.item) if units is None else units,
    }
    table = pl.DataFrame(
        [
            pl.Series(name, columns[name], dtype=kind)
            for name, kind in OBSERVATIONS_SCHEMA.items()
            if name in columns
        ]
    )
    is_scored = scores.scored
    best = alternatives(scores.top_ids[is_scored], scores.top_nats[is_scored], surfaces)
    rows = (table if is_scored.all() else table[np.flatnonzero(is_scored)]).hstack(best)
    # What a server does not tell has no number.
    unknown = pl.when(pl.col("rank") > 0).then(pl.col("rank")).alias("rank")
    return rows.with_columns(unknown, pl.col("entropy").fill_nan(None))


def label_subwords(
    layout: Layout, labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> dict[str, pl.Series]:
    """Return the columns that say what each subword is: kind, role, tag, construct, ancestors, call, labels.

    Args:
        layout: The items.
        labels: Label rows of the tasks of the lens, with their ``item_id``.
        settings: What the user chose.
    """
    origin, *forms = call_columns(CALLS.resolve(settings, labels["call_origin"]), layout)
    calls = [ORIGINS.resolve(settings, origin, labels, layout), *forms]
    tag_rule = TAGS.resolve(settings, lambda prepared_item: prepared_item.alignment.tag)
    tags = pl.Series(list(chain.from_iterable(map(tag_rule, layout.prepared))), dtype=pl.String)
    subword_labels = SubwordLabels(tags, *(keep_strings(column, ~layout.layout) for column in calls))
    subword_labels = FILED.resolve(settings, subword_labels, layout)
    return {
        "kind": pl.Series(layout.strings(lambda alignment: alignment.kind), dtype=pl.String),
        "role": pl.Series(layout.strings(lambda alignment: alignment.role), dtype=pl.String),
        "tag": subword_labels.tag,
        "construct": constructs(layout),
        "ancestors": ancestors(layout.prepared),
        "origin": subword_labels.origin,
        "origin_part": subword_labels.origin_part,
        "call_form": subword_labels.call_form,
        "user_tag": _user_tags(layout),
    }


def _concatenate_scores(item_scores: Sequence[ScoredSubwords]) -> ScoredSubwords:
    names = [field.name for field in dataclasses.fields(ScoredSubwords)]
    return ScoredSubwords(
        **{name: np.concatenate([getattr(scores, name) for scores in item_scores]) for name in names}
    )


def _words(layout: Layout) -> pl.Series:
    """Return the code token of each subword that lies in a single token."""
    words: list[str] = []
    token_offsets: list[int] = []
    for prepared_item in layout.prepared:
        text, tokens = prepared_item.item.text, prepared_item.tokens
        token_offsets.append(len(words))
        words += [text[a:b] for a, b in zip(tokens.start.tolist(), tokens.end.tolist(), strict=True)]
    first = np.array(token_offsets)[layout.item] + layout.column(lambda alignment: alignment.first)
    return take_strings([*words, ""], np.where(layout.merged == 1, first, -1))


def constructs(layout: Layout) -> pl.Series:
    """Return the innermost construct around each subword; empty for blanks and without a construct."""
    labels: list[str] = []
    start: list[int] = []
    end: list[int] = []
    languages = {
        name: LANGUAGES.load(name)
        for name in {prepared_item.tree.language for prepared_item in layout.prepared}
    }
    for prepared_item, base in zip(layout.prepared, layout.base.tolist(), strict=True):
        for construct in languages[prepared_item.tree.language].constructs(prepared_item.tree):
            labels.append(construct.label)
            start.append(base + construct.start)
            end.append(base + construct.end)
    spans = innermost_spans(np.array(start, np.int64), np.array(end, np.int64), layout.pieces)
    return keep_strings(take_strings([*labels, ""], spans), ~layout.layout)


def _user_tags(layout: Layout) -> pl.Series:
    labels_by_row: dict[int, list[str]] = {}
    for prepared_item, base in zip(layout.prepared, layout.base.tolist(), strict=True):
        for tag in sorted(prepared_item.item.tags, key=lambda tag: (tag.start, tag.end, tag.label)):
            for row in np.flatnonzero(
                overlaps_spans(base + tag.start, base + tag.end, layout.pieces)
            ).tolist():
                labels = labels_by_row.setdefault(row, [])
                if tag.label not in labels:
                    labels.append(tag.label)
    numbers = np.zeros(len(layout.item), np.int32)
    numbers[list(labels_by_row)] = np.arange(1, len(labels_by_row) + 1)
    labels = ["", *map("|".join, labels_by_row.values())]
    return keep_strings(take_strings(labels, numbers), ~layout.layout)


def unknown_metrics(observations: pl.LazyFrame) -> frozenset[str]:
    """Return the metrics that the observations of a server cannot give.

    A rank beyond the alternatives that a server lists is not known, but that it is beyond them is: so the
    shares of subwords that are the best, or among the five best, are known, and a mean of reciprocal ranks is
    not.
    """
    null_counts = pl.col("entropy", "rank").null_count()
    (counts,) = observations.select(null_counts, listed=pl.col("top").list.len().max()).collect().to_dicts()
    return frozenset(
        [
            *(["entropy"] if counts["entropy"] else []),
            *(["mrr"] if counts["rank"] else []),
            *(["top1", "top5", "accuracy", "confidence", "ece"] if not counts["listed"] else []),
        ]
    )
