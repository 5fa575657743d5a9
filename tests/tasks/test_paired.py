"""Tasks about pairs of variables."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from sonde.corpora import Item
from sonde.languages import get_facet
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.metrics import Metrics
from sonde.tasks.engine.task import PAIR_SCHEMA, TASKS

JAVA = "int f(int a, int b) { int c = a; for (int d : c) { int e = 1; b = d; } return b; }"
PYTHON = "def f(a, b):\n    c = a\n    d = [e for e in c if e]\n    return b, d\n"


def rows(task: str, text: str, language: str) -> list[tuple[str, str, str, float | None]]:
    one = Item("id", text, language, "function", "path", "f", 0, "cluster", "repository")
    table = TASKS.load(task).label([one], {})["id"]
    assert dict(table.schema) == dict(PAIR_SCHEMA)
    assert (table["end"] <= table["other_start"]).all()
    columns = table.select("start", "end", "other_start", "other_end", "label", "value")
    return [(text[a:b], text[c:d], label, value) for a, b, c, d, label, value in columns.iter_rows()]


def yes(task: str, text: str, language: str) -> set[str]:
    found = rows(task, text, language)
    assert {one + other for one, other, _, _ in found} == {
        one + other for one, other in combinations(sorted({name for row in found for name in row[:2]}), 2)
    }
    return {one + other for one, other, label, _ in found if label == "YES"}


def test_one_variable_is_computed_from_another() -> None:
    assert yes("data_dependency", JAVA, "java") == {"ac", "ad", "cd", "bd", "bc", "ab"}
    assert yes("data_dependency", PYTHON, "python") == {"ac", "ad", "cd", "ae", "ce", "de"}


# Statements, and which of the variables a, b, c, d, i, s, t, u, v each written one is computed from.
ASSIGNED = [
    ("python", "s, t = a, b", "sa tb"),
    ("python", "s, (t, *u), v = a, (b, c, d), i", "sa tb uc ud vi"),
    ("python", "s, *t, u = a, b, c, d", "sa tb tc ud"),
    ("python", "s, t, u = a, *b, c", "sa tb tc ub uc"),
    ("python", "s = t = a, b", "sa sb ta tb"),
    ("python", "a[i], b.i = c, d\n    s[t][u] = v", "ac bd sv"),
    ("python", "s, t = a", "sa ta"),
    ("python", "for s, t in (a, b): pass", "sa sb ta tb"),
    ("python", "with a as (s, *t), b as [(u, [v])]: pass", "sa ta ub vb"),
    ("java", "int s = a, t = b; c[i] = d; this.x[i] = v;", "sa tb cd"),
    ("go", "s, t := a, b", "sa tb"),
    ("go", "var s, t int = a, b", "sa tb"),
    ("go", "s, t = a[i]", "sa si ta ti"),
    ("go", "a[i] = b; *c = d; s.x[t].y = u", "ab cd su"),
    ("go", "a[i], b.x = c, d", "ac bd"),
    ("go", "for s, t := range a {}", "sa ta"),
    ("javascript", "[s, , t] = [a, b, c]", "sa tc"),
    ("javascript", "let {s, x: t, ...u} = {s: a, x: b, y: c}", "sa tb uc"),
    ("javascript", "[s, ...t] = [a, b, c]; [a[i], b.x] = [d, v]", "sa tb tc ad bv sd tv"),
    ("javascript", "let [u = a, v] = [b, c]", "ua ub vc"),
    ("javascript", "for ([s, t] of [a, b]) {}", "sa sb ta tb"),
    ("javascript", "let {[i]: s} = a; this.x[i] = b", "sa"),
    ("php", "[$s, , $t] = [$a, $b, $c];", "sa tc"),
    ("php", "list($s, list($t, $u)) = [$a, [$b, $c]];", "sa tb uc"),
    ("php", "['x' => $s, 'y' => $t] = ['y' => $a, 'x' => $b];", "sb ta"),
    ("php", "[$a[$i], $b->x] = [$c, $d]; $s->x[$t] = $u; self::$x[$i] = $v;", "ac bd su"),
    ("php", "foreach ($a as [$s, $t]) {}", "sa ta"),
    ("ruby", "s, t = a, b", "sa tb"),
    ("ruby", "s, *t = a, b, c", "sa tb tc"),
    ("ruby", "(s, t), u = [a, b], c", "sa tb uc"),
    ("ruby", "s, t = *a, b", "sa sb ta tb"),
    ("ruby", "a[i], b.x = c, d", "ac bd"),
    ("ruby", "s = t = a", "sa ta"),
]

AROUND = {
    "python": ("def f(a, b, c, d, i, s, t, u, v):\n    {}\n", ""),
    "java": ("void f(int a, int b, int[] c, int d, int i, int v) {{ {} }}", ""),
    "go": ("func f(a, b, c, d, i, s, t, u, v T) {{ {} }}", ""),
    "javascript": ("function f(a, b, c, d, i, s, t, u, v) {{ {} }}", ""),
    "php": ("function f($a, $b, $c, $d, $i, $s, $t, $u, $v) {{ {} }}", "$"),
    "ruby": ("def f(a, b, c, d, i, s, t, u, v)\n  {}\nend\n", ""),
}


@pytest.mark.parametrize(("language", "statement", "expected"), ASSIGNED)
def test_each_of_several_targets_gets_its_own_value(language: str, statement: str, expected: str) -> None:
    template, sign = AROUND[language]
    flow = get_facet(language, "flow", Flow)
    text = template.format(statement)
    variables = [variable.name.removeprefix(sign) for variable in flow.variables(text)]
    found = {variables[one] + variables[other] for one, other in flow.dependencies(text)}
    assert found == set(expected.split())


def test_two_variables_share_a_scope() -> None:
    assert yes("same_scope", JAVA, "java") == {"ab", "ac", "bc", "de"}
    assert yes("same_scope", PYTHON, "python") == {"ab", "ac", "ad", "bc", "bd", "cd"}


@pytest.mark.parametrize(("text", "language"), [(JAVA, "java"), (PYTHON, "python")])
def test_the_next_use_is_so_many_tokens_away(text: str, language: str) -> None:
    leaves = get_facet(language, "metrics", Metrics).leaves(text)
    expected = []
    for variable in get_facet(language, "flow", Flow).variables(text):
        starts = {place.start for place in variable.places}
        at = [number for number, leaf in enumerate(leaves) if leaf.start in starts]
        expected += [
            (variable.name, variable.name, float(later - earlier)) for earlier, later in pairwise(at)
        ]
    found = rows("next_use", text, language)
    assert [(one, other, value) for one, other, _, value in found] == expected
    for _, _, label, value in found:
        low, _, high = label.partition("-")
        assert value is not None and float(low) <= value <= float(high or "inf")


def test_names_that_shadow_each_other_make_no_pair() -> None:
    text = "def f(a):\n    return lambda a: a\n"
    assert rows("same_scope", text, "python") == []
    assert rows("data_dependency", text, "python") == []
