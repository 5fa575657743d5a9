"""Leaves that one walk reads are the nodes without children among all nodes."""

from __future__ import annotations

import pytest

from sonde.languages import LANGUAGES
from sonde.languages.engine.language import read_leaf_rows, read_node_rows
from sonde.languages.engine.treesitter import TreeSitterLanguage

TEXTS = (
    "",
    "x",
    "def f(a):\n    return f'{a!r:>{width}}' + \"é\" if a else None  # why\n",
    "int f(int a) { return a > 0 ? 'x' : /* no */ b[1]; }",
    "func (a *B) c() { x := `raw` }",
    "def f(:\n  )) = @",
)


@pytest.mark.parametrize(
    "name", [name for name in LANGUAGES.names() if isinstance(LANGUAGES.load(name), TreeSitterLanguage)]
)
def test_leaves_are_the_nodes_without_children(name: str) -> None:
    language = LANGUAGES.load(name)
    assert isinstance(language, TreeSitterLanguage)
    for text in TEXTS:
        root = language.parse_without_wrapper(text).root
        nodes = read_node_rows(root)
        wanted = [
            (nodes.kind[row], nodes.kind[max(0, nodes.parent[row])], nodes.start[row], nodes.end[row])
            for row in range(len(nodes.kind))
            if nodes.last[row] == row + 1
        ]
        assert [*zip(*read_leaf_rows(root, frozenset()), strict=True)] == wanted
        # A root that is read whole is one leaf.
        assert [*zip(*read_leaf_rows(root, {root.kind_id}), strict=True)] == [
            (root.kind_id, root.kind_id, root.start_byte, root.end_byte)
        ]
