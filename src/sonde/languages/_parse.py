"""From a tree-sitter tree to columns in one walk of the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tree_sitter
from jaxtyping import Bool, Int

from sonde.languages._grammar import Parsed
from sonde.languages._text import EncodedText
from sonde.languages._tree import Tree

# tree-sitter's own number for ERROR nodes (ts_builtin_sym_error).
_ERROR_KIND = 0xFFFF


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """The kinds of a grammar; that of ERROR nodes is the last number.

    Attributes:
        names: Their names, sorted. Several numbers may share one (aliases; a rule and its keyword).
        place: For each number its name's place.
        named: For each number whether the grammar names it.
    """

    names: tuple[str, ...]
    place: Int[np.ndarray, " number"]
    named: Bool[np.ndarray, " number"]


@lru_cache
def _kinds(grammar: tree_sitter.Language) -> _Kinds:
    count = grammar.node_kind_count
    spelled = [*(grammar.node_kind_for_id(number) or "" for number in range(count)), "ERROR"]
    names = tuple(sorted(set(spelled)))
    places = {name: place for place, name in enumerate(names)}
    return _Kinds(
        names,
        place=np.array([places[name] for name in spelled], np.int32),
        named=np.array([*(grammar.node_kind_is_named(number) for number in range(count)), True], np.bool_),
    )


def columns(parsed: Parsed, source: EncodedText, language: str, grammar: tree_sitter.Language) -> Tree:
    """The columns of a parsed text.

    The walk keeps its own stack, so depth costs memory but never the interpreter's stack.

    Args:
        parsed: What tree-sitter made of ``source.data``.
        source: The text.
        language: Public name of the language.
        grammar: Where kind numbers get their names.
    """
    kind: list[int] = []
    start: list[int] = []
    end: list[int] = []
    parent: list[int] = []
    last: list[int] = []
    missing: list[int] = []
    cursor = parsed.root_node.walk()
    down, across, up = cursor.goto_first_child, cursor.goto_next_sibling, cursor.goto_parent
    above = [-1]
    walking = True
    while walking:
        node = cursor.node
        assert node is not None
        row = len(kind)
        first, beyond = node.start_byte, node.end_byte
        kind.append(node.kind_id)
        start.append(first)
        end.append(beyond)
        parent.append(above[-1])
        last.append(row + 1)
        if first == beyond and node.is_missing:
            missing.append(row)
        if down():
            above.append(row)
            continue
        while not across():
            if not up():
                walking = False
                break
            last[above.pop()] = len(kind)
    return _assemble(
        source,
        language,
        grammar,
        np.array([kind, start, end, parent, last], np.int32),
        np.array(missing, np.int32),
    )


def _assemble(
    source: EncodedText,
    language: str,
    grammar: tree_sitter.Language,
    rows: Int[np.ndarray, "column node"],
    missing: Int[np.ndarray, " missing"],
) -> Tree:
    known = _kinds(grammar)
    error = rows[0] == _ERROR_KIND
    numbers = np.where(error, len(known.place) - 1, rows[0])
    places = known.place[numbers]
    occurs = np.zeros(len(known.names), np.bool_)
    occurs[places] = True
    start, end = source.characters(rows[1]), source.characters(rows[2])
    error[missing] = True
    childless = rows[4] == np.arange(1, rows.shape[1] + 1)
    return Tree(
        text=source.text,
        language=language,
        kinds=tuple(known.names[place] for place in np.flatnonzero(occurs).tolist()),
        kind=(np.cumsum(occurs, dtype=np.int32) - 1)[places],
        parent=rows[3],
        start=start,
        end=end,
        last=rows[4],
        named=known.named[numbers],
        error=error,
        leaves=np.flatnonzero(childless & (end > start)).astype(np.int32),
    )
