"""From a tree-sitter tree to rows in one walk of the cursor, and from rows to the columns of a `Tree`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import tree_sitter
from jaxtyping import Bool, Int

from sonde.languages._grammar import Parsed
from sonde.languages._text import EncodedText
from sonde.languages._tree import ERROR, Tree

# tree-sitter's own number for ERROR nodes (ts_builtin_sym_error).
_ERROR_KIND = 0xFFFF


@dataclass(frozen=True, slots=True, eq=False)
class NodeRows:
    """The nodes of a tree in pre-order, as the grammar counts: kinds are its numbers, places are bytes.

    Attributes:
        kind: The grammar's number of each node's kind.
        start: First byte.
        end: One past the last byte.
        parent: Row of the parent, -1 for the root.
        last: One past the last row of the node's subtree.
        missing: Rows of the nodes that the parser supposed where the text has nothing.
    """

    kind: list[int]
    start: list[int]
    end: list[int]
    parent: list[int]
    last: list[int]
    missing: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """The kinds of a grammar; that of ERROR nodes is the last of each column.

    Attributes:
        names: Their names, sorted. Several numbers may share one (aliases; a rule and its keyword).
        place: For each number its name's place.
        named: For each number whether the grammar names it.
        name_of: From a number to its name.
    """

    names: tuple[str, ...]
    place: Int[np.ndarray, " number"]
    named: Bool[np.ndarray, " number"]
    name_of: Mapping[int, str]


@lru_cache
def _kinds(grammar: tree_sitter.Language) -> _Kinds:
    numbers = range(grammar.node_kind_count)
    spelled = [*(grammar.node_kind_for_id(number) or "" for number in numbers), ERROR]
    names = tuple(sorted(set(spelled)))
    places = {name: place for place, name in enumerate(names)}
    return _Kinds(
        names,
        place=np.array([places[name] for name in spelled], np.int32),
        named=np.array([*(grammar.node_kind_is_named(number) for number in numbers), True], np.bool_),
        name_of=MappingProxyType(dict(zip([*numbers, _ERROR_KIND], spelled, strict=True))),
    )


def names_of_kinds(grammar: tree_sitter.Language) -> Mapping[int, str]:
    """From the grammar's numbers to the names of its kinds."""
    return _kinds(grammar).name_of


@lru_cache
def named_kinds(grammar: tree_sitter.Language, names: Set[str]) -> frozenset[int]:
    """The grammar's numbers of the kinds that it names (``string``) and that are among some names."""
    known = _kinds(grammar)
    return frozenset(
        number
        for (number, name), named in zip(known.name_of.items(), known.named.tolist(), strict=True)
        if named and name in names
    )


def node_rows(parsed: Parsed) -> NodeRows:
    """The nodes of a parsed text.

    The walk keeps its own stack, so depth costs memory but never the interpreter's stack.
    """
    nodes: list[tree_sitter.Node] = []
    parent: list[int] = []
    last: list[int] = []
    cursor = parsed.root_node.walk()
    down, across, up = cursor.goto_first_child, cursor.goto_next_sibling, cursor.goto_parent
    stack: list[int] = []
    above, beyond = -1, 0
    while True:
        node = cursor.node
        assert node is not None
        nodes.append(node)
        parent.append(above)
        beyond += 1
        last.append(beyond)
        if down():
            stack.append(above)
            above = beyond - 1
            continue
        while not across():
            if not up():
                return _rows_of(nodes, parent, last)
            last[above] = beyond
            above = stack.pop()


def _rows_of(nodes: list[tree_sitter.Node], parent: list[int], last: list[int]) -> NodeRows:
    start = [node.start_byte for node in nodes]
    end = [node.end_byte for node in nodes]
    return NodeRows(
        kind=[node.kind_id for node in nodes],
        start=start,
        end=end,
        parent=parent,
        last=last,
        missing=[
            row
            for row, (first, beyond) in enumerate(zip(start, end, strict=True))
            if first == beyond and nodes[row].is_missing
        ],
    )


def columns(rows: NodeRows, source: EncodedText, language: str, grammar: tree_sitter.Language) -> Tree:
    """The columns of a parsed text.

    Args:
        rows: Its nodes.
        source: The text.
        language: Public name of the language.
        grammar: Where kind numbers get their names.
    """
    known = _kinds(grammar)
    kind, begin, beyond, parent, last = np.array(
        [rows.kind, rows.start, rows.end, rows.parent, rows.last], np.int32
    )
    error = kind == _ERROR_KIND
    numbers = np.where(error, len(known.place) - 1, kind)
    places = known.place[numbers]
    occurs = np.zeros(len(known.names), np.bool_)
    occurs[places] = True
    start, end = source.characters(begin), source.characters(beyond)
    error[rows.missing] = True
    childless = last == np.arange(1, len(last) + 1)
    return Tree(
        text=source.text,
        language=language,
        kinds=tuple(known.names[place] for place in np.flatnonzero(occurs).tolist()),
        kind=(np.cumsum(occurs, dtype=np.int32) - 1)[places],
        parent=parent,
        start=start,
        end=end,
        last=last,
        named=known.named[numbers],
        error=error,
        leaves=np.flatnonzero(childless & (end > start)).astype(np.int32),
    )
