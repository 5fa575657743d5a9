"""Binarised trees: by hand, at random, of functions in every language; the way back is exact."""

from __future__ import annotations

import sysconfig
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.corpora import Item
from sonde.languages import LANGUAGES, CodeTokens, Tree
from sonde.languages.engine.tree import (
    NO_LABELS,
    BinaryTree,
    Constituents,
    binarise,
    count_constituents,
    find_gap_spans,
)
from sonde.tasks.syntax.whole_trees import task

CODE = {
    "python": "def max(a, b):\n    # compare\n    if a > b and not b: return f'x{a}y'\n    return b\n",
    "java": 'int max(int a, int b) { while (a > b) { b++; } return a == b ? f(a, "\\n") : b; }',
    "javascript": "function max(a, ...b) { const c = `x${a}y`; return b.map(x => x + c); }",
    "go": "func Max(a, b int) (int, error) { if a > b { return a, nil }; return b, f(a[0]) }",
    "ruby": 'def max(a, b)\n  return a if a > b\n  b.each { |x| puts "x#{x}y" }\nend\n',
    "php": 'function max($a, $b) { foreach ($a as $x) { echo "x{$x}y"; } return $a <=> $b; }',
}


def by_spans(tree: Tree, tokens: CodeTokens) -> Constituents:
    """Every node around a token, by the characters that it covers; written without the module."""
    found: Constituents = Counter()
    own = Counter(tokens.node.tolist())
    for row in range(len(tree)):
        inside = [at for at, node in enumerate(tokens.node.tolist()) if row <= node < tree.last[row]]
        # A token's own node is no constituent, but where other tokens lie in it too.
        if inside and not (len(inside) == 1 and own[row]):
            found[tree.kind_name(row), inside[0], inside[-1]] += 1
    return found


def back(binary: BinaryTree) -> Constituents:
    return count_constituents(binary.distance, binary.labels, binary.unary)


def read(language: str, code: str) -> tuple[Tree, CodeTokens]:
    of = LANGUAGES.load(language)
    tree = of.parse(code)
    return tree, of.tokens(tree)


def test_a_function_by_hand() -> None:
    binary = binarise(*read("python", "def f(a):\n    return -a\n"))
    # def f ( a ) : return - a
    gap = {
        ("def", "f"): ("module", "function_definition"),
        ("(", "a"): ("parameters",),
        ("return", "-"): ("block", "return_statement"),
        ("-", "a"): ("unary_operator",),
    }
    words = ["def", "f", "(", "a", ")", ":", "return", "-", "a"]
    assert binary.labels == tuple(gap.get(pair, NO_LABELS) for pair in pairwise(words))
    # A leaf is 0; the root stands above f, the parameters (2), the sign and the block (2): 2, 3, 4, 5, 6.
    assert binary.distance.tolist() == [6, 5, 2, 1, 4, 3, 2, 1]
    assert binary.unary == (NO_LABELS,) * 9
    assert back(binary) == {
        ("module", 0, 8): 1,
        ("function_definition", 0, 8): 1,
        ("parameters", 2, 4): 1,
        ("block", 6, 8): 1,
        ("return_statement", 6, 8): 1,
        ("unary_operator", 7, 8): 1,
    }


def test_a_token_alone_in_its_nodes_has_their_labels() -> None:
    binary = binarise(*read("python", "def f():\n    pass\n"))
    assert binary.unary[-1] == ("block", "pass_statement")
    assert back(binary)["pass_statement", 5, 5] == 1


@pytest.mark.parametrize("language", list(CODE))
def test_the_way_back_is_exact_in_every_language(language: str) -> None:
    tree, tokens = read(language, CODE[language])
    assert not tree.has_error
    found = back(binarise(tree, tokens))
    assert found == by_spans(tree, tokens)
    assert len(found) > 8


def test_the_way_back_is_exact_for_functions_of_the_library() -> None:
    language = LANGUAGES.load("python")
    read_functions = 0
    for name in ("textwrap.py", "json/decoder.py", "string.py", "calendar.py"):
        text = (Path(sysconfig.get_paths()["stdlib"]) / name).read_text()
        for function in language.functions(text):
            tree, tokens = read("python", function.slice_from(text))
            assert back(binarise(tree, tokens)) == by_spans(tree, tokens)
            read_functions += 1
    assert read_functions > 80


def random_tree(rng: np.random.Generator) -> tuple[Tree, CodeTokens]:
    """Nodes with any number of children; a token per character, empty nodes among them."""
    parent: list[int] = []
    kind: list[int] = []
    start: list[int] = []
    end: list[int] = []
    last: list[int] = []
    leaves: list[int] = []

    def grow(above: int, depth: int) -> None:
        row = len(parent)
        parent.append(above)
        kind.append(int(rng.integers(4)))
        start.append(len(leaves))
        end.append(0)
        last.append(0)
        children = int(rng.integers(0, 5)) if depth < 5 else 0
        if depth and not children and rng.random() < 0.9:
            leaves.append(row)
        for _ in range(children):
            grow(row, depth + 1)
        end[row], last[row] = len(leaves), len(parent)

    while len(leaves) < 2:
        for column in (parent, kind, start, end, last, leaves):
            column.clear()
        grow(-1, 0)
    columns = [np.array(column, np.int32) for column in (kind, parent, start, end, last)]
    nothing = np.zeros(len(parent), np.bool_)
    text = "x" * len(leaves)
    tree = Tree(text, "text", tuple("ABCD"), *columns, ~nothing, nothing, np.array(leaves))
    places = np.arange(len(leaves))
    return tree, CodeTokens(places, places + 1, places * 0, ("",) * len(leaves), np.array(leaves))


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 100_000))
def test_the_way_back_is_exact_for_random_trees(seed: int) -> None:
    tree, tokens = random_tree(np.random.default_rng(seed))
    binary = binarise(tree, tokens)
    assert back(binary) == by_spans(tree, tokens)
    # Only the order of the heights counts.
    assert count_constituents(np.sqrt(binary.distance), binary.labels, binary.unary) == back(binary)


@settings(deadline=None, max_examples=100)
@given(heights=st.lists(st.integers(0, 5), max_size=12))
def test_parts_are_those_of_the_highest_gap_first(heights: list[int]) -> None:
    expected: dict[int, tuple[int, int]] = {}

    def part(first: int, last: int) -> None:
        if first < last:
            top = max(range(first, last), key=lambda gap: (heights[gap], -gap))
            expected[top] = first, last
            part(first, top)
            part(top + 1, last)

    part(0, len(heights))
    assert find_gap_spans(np.array(heights, np.float64)) == [expected[gap] for gap in range(len(heights))]


def test_rows_of_label() -> None:
    item = Item("a", "def f():\n    pass\n", "python", "function")
    row = task.row(item)
    assert row["tokens"] == ["def", "f", "(", ")", ":", "pass"]
    assert row["unary"][-1] == ["block", "pass_statement"]
    assert len(row["distance"]) == len(row["constituent"]) == 5
