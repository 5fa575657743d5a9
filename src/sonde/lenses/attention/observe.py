"""The item table of the attention lens: one row an item, relation and side of the model.

A row holds the ranks of its edges in every head as bytes, one a number: ranks above 254 are told apart by
nobody who asks for the first twenty. Beside them stands what the baselines need of each edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int, UInt8

from sonde.base.fingerprint import derive_seed
from sonde.capture.requests import WordRanks
from sonde.languages import get_facet, has_facet
from sonde.languages.engine.relations import Relations, Words
from sonde.lenses.attention.baselines import NEVER, clamp_ranks, random_ranks
from sonde.lenses.attention.edges import FACET, Edges, provided_split, read_item
from sonde.lenses.attention.options import METRICS, get_rank_rules
from sonde.lenses.engine.lens import CapturedItem, LensSettings
from sonde.results.schema import Columns, to_schema

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
        "the dependent's words were asked for the head, since the side sees only what stands before",
    ),
    "edges": (pl.Int32, "number of edges of the relation, the first size of `ranks`"),
    "layers": (pl.Int16, "number of layers"),
    "heads": (pl.Int16, "number of heads of a layer"),
    "ranks": (
        pl.Binary,
        "bytes (edge, metric, layer, head): rank of the first, last and best word looked for; 255 = 255 "
        "or more; the root of a sentence is 255 in every head",
    ),
    "blind": (
        pl.Binary,
        "bytes (edge, metric, order): the same with the candidates ordered by length, then in 16 random "
        "orders",
    ),
    "offset_first": (
        pl.List(pl.Int32),
        "of each edge, from the word asked to the first word looked for, in words",
    ),
    "offset_last": (pl.List(pl.Int32), "the same to the last word looked for"),
    "keyword_first": (
        pl.List(pl.Int16),
        "of each edge, place among the keywords of the one that hits the first word looked for; -1 for none",
    ),
    "keyword_last": (pl.List(pl.Int16), "the same for the last word looked for"),
    "keyword_any_edge": (
        pl.List(pl.Int32),
        "of each pair of an edge and a keyword that hits any word looked for: the edge",
    ),
    "keyword_any": (pl.List(pl.Int16), "of each such pair: the keyword"),
    "sinks": (
        pl.Binary,
        "bytes of `float32` (layer, head, 2): share of its attention that a word of a relation, asked, pays "
        "to the first token that the model reads, and to the special tokens behind the text (NaN where "
        "there are none), mean over these words; on the first row of an item and side, else null",
    ),
    "dropped": (pl.String, "empty, `longer than the context`, `does not parse`"),
}
"""Columns of the attention lens's item table, one row an item, relation and side."""


OBSERVATIONS = to_schema(OBSERVATIONS_COLUMNS)


@dataclass(frozen=True, slots=True, eq=False)
class KeywordHits:
    """Which keywords lead from a head to its dependent.

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
    """What the next occurrence of each keyword after a head hits.

    Backwards the dependent's words look for the nearest keyword before them, and the head is to be hit.

    Args:
        words: The words.
        keywords: All keywords of the language.
        edges: The edges between the words.
        backwards: Whether the dependent is asked for the head.
    """
    place = {keyword: index for index, keyword in enumerate(keywords)}
    kind = np.array([place.get(word, -1) for word in words.surface], np.int64)
    if backwards:
        # The head is hit from any word up to the next one like it, so what the first word misses all miss.
        after = _neighbours(kind, backwards=True)[edges.head]
        first, last = (np.where(after >= end, kind[edges.head], -1) for end in (edges.first, edges.last))
        (edge,) = np.nonzero(first >= 0)
        return KeywordHits(first, last, edge, first[edge])
    before = _neighbours(kind, backwards=False)
    (at,) = np.nonzero(kind >= 0)
    inside = (at >= edges.first[:, None]) & (at <= edges.last[:, None]) & (before[at] <= edges.head[:, None])
    edge, hit = np.nonzero(inside)
    first, last = (
        np.where((kind[end] >= 0) & (before[end] <= edges.head), kind[end], -1)
        for end in (edges.first, edges.last)
    )
    return KeywordHits(first, last, edge, kind[at[hit]])


def _neighbours(kind: Int[np.ndarray, " word"], *, backwards: bool) -> Int[np.ndarray, " word"]:
    """For each keyword the place of the same one before it (-1 where there is none), or after it."""
    order = np.argsort(kind, kind="stable")
    same = kind[order][1:] == kind[order][:-1]
    found = np.full(len(kind), len(kind) if backwards else -1)
    if backwards:
        found[order[:-1][same]] = order[1:][same]
    else:
        found[order[1:][same]] = order[:-1][same]
    return found


def observe_items(
    observed: Sequence[CapturedItem], labels: pl.DataFrame, settings: LensSettings
) -> pl.DataFrame:
    """The rows of some items; an item that the model could not take whole has one row that says so."""
    by_item = labels.partition_by("item_id", as_dict=True)
    rows: list[dict[str, object]] = []
    for one in observed:
        item = one.prepared.item
        mine = by_item.get((item.item_id,))
        if mine is None:
            continue
        start = {
            "item_id": item.item_id,
            "language": item.language,
            "split": provided_split(item),
            "side": "",
            "relation": "",
        }
        named = mine.filter(pl.col("label").is_not_null())
        sides = one.captures[0].words if one.captures else {}
        if named.is_empty() or not sides:
            reason = TOO_LONG if len(named) else NOT_PARSED
            rows.append({**start, "edges": len(named), "dropped": reason})
            continue
        words, edges = read_item(item, named, settings)
        seed = derive_seed("attention chance", item.item_id)
        for side, found in sides.items():
            blind = random_ranks(side, words, edges, get_rank_rules(settings), seed)
            rows += [{**start, **row} for row in side_rows(side, found, blind, words, edges, item.language)]
    return pl.DataFrame(rows, schema=dict(OBSERVATIONS), orient="row")


def side_rows(
    side: str,
    found: WordRanks,
    blind: UInt8[np.ndarray, "edge metric order"],
    words: Words,
    edges: Edges,
    language: str,
) -> Iterator[dict[str, object]]:
    """One row a relation of one item on one side of a model, without what names the item."""
    layers, heads = found.ranks.shape[:2]
    ranks = clamp_ranks(found)
    if not edges.from_head:
        # The root of a sentence is its own head: no head and no offset can say so, in any mode.
        root = (edges.first == edges.head) & (edges.last == edges.head)
        ranks[root] = NEVER
        blind = np.where(root[:, None, None], np.uint8(NEVER), blind)
    backwards = side == "decoder"
    keywords = get_facet(language, FACET, Relations).keywords if has_facet(language, FACET) else ()
    hits = keyword_hits(words, keywords, edges, backwards=backwards)
    first, last = _offsets(edges)
    names, of = np.unique(np.array(edges.relation, np.str_), return_inverse=True)
    for number, name in enumerate(names.tolist()):
        mine = of == number
        some = mine[hits.edge]
        place = np.cumsum(mine) - 1
        yield {
            "side": side,
            "relation": name,
            "backwards": backwards,
            "edges": int(mine.sum()),
            "layers": layers,
            "heads": heads,
            "ranks": ranks[mine].tobytes(),
            "blind": blind[mine].tobytes(),
            "offset_first": first[mine].tolist(),
            "offset_last": last[mine].tolist(),
            "keyword_first": hits.first[mine].tolist(),
            "keyword_last": hits.last[mine].tolist(),
            "keyword_any_edge": place[hits.edge[some]].tolist(),
            "keyword_any": hits.keyword[some].tolist(),
            "sinks": None if number or found.sinks is None else found.sinks.astype(np.float32).tobytes(),
            "dropped": "",
        }


def _offsets(edges: Edges) -> tuple[Int[np.ndarray, " edge"], Int[np.ndarray, " edge"]]:
    """How far what is looked for lies from what is asked: its first and its last word."""
    first, last = edges.first - edges.head, edges.last - edges.head
    return (first, last) if edges.from_head else (-first, -last)


def unpack(ranks: Sequence[bytes], layers: int, heads: int) -> UInt8[np.ndarray, "edge metric layer head"]:
    """The ranks of several rows, one below the other."""
    return np.frombuffer(b"".join(ranks), np.uint8).reshape(-1, len(METRICS), layers, heads)
