"""Columns against tree-sitter's own nodes, visited the slow and obvious way."""

from __future__ import annotations

import pytest
import tree_sitter

from sonde.base.errors import InputError
from sonde.languages import LANGUAGES, has_facet
from sonde.languages.engine.language import Grammar
from sonde.languages.engine.treesitter import TreeSitterLanguage


def preorder(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    return [node, *(below for child in node.children for below in preorder(child))]


@pytest.mark.parametrize("name", [name for name in LANGUAGES.names() if has_facet(name, "tokens")])
@pytest.mark.parametrize("damage", ["", "((", "é = = 🎉 {"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_row_equals_its_node(name: str, damage: str, newline: str, samples) -> None:
    language = LANGUAGES.load(name)
    assert isinstance(language, TreeSitterLanguage)
    text = samples[name].replace("\n", newline)
    half = text.index(newline, len(text) // 2)
    text = text[:half] + damage + text[half:]
    tree = language.parse(text)
    nodes = preorder(language.grammar.parse(text.encode()).root_node)
    assert len(tree) == len(nodes)
    data = text.encode()
    for row, node in enumerate(nodes):
        assert tree.kind_name(row) == node.type
        assert tree.node_text(row).encode() == data[node.start_byte : node.end_byte] == node.text
        assert tree.named[row] == node.is_named
        assert tree.error[row] == (node.is_error or node.is_missing)
        assert tree.last[row] - row == node.descendant_count
        assert tree.parent[row] == (nodes.index(node.parent) if node.parent else -1)
    leaves = [
        row for row, node in enumerate(nodes) if node.child_count == 0 and node.end_byte > node.start_byte
    ]
    assert tree.leaves.tolist() == leaves
    assert tree.has_error == nodes[0].has_error


def test_ancestors_run_from_the_parent_to_the_root() -> None:
    tree = LANGUAGES.load("python").parse("f(x)\n")
    leaf = next(row for row in tree.leaves.tolist() if tree.node_text(row) == "x")
    assert [tree.kind_name(row) for row in tree.ancestors(leaf)] == [
        "argument_list",
        "call",
        "expression_statement",
        "module",
    ]


def test_a_condition_that_no_query_is_held_to_is_refused(tmp_path, monkeypatch) -> None:
    """The binding would find what the condition leaves out."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "locals.scm").write_text('((identifier) @name (#not-any-of? @name "a" "b"))')
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"mine: locals\.scm has the condition #not-any-of\?") as caught:
        Grammar("tree_sitter_python", "mine").query("locals")
    assert "\n" not in str(caught.value)
