"""Texts in other words are the same programs: hundreds of functions against `ast`, six languages by hand."""

from __future__ import annotations

import ast
import random
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.transforms import COMMENTS, LAYOUT, RENAME, Transforms
from sonde.languages.engine.treesitter import TreeSitterLanguage

OTHERS = tuple(f"{word}{number}" for word in ("apple", "pear", "plum", "fig") for number in range(9))


def rules(language: str) -> Transforms:
    loaded = LANGUAGES.load(language)
    assert isinstance(loaded, TreeSitterLanguage)
    return Transforms(loaded)


@cache
def functions() -> tuple[str, ...]:
    """Functions of the standard library that Python's own parser takes."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found: list[str] = []
    for path in (*sorted(root.glob("*.py")), *sorted((root / "asyncio").glob("*.py"))):
        text = path.read_text(encoding="utf-8", errors="ignore")
        for one in LANGUAGES.load("python").functions(text):
            taken = one.slice_from(text)
            try:
                ast.parse(taken)
            except SyntaxError:
                continue
            found.append(taken)
    random.Random(0).shuffle(found)
    return tuple(found[:800])


class Renamed(ast.NodeTransformer):
    """A tree with its names spelt otherwise, by the nodes of Python that hold names of variables."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("id", "arg", "name"):
            value = getattr(node, field, None)
            held = not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.keyword)
            if held and isinstance(value, str):
                setattr(node, field, self.names.get(value, value))
        if isinstance(node, ast.Nonlocal | ast.Global):
            node.names = [self.names.get(name, name) for name in node.names]
        return super().generic_visit(node)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["neutral", "shuffled", "misleading"])
def test_renamed_python_is_the_same_tree_under_other_names(kind: str) -> None:
    changed = 0
    for text in functions():
        made = rules("python")
        names = {
            "neutral": lambda t=text, m=made: m.build_neutral_names(t),
            "shuffled": lambda t=text, m=made: m.shuffle_names(t, 0),
            "misleading": lambda t=text, m=made: m.select_misleading_names(t, OTHERS),
        }[kind]()
        other = made.rename_variables(text, names)
        assert (other != text) == bool(names)
        wanted = Renamed(names).visit(ast.parse(text))
        assert ast.dump(ast.parse(other)) == ast.dump(wanted), text
        undone = {new: old for old, new in names.items()}
        assert ast.dump(Renamed(undone).visit(ast.parse(other))) == ast.dump(ast.parse(text))
        if names:
            changed += 1
            assert made.preserves_tokens(text, other, RENAME)
    assert changed > 300


@pytest.mark.parametrize("kind", ["layout", "comments"])
def test_python_laid_out_or_without_comments_is_the_same_tree(kind: str) -> None:
    made, changed = rules("python"), 0
    for text in functions():
        other = made.normalise_layout(text) if kind == "layout" else made.remove_comments(text)
        assert ast.dump(ast.parse(other)) == ast.dump(ast.parse(text)), text
        assert made.preserves_tokens(text, other, LAYOUT if kind == "layout" else COMMENTS)
        changed += other != text
    assert changed > 150


def test_python_without_docstrings_is_the_same_tree_but_for_them() -> None:
    made, changed = rules("python"), 0
    for text in functions():
        other = made.remove_documentation(text)
        changed += other != text
        trees = [ast.parse(one) for one in (text, other)]
        bodies = [tree.body[0].body for tree in trees if isinstance(tree.body[0], ast.FunctionDef)]
        if len(bodies) == 2:
            kept = bodies[0][1:] if ast.get_docstring(trees[0].body[0]) is not None else bodies[0]  # type: ignore[arg-type]
            wanted = kept or [ast.Pass()]
            assert [*map(ast.dump, bodies[1])] == [*map(ast.dump, wanted)], text
    assert changed > 300


def test_swapped_python_holds_the_same_statements_and_computes_the_same() -> None:
    made, changed = rules("python"), 0
    for text in functions():
        other = made.swap_statements(text, 0)
        if other != text:
            changed += 1
            statements = [Counter(map(ast.dump, ast.walk(ast.parse(one)))) for one in (text, other)]
            blocks = [
                {name: count for name, count in some.items() if name.startswith(("Assign", "AugAssign"))}
                for some in statements
            ]
            assert blocks[0] == blocks[1]
    assert changed > 20


SWAPS = [
    ("def f(a, b):\n    x = a\n    y = b\n    return x, y\n", True),
    ("def f(a, b):\n    x = a\n    y = x\n    return x, y\n", False),
    ("def f(a, b):\n    x = a\n    x = b\n    return x\n", False),
    ("def f(a, b):\n    a = b\n    b = 1\n    return a\n", False),
    ("def f(a, b):\n    x = a()\n    y = b\n    return x\n", False),
    ("def f(a, b):\n    a.x = 1\n    y = b\n    return y\n", False),
    ("def f(a, b):\n    x = a\n    # of b\n    y = b\n    return x\n", False),
    ("def f(a, b):\n    x = a.c\n    y = b[0]\n    return x\n", True),
    ("def f(a, b):\n    x = yield a\n    y = b\n    return x\n", False),
    ("def f(a, b):\n    x += a\n    y = b\n    return x\n", True),
    ("def f(a, b):\n    x += a\n    y = x\n    return x\n", False),
    ("def f(a, b):\n    x, y = a, b\n    z = 3\n    return x\n", False),
]


@pytest.mark.parametrize(("text", "swaps"), SWAPS)
def test_only_statements_that_see_nothing_of_each_other_are_swapped(text: str, swaps: bool) -> None:
    assert (rules("python").swap_statements(text, 0) != text) == swaps


NAMED = [
    ("def f(a, b=1):\n    return a + g(b=b)\n", {"a"}),
    ("def f(self, a):\n    return self.a + a\n", {"a"}),
    ("def f(a):\n    return locals()\n", set()),
    ("def f(a):\n    global b\n    b = a\n", {"a"}),
    ("def f(list, c):\n    return list[c]\n", {"c"}),
    ("def f(a):\n    a.b = f'{a} b'\n    return [a for c in a]\n", {"a", "c"}),
    ("def f(a):\n    def g(k):\n        return k\n    return g(k=a)\n", {"a"}),
]


@pytest.mark.parametrize(("text", "names"), NAMED)
def test_only_names_that_mean_nothing_else_are_changed(text: str, names: set[str]) -> None:
    assert set(rules("python").names(text)) == names


def test_new_names_are_none_that_the_text_holds() -> None:
    text = "def f(a, v0):\n    return a + v0 + v2 + b\n"
    assert rules("python").build_neutral_names(text) == {"a": "v1", "v0": "v3"}
    assert rules("python").select_misleading_names(text, ["b", "v2", "x", "y"]) == {"a": "x", "v0": "y"}
    assert rules("python").shuffle_names(text, 0) == {"a": "v0", "v0": "a"}


def test_strings_over_lines_and_joined_lines_keep_their_layout() -> None:
    doc = '"""A\n\n          b\n        """'
    text = f"def f():\n        {doc}\n\n        x = 1 + \\\n            2\n"
    text += "        if x:\n\n            return x\n"
    wanted = f"def f():\n    {doc}\n    x = 1 + \\\n        2\n    if x:\n        return x\n"
    assert rules("python").normalise_layout(text) == wanted


LANGUAGE_TEXTS = {
    "java": (
        "int sum(int[] values, int from) {\n\n"
        "  // adds up\n"
        "  int total = 0;\n  int seen = from;\n"
        "  for (int i = from; i < values.length; i++) {\n"
        "    total += values[i] /* each */ + this.total;\n  }\n  return total - seen;\n}\n"
    ),
    "go": (
        "func sum(values []int, from int) int {\n\n"
        "\t// adds up\n"
        "\ttotal := 0\n\tseen := from\n"
        "\tfor i := from; i < len(values); i++ {\n"
        "\t\ttotal += values[i] // each\n\t}\n\treturn total - seen\n}\n"
    ),
    "javascript": (
        "function sum(values, from) {\n\n"
        "  // adds up\n"
        "  let total = 0;\n  let seen = from;\n"
        "  for (let i = from; i < values.length; i++) {\n"
        "    total += values[i] /* each */ + this.total;\n  }\n  return { total, got: seen };\n}\n"
    ),
    "php": (
        "function sum($values, $from) {\n\n"
        "  // adds up\n"
        "  $total = 0;\n  $seen = $from;\n"
        "  foreach ($values as $value) {\n"
        "    $total += $value; # each\n  }\n  return $total - $seen;\n}\n"
    ),
    "ruby": (
        "def sum(values, from)\n\n"
        "  # adds up\n"
        "  total = 0\n  seen = from\n"
        "  values.each do |value|\n"
        "    total += value # each\n  end\n  total - seen\nend\n"
    ),
}
NAMES = {
    "java": {"values", "from", "total", "seen", "i"},
    "go": {"values", "from", "total", "seen", "i"},
    # That of `{ total }` is a name of the object too.
    "javascript": {"values", "from", "seen", "i"},
    "php": {"$values", "$from", "$total", "$seen", "$value"},
    "ruby": {"values", "from", "total", "seen", "value"},
}


@pytest.mark.parametrize("language", LANGUAGE_TEXTS)
def test_every_language_has_every_change(language: str) -> None:
    text, made = LANGUAGE_TEXTS[language], rules(language)
    edits = get_facet(language, "edits", Edits)
    assert edits.parses(text)
    assert set(made.names(text)) == NAMES[language]

    def surfaces(some: str) -> list[str]:
        return [token.surface for token in edits.tokens(some)]

    for names in (
        made.build_neutral_names(text),
        made.shuffle_names(text, 0),
        made.select_misleading_names(text, [*_signed(language)]),
    ):
        other = made.rename_variables(text, names)
        assert edits.parses(other)
        assert set(names) == NAMES[language]
        apart = {(one, two) for one, two in zip(surfaces(text), surfaces(other), strict=True) if one != two}
        assert {(one.lstrip("$"), two.lstrip("$")) for one, two in apart} == {
            (one.lstrip("$"), two.lstrip("$")) for one, two in names.items()
        }
    laid = made.normalise_layout(text)
    assert laid != text
    assert "\n\n" not in laid
    assert surfaces(laid) == surfaces(text)
    bare = made.remove_comments(text)
    assert surfaces(bare) == surfaces(text)
    assert not any(word in bare for word in ("adds up", "each */", "# each", "// each"))
    swapped = made.swap_statements(text, 0)
    assert edits.parses(swapped)
    assert Counter(surfaces(swapped)) == Counter(surfaces(text))
    lines = [line.strip().rstrip(";") for line in swapped.splitlines()]
    assert lines[3:5] == [line.strip().rstrip(";") for line in text.splitlines()][4:2:-1]


def _signed(language: str) -> list[str]:
    return [f"${name}" for name in OTHERS] if language == "php" else list(OTHERS)
