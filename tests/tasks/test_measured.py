"""Tasks about a whole function: values, classes, modes, and labels that an item brings."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.errors import UsageError
from sonde.corpora import Given, Item, SkipCounter, SourceFile
from sonde.corpora.engine.read import extract_items
from sonde.tasks import LABEL_SCHEMA, get_quirks
from sonde.tasks.engine.task import TASKS, resolve_task
from sonde.tasks.engine.task_types import exact_classes, range_classes

JAVA = """\
int run(int limit, List<String> names) {
    int total = 0, spare;
    for (String name : names) {
        if (name == null && limit > 1) {
            return -1;
        } else if (limit < 2) {
            total += run(limit - 1, names);
        }
    }
    return total > 0 ? total : spare;
}
"""

PYTHON = """\
def run(limit, names):
    total, spare = 0, None
    for name in names:
        if name is None and limit > 1:
            return -1
        elif limit < 2:
            total += run(limit - 1, names)
    return total if total > 0 else spare
"""

# Task, then label and number in Java, in paper mode, and in Python.
EXPECTED = {
    "len": [("B", 75), ("B", 75), ("B", 55)],
    # = == && > - < += ?: in Java; = is and > - < += `if else` in Python.
    "ocu": [("8", 8), ("9", 9), ("8", 8)],
    "oct": [("9X", 10), ("9X", 14), ("9X", 10)],
    "vcu": [("5", 5), ("3", 3), ("5", 5)],
    "vct": [(None, 15), (None, 20), (None, 15)],
    "csc": [("3", 3), ("3", 3), ("3", 3)],
    "mxn": [("3", 3), ("3", 3), ("3", 3)],
    "cpx": [("6", 6), ("5", 5), ("6", 6)],
    # Loop: (if 1 + 1 operator + (else-if 1 + 1)) + 1 = 5, then the returned ?: 2.
    "npt": [("9-10", 10), ("10", 10), ("9-10", 10)],
    "nml": [("1", 1), ("1", 1), ("1", 1)],
    "nms": [("2", 2), ("2", 2), ("2", 2)],
    "nested_loop": [("NO", 0), ("NO", 0), ("NO", 0)],
    "if_in_loop": [("YES", 2), ("YES", 2), ("YES", 2)],
    "early_return": [("YES", 1), ("YES", 1), ("YES", 1)],
    "recursion": [("YES", 1), ("YES", 1), ("YES", 1)],
}


# A file, and how often each of its functions calls itself.
RECURSIVE = [
    ("python", "def f(n):\n    return f(n)\n", [1]),
    ("python", "class C:\n    def f(self):\n        f()\n        self.f()\n        x.f()\n", [1]),
    ("python", "class C:\n    @staticmethod\n    def f():\n        f()\n    def g(this): g()\n", [0, 0]),
    ("python", "def f(f):\n    return f(n)\n\ndef g(x):\n    g = x\n    return g(n)\n", [0, 0]),
    ("python", "def f(x):\n    def g():\n        return f(1)\n    return g()\n", [1]),
    ("java", "class C { int f() { return f() + this.f() + o.f(); } }", [2]),
    ("java", "class C { int f() { int f = 1; new A() { int f() { return f(); } }; return f(); } }", [1]),
    ("go", "package p\nfunc f[T any](n T) int { return f(n) + f[T](n) + x.f(n) }", [2]),
    ("go", "package p\nfunc f(n int) int { f := g; return f(n) }", [0]),
    ("go", "package p\nfunc (t *T) f(n int) int { return f(n) + t.f(n) + t.l.f(n) + u.f(n) }", [1]),
    ("javascript", "function f(n) { f(n); this.f(n) }\nfunction g(g) { g() }", [1, 0]),
    ("javascript", "class C { f() { f(); this.f(); this?.f() } static #g() { g(); this.#g() } }", [2, 1]),
    ("javascript", "class C { f = () => { f(); this.f() } }\nx = {g: () => { g(); this.g() }}", [1, 1]),
    ("javascript", "const f = n => f(n)\nx = {g: function g() { g() }}", [1, 1]),
    ("php", "<?php function f($n) { return f($n) + $x->f(); }", [1]),
    ("php", "<?php class C { function fAct() { self::Fact(); fact(); } } function G() { g(); }", [1, 1]),
    ("php", "<?php class C { function f() { f(); $this->f(); $this?->f(); self::f(); static::f(); } }", [4]),
    ("php", "<?php class C { function f() { f(); C::g(); parent::f(); $x->f(); } }", [0]),
    ("ruby", "def f(n)\n  f(n) + self.f(n) + o.f(n)\nend\n", [2]),
    ("ruby", "class C\n  def f\n    f\n  end\n  def self.g\n    g = 1\n    g\n  end\nend\n", [1, 0]),
    ("ruby", "def f?(n)\n  f?(n)\nend\ndef F(n)\n  F(n)\nend\n", [1, 1]),
]


def item(text: str, language: str, *given: Given) -> Item:
    return Item("id", text, language, "function", "path", "run", 0, "cluster", "repository", given=given)


@pytest.mark.parametrize(("language", "text", "expected"), RECURSIVE)
@pytest.mark.parametrize("unit", ["function", "file"])
def test_recursion_is_what_calls_the_function_itself(
    language: str, text: str, expected: list[int], unit: str
) -> None:
    file = SourceFile("f", text, language, "cluster", "repository")
    items = [*extract_items(file, unit, SkipCounter())]
    tables = TASKS.load("recursion").label(items, {})
    values = [tables[one.item_id]["value"][0] for one in items]
    assert values == (expected if unit == "function" else [sum(expected)])


@pytest.mark.parametrize("language", ["python", "java", "go", "javascript", "php", "ruby"])
def test_the_number_of_nested_loops_is_that_of_loops_in_another(language: str) -> None:
    loop = {
        "python": ("while a:\n{}", "def f():\n{}"),
        "ruby": ("while a\n{}\nend", "def f\n{}\nend"),
        "go": ("for a {{\n{}\n}}", "func f() {{\n{}\n}}"),
        "php": ("while ($a) {{ {} }}", "function f() {{ {} }}"),
        "java": ("while (a) {{ {} }}", "void f() {{ {} }}"),
        "javascript": ("while (a) {{ {} }}", "function f() {{ {} }}"),
    }[language]
    leaf = {"php": "$b();", "java": "b();"}.get(language, "b()")

    def inside(template: str, body: str) -> str:
        return template.format(textwrap.indent(body, "    ") if language == "python" else body)

    one = inside(loop[0], leaf)
    text = inside(loop[1], inside(loop[0], f"{one}\n{inside(loop[0], one)}"))
    row = TASKS.load("nested_loop").label([item(text, language)], {})["id"].row(0, named=True)
    assert (row["label"], row["value"]) == ("YES", 3.0)


@pytest.mark.parametrize("name", EXPECTED)
def test_value_and_class(name: str) -> None:
    task = TASKS.load(name)
    tables = [
        task.label([item(JAVA, "java")], {})["id"],
        resolve_task(task, "paper").label([item(JAVA, "java")], {})["id"],
        task.label([item(PYTHON, "python")], {})["id"],
    ]
    assert [table.row(0, named=True) for table in tables] == [
        {"start": 0, "end": len(text), "label": label, "value": float(value)}
        for text, (label, value) in zip((JAVA, JAVA, PYTHON), EXPECTED[name], strict=True)
    ]
    assert all(dict(table.schema) == dict(LABEL_SCHEMA) for table in tables)


@pytest.mark.parametrize("name", [*EXPECTED, "tan", "ast_depth"])
def test_classes_of_a_mode_are_named(name: str) -> None:
    task = TASKS.load(name)
    assert resolve_task(task, "corrected") is task
    for asked in (task, resolve_task(task, "paper")):
        assert len(set(asked.labels)) == len(asked.labels) > 1
        label = asked.label([item(PYTHON, "python")], {})["id"]["label"][0]
        assert label is None or label in asked.labels


def test_the_released_classes_differ_where_the_specification_says() -> None:
    assert TASKS.load("cpx").labels == tuple(map(str, range(1, 11)))
    assert resolve_task(TASKS.load("cpx"), "paper").labels == tuple(map(str, range(10)))
    assert TASKS.load("npt").labels[3:6] == ("4-6", "7-8", "9-10")
    assert resolve_task(TASKS.load("npt"), "paper").labels == tuple(map(str, range(1, 11)))
    assert TASKS.load("NML").labels == ("0", "1", "2", "3", "4X")
    assert TASKS.load("OCT").labels[-1] == "9X"


@pytest.mark.parametrize("name", ["cpx", "npt", "mxn", "ocu", "oct", "vcu", "vct"])
def test_paper_mode_is_one_named_quirk_that_changes_a_number(name: str) -> None:
    inner = "new R() { int k = {{{1}}}; void h() { if (a > 1 && k) b(); } }"
    text = f"int f(int a) {{ g({inner}); for (X x : y) z(); }}"
    task = TASKS.load(name)
    (quirk,) = get_quirks(task)
    assert quirk.startswith("inspect.")
    rows = [
        resolve_task(task, mode, quirks).label([item(text, "java")], {})["id"].row(0)
        for mode, quirks in (
            ("corrected", frozenset()),
            ("paper", frozenset()),
            ("corrected", {quirk}),
            ("corrected", {"inspect.other"}),
        )
    ]
    assert rows[1] == rows[2] != rows[0] == rows[3]
    assert rows[1][3] != rows[0][3]
    assert resolve_task(task, "corrected", {quirk}).labels == resolve_task(task, "paper").labels


@pytest.mark.parametrize(
    ("text", "label", "value"),
    [
        ("def f():\n    if a and b and c: pass", "KEY", -1),
        ("def f(a): return a", "IDF", 1),
        ("def f(): return a", None, 0),
    ],
)
def test_majority_of_tokens(text: str, label: str | None, value: int) -> None:
    row = TASKS.load("tan").label([item(text, "python")], {})["id"].row(0, named=True)
    assert (row["label"], row["value"]) == (label, value)


def test_a_label_that_the_item_brings_is_taken_as_it_is() -> None:
    task, brought = TASKS.load("cpx"), Given("CPX", "9", 0, len(JAVA))
    published = resolve_task(task, "paper")
    row = published.label([item(JAVA, "java", brought)], {})["id"].row(0, named=True)
    assert (row["label"], row["value"]) == ("9", 5.0)
    other = Given("LEN", "A", 0, len(JAVA))
    assert task.label([item(JAVA, "java", other)], {})["id"]["label"][0] == "6"


def test_more_paths_than_a_float_holds_are_a_number() -> None:
    text = "def f():\n" + "    if a: b\n" * 1100
    row = TASKS.load("npt").label([item(text, "python")], {})["id"].row(0, named=True)
    assert row["label"] is None and 1e308 < row["value"] < float("inf")


def test_a_language_without_metrics_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="no metrics"):
        TASKS.load("cpx").label([item("words", "text")], {})


@given(st.integers(-3, 20), st.integers(0, 3), st.integers(4, 12), st.booleans())
def test_exact_classes_hold_their_own_number(value: int, low: int, high: int, above: bool) -> None:
    classes = exact_classes(low, high, above)
    found = classes.find(value)
    if low <= value <= high:
        assert found == str(value)
    else:
        assert found == (f"{high + 1}X" if above and value > high else None)
    assert len(classes.names) == high - low + 1 + above


@given(st.integers(-1, 200))
def test_bins_are_named_by_what_they_hold(value: int) -> None:
    classes = range_classes("1", "2-4", "7-")
    expected = {1: "1", 2: "2-4", 3: "2-4", 4: "2-4"}.get(value, "7-" if value >= 7 else None)
    assert classes.find(value) == expected
