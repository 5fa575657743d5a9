"""Options, edges and item table of the attention lens: one row per item, relation and model side.

Edges are labelled on characters and looked up in subwords. A word and a subword belong together where they
share a character; spaces at the ends of a subword that is not only spaces do not count, so that an indent
does not get the attention of what it indents. A word may have several subwords, share one with its neighbour,
or have none.

A row holds the ranks of its edges in every head as bytes, one a number: ranks above 254 are told apart by
nobody who asks for the first twenty. Beside them stands what the baselines need of each edge. The longest
word and words picked at random are ranked as heads are, by the same rules among the same candidates, so that
ties, causality and the published quirks are the same for all.

Published rules replace the lens's own at hooks (`QuirkHook`); docs/paper-modes.md lists those of each hook.
The quirks of the published labels belong to the languages instead.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from jaxtyping import Int, UInt8

from sonde.alignment.align import trim_spans
from sonde.alignment.subwords import Subwords
from sonde.base.fingerprint import derive_seed
from sonde.base.options import Options, Share, option
from sonde.capture.requests import Lookups, RankRules, WordRanks
from sonde.corpora import Item
from sonde.languages import get_facet, has_facet
from sonde.languages.engine.relations import RelationOptions, Relations, Words
from sonde.languages.engine.text import whitespace_mask
from sonde.lenses.engine.lens import CapturedItem, LensSettings, QuirkHook
from sonde.results.schema import Columns, to_schema
from sonde.tasks.syntax.syntax_relations import NO_SEMICOLONS, provided_relations, relation_words

if TYPE_CHECKING:
    from jaxtyping import Bool


class AttentionOptions(Options):
    """The options of the lens."""

    lens = "attention"

    snippet: str = option("", "file with one function whose attention the report draws", scoring=True)
    mask_delimiters: bool = option(
        False, "exclude newlines and semicolons as candidates unless a dependent ends in one"
    )
    random_weights_share: Share = option(0.25, "share of the items that the model with random weights reads")


LENS = "attention"


RANKS: QuirkHook[RankRules, []] = QuirkHook(LENS)
"""How words are ranked."""


BASELINES: QuirkHook[Bool[np.ndarray, " edge"], [Bool[np.ndarray, " edge"]]] = QuirkHook(LENS)
"""Edges that baselines are chosen on; told those that they are scored on."""


AVERAGED: QuirkHook[tuple[str, ...], [tuple[str, ...]]] = QuirkHook(LENS)
"""Relations that the average is over; told those that the paper's plots keep."""


def get_rank_rules(settings: LensSettings) -> RankRules:
    """Return the rules for ranking words."""
    return RANKS.resolve(settings, RankRules(picks=settings.stage > 0))


METRICS = ("first_hit", "last_hit", "any_hit")


FACET = "relations"


TASK = "syntax_relations"


# The items of a job: their words are wanted for the requests and again for the rows.
_KEPT = 512


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """The edges of one item.

    Attributes:
        relation: Name of the relation of each edge.
        head: Head word.
        first: First word of the dependent.
        last: Its last word.
        from_head: Whether the head is asked for the dependent, as in programs; in prose the dependent is
            asked for its head.
    """

    relation: tuple[str, ...]
    head: Int[np.ndarray, " edge"]
    first: Int[np.ndarray, " edge"]
    last: Int[np.ndarray, " edge"]
    from_head: bool = True

    def __len__(self) -> int:
        return len(self.head)

    @property
    def bidirectional_lookups(self) -> Lookups:
        """Return the lookups for attention that sees the whole text."""
        head, dependent = (self.head, self.head), (self.first, self.last)
        query, target = (head, dependent) if self.from_head else (dependent, head)
        return Lookups(*query, *target)

    @property
    def causal_lookups(self) -> Lookups:
        """Return the lookups for causal attention: the later word asks for the earlier one."""
        dependent_is_later = self.first > self.head
        return Lookups(
            query=np.where(dependent_is_later, self.first, self.head),
            until=np.where(dependent_is_later, self.last, self.head),
            first=np.where(dependent_is_later, self.head, self.first),
            last=np.where(dependent_is_later, self.head, self.last),
        )


def find_word_subwords(
    words: Words, subwords: Subwords
) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]:
    """Return the first subword of each word and one past its last; equal where it has none."""
    left, right = trim_spans(subwords.start, subwords.end, ~whitespace_mask(subwords.text))
    has_ink = left < right
    left = np.where(has_ink, left, subwords.start)
    right = np.where(has_ink, right, subwords.end)
    first = np.searchsorted(right, words.start, side="right")
    stop = np.searchsorted(left, words.end, side="left")
    # An empty word lies inside no subword, even where the search finds the one around it.
    return first, np.where(words.end > words.start, np.maximum(stop, first), first)


def read_item(item: Item, rows: pl.DataFrame, settings: LensSettings) -> tuple[Words, Edges]:
    """Read the words and edges of one item.

    Args:
        item: The item.
        rows: Its rows of the task ``syntax_relations``, those without a label left out.
        settings: What the user chose.
    """
    options = RelationOptions(
        mode=settings.mode,
        # Relations that the source brings are counted in the words of the mode, whatever else is chosen.
        quirks=frozenset[str]() if provided_relations(item) else settings.quirks,
        newlines=bool(rows["newlines"].any()),
        semicolons=NO_SEMICOLONS not in settings.quirks,
        masked=AttentionOptions.read(settings.options).mask_delimiters,
    )
    words = _words(item, options)
    head, first, last = (
        rows[name].cast(pl.Int64).to_numpy() for name in ("head_word", "dep_first", "dep_last")
    )
    names = tuple(rows["label"].to_list())
    return words, Edges(names, head, first, last, from_head=has_facet(item.language, FACET))


def provided_split(item: Item) -> str:
    """Return the side of the split that the source of an item gives it; empty where it gives none."""
    splits = {label.split for label in item.given if label.task == TASK}
    return min(splits, default="")


_words = functools.lru_cache(maxsize=_KEPT)(relation_words)


NEVER = 255
"""Rank of an edge that no predictor hits."""


PICKS = 16
"""Random orders of the words that chance is the mean of; edges are many, so that few are enough."""


_ONE_WORD = 0.5


def clamp_ranks(word_ranks: WordRanks) -> UInt8[np.ndarray, "edge metric layer head"]:
    """Ranks as bytes, edge by edge; what is farther than a byte holds is never hit."""
    return np.ascontiguousarray(np.minimum(word_ranks.ranks, NEVER).astype(np.uint8).transpose(2, 3, 0, 1))


def random_ranks(
    side: str, words: Words, edges: Edges, rules: RankRules, seed: int
) -> UInt8[np.ndarray, "edge metric order"]:
    """Rank of what each edge looks for when words are ordered by length, then at random.

    Args:
        side: Side of the model, which decides what a word sees.
        words: The words.
        edges: The edges between them.
        rules: How words are ranked.
        seed: Of the random orders.
    """
    # Imported here, so that what only scores does not wait for torch.
    from sonde.capture.word_attention import rank_orders

    index = np.arange(len(words.start))
    # Of words as long as each other the first one: orders without ties.
    length = words.end - words.start + 1 - _ONE_WORD * index / max(len(index), 1)
    random = np.random.default_rng(seed).random((PICKS, len(index)))
    orders = np.concatenate([length[None], random]).astype(np.float32)
    causal = side == "decoder"
    lookups = edges.causal_lookups if causal else edges.bidirectional_lookups
    ranks = rank_orders(orders, words.candidate, lookups, rules, causal)
    return np.minimum(ranks, NEVER).astype(np.uint8)


TOO_LONG = "longer than the context"


NOT_PARSED = "does not parse"


OBSERVATIONS_COLUMNS: Columns = {
    "item_id": (pl.String, "the item"),
    "language": (pl.String, "public name"),
    "split": (pl.String, "the split that its source gives, else empty"),
    "relation": (pl.String, "the relation"),
    "side": (pl.String, "`encoder`, `decoder`, `cross`"),
    "backwards": (
        pl.Boolean,
        "whether the dependent's words attend to the head, because this side sees only preceding words",
    ),
    "edges": (pl.Int32, "number of edges of the relation, the first size of `ranks`"),
    "layers": (pl.Int16, "number of layers"),
    "heads": (pl.Int16, "number of heads of a layer"),
    "ranks": (
        pl.Binary,
        "bytes (edge, metric, layer, head): rank of the first, last and best target word; 255 means 255 or "
        "more; the root of a sentence has 255 in every head",
    ),
    "blind": (
        pl.Binary,
        "bytes (edge, metric, order): the same with the candidates ordered by length, then in 16 random "
        "orders",
    ),
    "offset_first": (
        pl.List(pl.Int32),
        "of each edge, distance from the attending word to the first target word, in words",
    ),
    "offset_last": (pl.List(pl.Int32), "the same to the last target word"),
    "keyword_first": (
        pl.List(pl.Int16),
        "of each edge, index of the keyword that hits the first target word; -1 for none",
    ),
    "keyword_last": (pl.List(pl.Int16), "the same for the last target word"),
    "keyword_any_edge": (
        pl.List(pl.Int32),
        "of each pair of an edge and a keyword that hits any target word: the edge",
    ),
    "keyword_any": (pl.List(pl.Int16), "of each such pair: the keyword"),
    "sinks": (
        pl.Binary,
        "bytes of `float32` (layer, head, 2): mean share of attention that the attending words pay to the "
        "model's first token, and to the special tokens after the text (NaN without any). Null except on "
        "the first row of an item and side",
    ),
    "dropped": (pl.String, "empty, `longer than the context`, `does not parse`"),
}
"""Columns of the attention lens's item table, one row an item, relation and side."""


OBSERVATIONS = to_schema(OBSERVATIONS_COLUMNS)


@dataclass(frozen=True, slots=True, eq=False)
class KeywordHits:
    """Keywords that lead from a head to its dependent.

    Attributes:
        first: The keyword that hits the first word of each dependent, by its place among the keywords; -1
            where none does.
        last: The same for the last word.
        edge: An edge whose dependent is hit anywhere.
        keyword: The keyword that hits it; each pair once.
    """

    first: Int[np.ndarray, " edge"]
    last: Int[np.ndarray, " edge"]
    edge: Int[np.ndarray, " hit"]
    keyword: Int[np.ndarray, " hit"]


def keyword_hits(
    words: Words, keywords: Sequence[str], edges: Edges, *, backwards: bool = False
) -> KeywordHits:
    """Find the edges that the next occurrence of each keyword after a head hits.

    Backwards the dependent's words look for the nearest keyword before them, and the head is to be hit.

    Args:
        words: The words.
        keywords: All keywords of the language.
        edges: The edges between the words.
        backwards: Whether the dependent is asked for the head.
    """
    index = {keyword: index for index, keyword in enumerate(keywords)}
    kind = np.array([index.get(word, -1) for word in words.surface], np.int64)
    if backwards:
        # The head is hit from any word up to the next one like it, so what the first word misses all miss.
        next_same = _neighbours(kind, backwards=True)[edges.head]
        first, last = (np.where(next_same >= end, kind[edges.head], -1) for end in (edges.first, edges.last))
        (edge,) = np.nonzero(first >= 0)
        return KeywordHits(first, last, edge, first[edge])
    previous_same = _neighbours(kind, backwards=False)
    (positions,) = np.nonzero(kind >= 0)
    is_hit = (
        (positions >= edges.first[:, None])
        & (positions <= edges.last[:, None])
        & (previous_same[positions] <= edges.head[:, None])
    )
    edge, hit = np.nonzero(is_hit)
    first, last = (
        np.where((kind[end] >= 0) & (previous_same[end] <= edges.head), kind[end], -1)
        for end in (edges.first, edges.last)
    )
    return KeywordHits(first, last, edge, kind[positions[hit]])


def _neighbours(kind: Int[np.ndarray, " word"], *, backwards: bool) -> Int[np.ndarray, " word"]:
    """Return the position of the previous (else -1) or next equal keyword for each keyword."""
    order = np.argsort(kind, kind="stable")
    is_same = kind[order][1:] == kind[order][:-1]
    positions = np.full(len(kind), len(kind) if backwards else -1)
    if backwards:
        positions[order[:-1][is_same]] = order[1:][is_same]
    else:
        positions[order[1:][is_same]] = order[:-1][is_same]
    return positions


def observe_items(
    observed: Sequence[CapturedItem], labels: pl.DataFrame, settings: LensSettings
) -> pl.DataFrame:
    """Build the rows of some items; one that was not read whole has one row that says so."""
    ids = pl.Series([item.prepared.item.item_id for item in observed], dtype=pl.String).implode()
    item_labels = labels.filter(pl.col("item_id").is_in(ids))
    labelled_ids = set(item_labels["item_id"].unique().to_list())
    by_item = item_labels.filter(pl.col("label").is_not_null()).partition_by("item_id", as_dict=True)
    rules = get_rank_rules(settings)
    rows: list[dict[str, object]] = []
    for captured_item in observed:
        item = captured_item.prepared.item
        if item.item_id not in labelled_ids:
            continue
        start = {
            "item_id": item.item_id,
            "language": item.language,
            "split": provided_split(item),
            "side": "",
            "relation": "",
        }
        relations = by_item.get((item.item_id,))
        sides = captured_item.captures[0].words if captured_item.captures else {}
        if relations is None or not sides:
            edge_count = 0 if relations is None else len(relations)
            rows.append({**start, "edges": edge_count, "dropped": TOO_LONG if edge_count else NOT_PARSED})
            continue
        words, edges = read_item(item, relations, settings)
        seed = derive_seed("attention chance", item.item_id)
        for side, ranks in sides.items():
            blind = random_ranks(side, words, edges, rules, seed)
            rows += [{**start, **row} for row in side_rows(side, ranks, blind, words, edges, item.language)]
    return build_table(rows)


def build_table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Build the item table from rows, in which lists are arrays and what is missing is null."""
    columns = {name: [row.get(name) for row in rows] for name in OBSERVATIONS}
    return pl.DataFrame(
        [
            _build_lists(name, columns[name], kind)
            if isinstance(kind, pl.List)
            else pl.Series(name, columns[name], dtype=kind)
            for name, kind in OBSERVATIONS.items()
        ]
    )


def _build_lists(name: str, arrays: Sequence[Int[np.ndarray, " value"] | None], kind: pl.List) -> pl.Series:
    """Build a column of lists from arrays, end to end, which is much faster than from lists of numbers."""
    known_arrays = [array for array in arrays if array is not None]
    if not known_arrays:
        return pl.Series(name, arrays, dtype=kind)
    values = pl.Series(np.concatenate(known_arrays)).cast(kind.inner)
    ends = itertools.accumulate(0 if array is None else len(array) for array in arrays)
    lists = [
        None if array is None else values.slice(end - len(array), len(array))
        for array, end in zip(arrays, ends, strict=True)
    ]
    return pl.Series(name, lists)


def side_rows(
    side: str,
    word_ranks: WordRanks,
    blind: UInt8[np.ndarray, "edge metric order"],
    words: Words,
    edges: Edges,
    language: str,
) -> Iterator[dict[str, object]]:
    """Yield one row per relation of an item on one side, without the item's columns, for `build_table`."""
    layers, heads = word_ranks.ranks.shape[:2]
    ranks = clamp_ranks(word_ranks)
    if not edges.from_head:
        # The root of a sentence is its own head: no head and no offset can say so, in any mode.
        root = (edges.first == edges.head) & (edges.last == edges.head)
        ranks[root] = NEVER
        blind = np.where(root[:, None, None], np.uint8(NEVER), blind)
    backwards = side == "decoder"
    keywords = get_facet(language, FACET, Relations).keywords if has_facet(language, FACET) else ()
    hits = keyword_hits(words, keywords, edges, backwards=backwards)
    names = sorted(set(edges.relation))
    numbers = {name: number for number, name in enumerate(names)}
    relation_index = np.array([numbers[name] for name in edges.relation], np.int64)
    # Edges relation by relation, and hits of keywords likewise; those of a relation stay in their order.
    order, ends = _sort_runs(relation_index, len(names))
    hit_order, hit_ends = _sort_runs(relation_index[hits.edge], len(names))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    hit_places, hit_keywords = place[hits.edge[hit_order]], hits.keyword[hit_order]
    ranks, blind = ranks[order], blind[order]
    offsets = [offset[order] for offset in _offsets(edges)]
    first_keywords, last_keywords = hits.first[order], hits.last[order]
    begin = hit_begin = 0
    for name, end, hit_end in zip(names, ends.tolist(), hit_ends.tolist(), strict=True):
        rows, hit_rows = slice(begin, end), slice(hit_begin, hit_end)
        yield {
            "side": side,
            "relation": name,
            "backwards": backwards,
            "edges": end - begin,
            "layers": layers,
            "heads": heads,
            "ranks": ranks[rows].tobytes(),
            "blind": blind[rows].tobytes(),
            "offset_first": offsets[0][rows],
            "offset_last": offsets[1][rows],
            "keyword_first": first_keywords[rows],
            "keyword_last": last_keywords[rows],
            "keyword_any_edge": (hit_places[hit_rows] - begin),
            "keyword_any": hit_keywords[hit_rows],
            "sinks": None
            if begin or word_ranks.sinks is None
            else word_ranks.sinks.astype(np.float32).tobytes(),
            "dropped": "",
        }
        begin, hit_begin = end, hit_end


def _sort_runs(
    group: Int[np.ndarray, " entry"], count: int
) -> tuple[Int[np.ndarray, " entry"], Int[np.ndarray, " group"]]:
    """Return an order of entries group by group, and one past the last entry of each group."""
    return np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=count))


def _offsets(edges: Edges) -> tuple[Int[np.ndarray, " edge"], Int[np.ndarray, " edge"]]:
    """Return the offsets from the query word to the first and the last target word."""
    first, last = edges.first - edges.head, edges.last - edges.head
    return (first, last) if edges.from_head else (-first, -last)
