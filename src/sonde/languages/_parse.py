"""From a tree-sitter tree to columns in one walk of the cursor."""

from __future__ import annotations

import numpy as np
import tree_sitter
from jaxtyping import Int

from sonde.languages._text import Source
from sonde.languages._tree import Tree

# tree-sitter's own number for ERROR nodes (ts_builtin_sym_error).
_ERROR_KIND = 0xFFFF


def columns(parsed: tree_sitter.Tree, source: Source, language: str, grammar: tree_sitter.Language) -> Tree:
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
    cursor = parsed.walk()
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
    source: Source,
    language: str,
    grammar: tree_sitter.Language,
    rows: Int[np.ndarray, "column node"],
    missing: Int[np.ndarray, " missing"],
) -> Tree:
    numbers, inverse = np.unique(rows[0], return_inverse=True)
    spelled = [
        ("ERROR", True)
        if number == _ERROR_KIND
        else (grammar.node_kind_for_id(number) or "", grammar.node_kind_is_named(number))
        for number in numbers.tolist()
    ]
    # Several numbers may share a name (aliases; a rule and its keyword), so names are numbered anew.
    names = sorted({name for name, _ in spelled})
    renumbered = np.array([names.index(name) for name, _ in spelled], np.int32)
    start, end = source.characters(rows[1]), source.characters(rows[2])
    error = rows[0] == _ERROR_KIND
    error[missing] = True
    childless = rows[4] == np.arange(1, rows.shape[1] + 1)
    return Tree(
        text=source.text,
        language=language,
        kinds=tuple(names),
        kind=renumbered[inverse],
        parent=rows[3],
        start=start,
        end=end,
        last=rows[4],
        named=np.array([named for _, named in spelled], bool)[inverse],
        error=error,
        leaves=np.flatnonzero(childless & (end > start)).astype(np.int32),
    )
