"""Variables, scopes and what is computed from what, by hand."""

from __future__ import annotations

import pytest

from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.data_flow import Flow

JAVA = """\
void run(int é, String... more) throws E {
    int total = é, spare;
    for (int i = 0, n = more.length; i < n; i++) { int square = i * i; total += square; }
    for (String one : more) { int square = one.size(); this.total = square; list[total] = one; }
    try (Reader in = open(total)) { in.read(); } catch (E failure) { throw failure; }
    Runner r = (a, b) -> a;
    if (spare instanceof Integer number) use(number);
    use(new Runner() { int kept = total; void run() { int é = kept; } });
}
"""

PYTHON = """\
def run(self, a, *rest, key: int = 1, **more):
    global everywhere
    everywhere = a
    x, (y, *z) = a, key
    for i, (j, k) in enumerate(x):
        more[i] = j
        self.kept = k
    total = [(w := e) for e in z if e]
    with open(a) as (u, v), y as single: pass
    try: total += v
    except OSError as failure: print(failure)
    def inner(a):
        nonlocal total
        total = a + x
    match a:
        case [first, *others]: pass
        case Point(at, kind=last) as whole: pass
        case Color.RED | None: pass
    import os as system
    return lambda key: (key, u, run, system)
"""


def listed(language: str, text: str) -> list[tuple[str, str, int]]:
    """Name, kind and number of places of each variable."""
    found = get_facet(language, "flow", Flow).variables(text)
    for variable in found:
        assert all(text[place.start : place.end] == variable.name for place in variable.places)
        assert list(variable.places) == sorted(variable.places)
    return [(variable.name, variable.kind, len(variable.places)) for variable in found]


def test_variables_of_java() -> None:
    assert listed("java", JAVA) == [
        ("é", "parameter", 2),
        ("more", "parameter", 3),
        ("total", "local", 5),
        ("spare", "local", 2),
        ("i", "local", 5),
        ("n", "local", 2),
        ("square", "local", 2),
        ("one", "local", 3),
        ("square", "local", 2),
        ("in", "local", 2),
        ("failure", "parameter", 2),
        ("r", "local", 1),
        ("a", "parameter", 2),
        ("b", "parameter", 1),
        ("number", "local", 2),
        ("kept", "field", 2),
        ("é", "local", 1),
    ]


def test_variables_of_python() -> None:
    assert listed("python", PYTHON) == [
        ("self", "parameter", 2),
        ("a", "parameter", 5),
        ("rest", "parameter", 1),
        ("key", "parameter", 2),
        ("more", "parameter", 2),
        ("x", "local", 3),
        ("y", "local", 2),
        ("z", "local", 2),
        ("i", "local", 2),
        ("j", "local", 2),
        ("k", "local", 2),
        ("total", "local", 4),
        ("w", "local", 1),
        ("e", "local", 3),
        ("u", "local", 2),
        ("v", "local", 2),
        ("single", "local", 1),
        ("failure", "local", 2),
        ("a", "parameter", 2),
        ("first", "local", 1),
        ("others", "local", 1),
        ("at", "local", 1),
        ("last", "local", 1),
        ("whole", "local", 1),
        ("key", "parameter", 2),
    ]


def scopes(language: str, text: str) -> list[set[str]]:
    """The names of each scope."""
    found: dict[int, set[str]] = {}
    for variable in get_facet(language, "flow", Flow).variables(text):
        found.setdefault(variable.scope, set()).add(variable.name)
    return list(found.values())


def test_parameters_and_loop_variables_belong_to_the_block_they_open() -> None:
    assert scopes("java", JAVA) == [
        {"é", "more", "total", "spare", "r", "number"},
        {"i", "n", "square"},
        {"one", "square"},
        {"in"},
        {"failure"},
        {"a", "b"},
        {"kept"},
        {"é"},
    ]


def test_a_scope_of_python_is_a_function_or_a_comprehension() -> None:
    assert [names & {"a", "e", "w", "key", "first", "i"} for names in scopes("python", PYTHON)] == [
        {"a", "key", "w", "first", "i"},
        {"e"},
        {"a"},
        {"key"},
    ]


def test_names_of_a_class_are_not_seen_by_its_functions() -> None:
    text = "def f():\n    class A:\n        x = 1\n        y = x\n        def g(self): return x\n"
    assert ("x", "local", 2) in listed("python", text)


FLOWS = [
    ("python", "def f(a):\n    b = a\n    c = b\n    d = 1\n", {("b", "a"), ("c", "b"), ("c", "a")}),
    ("python", "def f(a, b):\n    for c in a: b += c\n", {("c", "a"), ("b", "c"), ("b", "a")}),
    ("python", "def f(a, b, c):\n    a[b] = c\n    b.x = 1\n", {("a", "c")}),
    (
        "python",
        "def f(a):\n    with a as b, open(b) as (c, d): pass\n",
        {("b", "a")} | {(x, y) for x in "cd" for y in "ab"},
    ),
    ("python", "def f(a, b):\n    a, b = b, a\n", {("a", "b"), ("b", "a")}),
    ("python", "def f(a):\n    if a: b = 1\n", set()),
    ("java", "void f(int a) { int b = a; b = 2; int c; c = b + 1; }", {("b", "a"), ("c", "b"), ("c", "a")}),
    ("java", "void f(int[] a, int b) { for (int c : a) { b += c; } }", {("c", "a"), ("b", "c"), ("b", "a")}),
    ("java", "void f(int[] a, int b, X c) { a[b] = c.d; c.e = b; }", {("a", "c"), ("a", "b"), ("c", "b")}),
    ("java", "void f(X a) { if (a instanceof Y b) { } try (Z c = g(a)) { } }", {("b", "a"), ("c", "a")}),
]


@pytest.mark.parametrize(("language", "text", "expected"), FLOWS)
def test_dependencies(language: str, text: str, expected: set[tuple[str, str]]) -> None:
    flow = get_facet(language, "flow", Flow)
    found = flow.variables(text)
    assert {(found[one].name, found[other].name) for one, other in flow.dependencies(text)} == expected


@pytest.mark.parametrize("language", [name for name in LANGUAGES.names() if has_facet(name, "tokens")])
@pytest.mark.parametrize("text", ["", "x", "def def (", "void f( { int x = ; }", "é = 1;;"])
def test_any_text_has_variables_inside_it(language: str, text: str) -> None:
    flow = get_facet(language, "flow", Flow)
    count = len(listed(language, text))
    assert all(0 <= one < count and 0 <= other < count for one, other in flow.dependencies(text))


MEANT = {
    "python": [
        # A default is evaluated outside of the function that it belongs to.
        ("def f(x):\n    def g(x=x): return x\n    return lambda x=x: 1\n", [3, 2, 1]),
        # A comprehension that is all of another one's or of a lambda's body has its own variables.
        ("def f(x):\n    return [[x for x in x] for x in x]\n", [2, 2, 2]),
        ("def f(x):\n    return lambda x: [x for x in x]\n", [1, 2, 2]),
    ],
    "javascript": [
        ("function f(x) { return x => x => x }", [1, 1, 2]),
        ("function f(x) { for (let x of y) for (let x of z) g(x); return x }", [2, 1, 2]),
        # What names a function, a class or an import is no variable, and hides one.
        ("function f(x) { { const x = () => 1; x() } return x }", [2]),
        ("function f(x) { { class x { } new x() } return x }", [2]),
    ],
    "java": [
        # Methods see the fields that stand behind them.
        ("void f() { g(new R() { void h() { x = x + 1; } int x = 2; }); }", [3]),
        ("void f() { for (int x : y) for (int z : x) g(x); }", [3]),
    ],
    "go": [
        # A variable is seen behind its declaration.
        ("func f() { x := func() { x() }\nx() }", [2]),
        ("func f(x int) { if true { x := x + 1\ng(x) } }", [2, 2]),
        ("func f(x any) { for _, x := range x { g(x) } }", [2, 2]),
        ("func f(x any) { switch x := x.(type) { case int: g(x) } }", [2, 2]),
        ("func f(x any) { if true { var x = x\ng(x) } }", [2, 2]),
    ],
    "php": [("function f($x) { return fn($x) => fn($x) => $x; }", [1, 1, 2])],
    "ruby": [("def f(x)\n  y { |x| z { |x| x } }\n  x\nend", [2, 1, 2])],
}
"""Texts with one name that means several variables, and the places of each in the order of the first."""


@pytest.mark.parametrize("language", MEANT)
def test_a_name_means_the_variable_that_the_language_says(language: str) -> None:
    for text, expected in MEANT[language]:
        counts: dict[int, int] = {}
        for variable in get_facet(language, "flow", Flow).variables(text):
            if variable.name.removeprefix("$") == "x":
                counts[variable.scope] = len(variable.places)
        assert [counts[scope] for scope in sorted(counts)] == expected, text
