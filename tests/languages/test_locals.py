"""One account of what binds a name: `locals.scm`, which variables, misuses and imports read."""

import pytest

from sonde.languages import LANGUAGES
from sonde.languages.engine.language import node_text
from sonde.languages.engine.names import Locals
from sonde.languages.engine.treesitter import TreeSitterLanguage

PYTHON = """def f(a, *b, c=d, **e):
    global g
    h, (i, *j) = a
    with k() as l, m() as (n, o):
        pass
    try:
        p = [q for q in h if (r := q)]
    except E as s:
        p += 1
        del s
    match a:
        case [t, *u]:
            g = 1
    def v(w: x) -> y:
        return w.z(k=1)
"""
JAVA = """void f(int a, int... b) {
    int c = a;
    for (int d : e) { c += d; d++; }
    try (R g = h()) { k.l(c -> c); } catch (E i) { this.m = 1; }
    if (o instanceof P q) { list.forEach(list::add); }
}
"""


def found(language: str, text: str) -> Locals:
    of = LANGUAGES.load(language)
    assert isinstance(of, TreeSitterLanguage)
    return of.locals(text)


@pytest.mark.parametrize(
    ("language", "text", "kinds"),
    [
        (
            "python",
            PYTHON,
            {
                "parameter": "abcew",
                "variable": "hijlnopqg",
                "expression": "r",
                "exception": "s",
                "again": "p",
                "deleted": "s",
                "pattern": "tu",
                "function": "fv",
            },
        ),
        ("java", JAVA, {"parameter": "abci", "variable": "cdgq", "method": "f"}),
    ],
)
def test_definitions_have_kinds(language: str, text: str, kinds: dict[str, str]) -> None:
    by_kind: dict[str, str] = {}
    for node, kind in found(language, text).definitions:
        by_kind[kind] = by_kind.get(kind, "") + node_text(node)
    assert by_kind == kinds


def test_members_are_no_references() -> None:
    names = {node_text(node) for node, _ in found("python", PYTHON).references}
    assert "z" not in names
    assert {"d", "x", "y", "E"} <= names
    assert {"l", "m", "forEach"} & {node_text(node) for node, _ in found("java", JAVA).references} == set()


def test_a_receiver_of_a_method_reference_is_fixed() -> None:
    kept = {node_text(node) for node, how in found("java", JAVA).references if how == "fixed"}
    assert kept == {"list"}


def test_scopes_follow_where_code_is_evaluated() -> None:
    text = "class A:\n    n = 1\n    def f(self, m=n):\n        global g\n        g = [n for n in m]\n"
    held = found("python", text)
    inside, default = held.scopes.find_scope(text.index("g =")), text.index("=n") + 1
    assert (inside.kind, inside.outer_names) == ("function", {"g": "global"})
    assert held.scopes.find_scope(default).kind == "function"
    assert held.evaluation_scopes.find_scope(default).kind == "class"
    # A method does not see what its class binds, and a global name is the module's.
    assert [scope.kind for scope in held.scopes.visible_scopes(inside)] == ["function", "module"]
    assert [scope.kind for scope in held.scopes.visible_scopes(inside, "g")] == ["module"]
    assert held.scopes.find_scope(text.index("n for")).kind == "comprehension"
