"""Tasks about pairs of variables."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from sonde.corpora import Item
from sonde.languages import facet_of
from sonde.languages._flow import Flow
from sonde.languages._metrics import Metrics
from sonde.tasks import TASKS
from sonde.tasks._task import PAIR_SCHEMA

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


def test_two_variables_share_a_scope() -> None:
    assert yes("same_scope", JAVA, "java") == {"ab", "ac", "bc", "de"}
    assert yes("same_scope", PYTHON, "python") == {"ab", "ac", "ad", "bc", "bd", "cd"}


@pytest.mark.parametrize(("text", "language"), [(JAVA, "java"), (PYTHON, "python")])
def test_the_next_use_is_so_many_tokens_away(text: str, language: str) -> None:
    leaves = facet_of(language, "metrics", Metrics).leaves(text)
    expected = []
    for variable in facet_of(language, "flow", Flow).variables(text):
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
