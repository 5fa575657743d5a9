"""The item table of the surprisal lens: one row per scored subword, with its labels and context.

Every column is computed for several items at once (`sonde.lenses.engine.layout`). The columns give, for each
piece, the kinds of the syntax nodes above it (`ancestors`), and the target of the call that it belongs to
(`call_columns`: the labels of the task ``call_origin`` on subwords).

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

from sonde.alignment import split_segments
from sonde.base.errors import UnknownNameError
from sonde.capture.requests import Prepared, ScoredSubwords
from sonde.languages import Tree
from sonde.lenses.engine.layout import (
    Layout,
    PieceSpans,
    at_ends,
    constructs,
    keep_strings,
    shortest_spans,
    take_strings,
)
from sonde.lenses.engine.lens import LensSettings, QuirkHook, get_active_quirks, get_quirk_lines
from sonde.results.schema import FILE_COLUMNS, OBSERVATIONS_SCHEMA


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


def overlaps_spans(start: int, end: int, pieces: PieceSpans) -> Bool[np.ndarray, " piece"]:
    """Return which pieces share a character with a span."""
    return (pieces.start < end) & (pieces.end > start) & (pieces.start < pieces.end)


def call_columns(labels: pl.DataFrame, layout: Layout) -> list[pl.Series]:
    """Return the origin, part, form and library of the call of each piece; empty without a call.

    Of nested calls the innermost decides, so ``g`` in ``f(g(x))`` is a name, not an argument. A piece over
    several spans (``f(``, ``))``) keeps what both of its ends agree on.

    Args:
        labels: The rows of the task `call_origin`.
        layout: The items.
    """
    # Null labels, calls inside ERROR nodes, belong to nothing; an outer call may still hold their pieces.
    calls, pieces = layout.labels(labels.drop_nulls("label")), layout.pieces
    ends = at_ends(shortest_spans(calls["start"].to_numpy(), calls["end"].to_numpy(), pieces.length), pieces)
    names = ("label", "part", "call_form", "library")
    return [_mask_disagreement(calls[name].to_list(), *ends) for name in names]


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


@dataclass(frozen=True, slots=True, eq=False)
class SubwordLabels:
    """Labels that the score of each subword counts for: its tag, and its call, empty without one."""

    tag: pl.Series
    origin: pl.Series
    origin_part: pl.Series
    call_form: pl.Series
    library: pl.Series

    def map(self, rule: Callable[[pl.Series], pl.Series]) -> SubwordLabels:
        """Apply a rule to every column."""
        columns = (self.tag, self.origin, self.origin_part, self.call_form, self.library)
        return SubwordLabels(*map(rule, columns))


def observe_items(
    prepared_items: Sequence[Prepared],
    item_scores: Sequence[ScoredSubwords],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    surfaces: Sequence[str],
    units: pl.Series | None = None,
    completion: pl.Series | None = None,
) -> pl.DataFrame:
    """Return the rows of a few items in `OBSERVATIONS_SCHEMA`.

    Args:
        prepared_items: The items with tree, tokens and alignment; at least one.
        item_scores: What the model said of each, one row per subword.
        labels: Label rows of the tasks of the lens, with their ``item_id``.
        settings: What the user chose.
        surfaces: Readable surface of each vocabulary id.
        units: The column of that name; None for a column of nulls.
        completion: Likewise.
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
        "completion": [None] * len(layout.item) if completion is None else completion,
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
        "library": subword_labels.library,
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
