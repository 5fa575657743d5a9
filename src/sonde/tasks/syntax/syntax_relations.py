"""Syntactic relations between words of a program, such as ``If:if->test`` or ``Call:func->args``.

The 44 relations of Python and 39 of Java of "Benchmarking Language Models for Code Syntax Understanding". The
relations of an item are rows on its characters (`RELATION_SCHEMA`), with the words that they count in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sonde.corpora import Given, Item
from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.relations import PUBLISHED_OPTIONS, Edge, RelationOptions, Relations, Words
from sonde.results.schema import Columns, to_schema
from sonde.tasks.engine.task import PAIR_COLUMNS, Repository

SYNONYMS = ("syntax dependencies", "dependency relations", "dependency parsing")

TASK = "syntax_relations"


RELATION_COLUMNS: Columns = {
    **PAIR_COLUMNS,
    "head_word": (pl.Int32, "place of the head among the words of the item"),
    "dep_first": (pl.Int32, "place of the dependent's first word"),
    "dep_last": (pl.Int32, "place of its last word"),
    "newlines": (pl.Boolean, "whether newlines are words"),
}
"""``start`` and ``end`` are the head's characters, ``other_start`` and ``other_end`` the dependent's; the
next three are indices into `relation_words`, newlines asked for as ``newlines`` says."""


RELATION_SCHEMA = to_schema(RELATION_COLUMNS)


def relation_words(item: Item, options: RelationOptions = PUBLISHED_OPTIONS) -> Words:
    """Return the words that the indices of an item's relations refer to.

    Where the language has no words of its own, as natural language has not, they are those that the labels
    brought by the source name.

    Raises:
        UsageError: The language has no relations, and the source brings none.
    """
    if not has_facet(item.language, "relations"):
        relations = provided_relations(item)
        if relations:
            return _named_words(item, relations)
    return get_facet(item.language, "relations", Relations).words(item.text, options)


def relation_rows(item: Item, options: RelationOptions = PUBLISHED_OPTIONS) -> pl.DataFrame:
    """Return the relations of an item, one per row, in `RELATION_SCHEMA`.

    Relations that the source brings are taken as they are. A text that does not parse has one row without a
    label over all its characters, so that it can be counted.

    Args:
        item: The item.
        options: Mode, quirks, and what becomes of newlines and semicolons.

    Raises:
        UsageError: The language has no relations.
    """
    relations = provided_relations(item)
    if relations:
        return _given_rows(item, relations, options.mode)
    result = get_facet(item.language, "relations", Relations).relate(item.text, options)
    if result.problem:
        row = {"start": 0, "end": len(item.text), "newlines": options.newlines}
        return pl.DataFrame([row], schema=dict(RELATION_SCHEMA))
    return _table(result.words, result.edges, newlines=options.newlines)


def provided_relations(item: Item) -> tuple[Given, ...]:
    """Return the relations that the source of an item brings."""
    return tuple(relation for relation in item.given if relation.task == TASK)


def _given_rows(item: Item, relations: tuple[Given, ...], mode: str) -> pl.DataFrame:
    """Build the rows of provided relations, on words without newlines unless that would lose some."""
    words = relation_words(item, RelationOptions(mode=mode))
    edges, newlines = _find_edges(item, relations, words), False
    if len(edges) < len(relations):
        longer_words = relation_words(item, RelationOptions(mode=mode, newlines=True))
        longer_edges = _find_edges(item, relations, longer_words)
        if len(longer_edges) > len(edges):
            words, edges, newlines = longer_words, longer_edges, True
    return _table(words, edges, newlines=newlines)


def _table(words: Words, edges: Iterable[Edge], *, newlines: bool) -> pl.DataFrame:
    edges = tuple(edges)
    numbers = np.array([edge[1:] for edge in edges], np.int32).reshape(-1, 3)
    head, first, last = numbers.T
    return pl.DataFrame(
        {
            "start": words.start[head],
            "end": words.end[head],
            "label": [edge.relation for edge in edges],
            "value": pl.Series([None] * len(edges), dtype=pl.Float64),
            "other_start": words.start[first],
            "other_end": words.end[last],
            "head_word": head,
            "dep_first": first,
            "dep_last": last,
            "newlines": [newlines] * len(edges),
        },
        schema=dict(RELATION_SCHEMA),
    )


def _named_words(item: Item, relations: Iterable[Given]) -> Words:
    spans = {(relation.start, relation.end) for relation in relations}
    spans |= {(relation.other_start, relation.other_end) for relation in relations}
    starts, ends = np.array(sorted(spans), np.int32).T
    surface = tuple(item.text[start:end] for start, end in sorted(spans))
    return Words(surface, starts, ends, np.ones(len(surface), np.bool_))


def _find_edges(item: Item, relations: Iterable[Given], words: Words) -> list[Edge]:
    """Find the words of provided relations by their characters.

    Characters do not tell which of several empty words at the end of a text ends a dependent; there the
    published labeller decides, where it finds the same relation.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    empty: set[int] = set()
    for index, (start, end) in enumerate(zip(words.start.tolist(), words.end.tolist(), strict=True)):
        if start < end:
            first.setdefault(start, index)
            last[end] = index
        else:
            empty.add(end)
    published_edges: defaultdict[tuple[object, ...], list[Edge]] = defaultdict(list)
    if any(relation.other_end in empty and relation.other_end in last for relation in relations):
        facet = get_facet(item.language, "relations", Relations)
        for edge in reversed(facet.relate(item.text, RelationOptions(mode="paper")).edges):
            spans = words.start[[edge.head, edge.first]], words.end[[edge.head, edge.last]]
            published_edges[edge.relation, *spans[0].tolist(), *spans[1].tolist()].append(edge)
    edges: list[Edge] = []
    for relation in relations:
        matches = published_edges[
            relation.label, relation.start, relation.other_start, relation.end, relation.other_end
        ]
        if matches:
            edges.append(matches.pop())
        elif relation.start in first and relation.other_start in first and relation.other_end in last:
            word_indices = first[relation.start], first[relation.other_start], last[relation.other_end]
            edges.append(Edge(relation.label, *word_indices))
    return edges


NEWLINES = "codesyntax.newlines"


NO_SEMICOLONS = "codesyntax.no_semicolons"


@dataclass(frozen=True, slots=True)
class SyntaxRelations:
    """Labels the head of every relation, with its dependent as second place; they may overlap.

    The ablations of the paper can be named with the quirks: ``codesyntax.newlines`` lets dependents include
    the newline after them, ``codesyntax.no_semicolons`` ends them before their ``;``.

    Attributes:
        mode: ``"corrected"``, or ``"paper"`` for all quirks of the published labellers.
        active: Quirks and ablations that are on beside the mode's.
    """

    mode: str = "corrected"
    active: Set[str] = frozenset()

    name: ClassVar[str] = TASK
    facet: ClassVar[str] = "relations"
    version: ClassVar[str] = "1"
    target: ClassVar[str] = "relation"
    needs_repository: ClassVar[bool] = False
    ablations: ClassVar[Mapping[str, str]] = {
        NEWLINES: "dependents include the newline after them",
        NO_SEMICOLONS: "dependents end before their semicolon",
    }

    def as_published(self, mode: str, quirks: Set[str]) -> SyntaxRelations:
        """Return the same task with a mode, quirks and ablations."""
        return SyntaxRelations(mode, quirks)

    @property
    def quirks(self) -> Mapping[str, str]:
        """Return the quirks of the published labellers, of all languages."""
        return {name: line for facet in _list_facets() for name, line in facet.quirks.items()}

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the relations of all languages."""
        return tuple(sorted({label for facet in _list_facets() for label in facet.relation_types}))

    def label(self, items: Iterable[Item], repositories: Mapping[str, Repository]) -> dict[str, pl.DataFrame]:
        """Label the relations of each item, by item id; ``repositories`` is not used.

        Columns are those of `sonde.tasks.syntax.syntax_relations.RELATION_SCHEMA`.

        Raises:
            UsageError: An item's language has no relations.
        """
        options = RelationOptions(
            self.mode, self.active, NEWLINES in self.active, NO_SEMICOLONS not in self.active
        )
        return {item.item_id: relation_rows(item, options) for item in items}


def _list_facets() -> list[Relations]:
    """Return the relations of every language that has any."""
    names = (name for name in LANGUAGES.names() if has_facet(name, "relations"))
    return [get_facet(name, "relations", Relations) for name in names]


task = SyntaxRelations()
