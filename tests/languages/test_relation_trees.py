"""Relations by query beside the trees that CodeSyntax's authors walk, and whose tokens a language has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.reference import relations as reference

from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer
from sonde.languages.engine.relations import PUBLISHED_OPTIONS, EdgeLabeller, Relations

LANGUAGES = ("python", "java")
with_sources = pytest.mark.skipif(
    not any(Path("/usr/lib/jvm").glob("*/lib/src.zip")),
    reason="no Java development kit with its sources here",
)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["python", pytest.param("java", marks=with_sources)])
def test_nearly_all_edges_are_equal_and_the_others_have_a_reason(language: str) -> None:
    found = reference.compare(language, 300)
    assert found.functions == 300 and found.equal > 5_000 and not found.problems
    assert found.share >= 0.995
    assert reference.UNEXPLAINED not in {reason for _, reason in found.classes}


def test_a_difference_is_counted_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        "def f(x):\n    a = b = c = d = 0\n",
        "def f(x):\n    print >> x\n",
        "def f(x):\n    return x(1)\n",
    ]

    def few(language: str) -> Iterator[str]:
        return iter(texts)

    monkeypatch.setattr(reference, "texts", few)
    found = reference.compare("python")
    assert {name: len(held) for (name, _), held in found.classes.items()} == {
        "`a = b = c = d = 0`": 1,
        "`print >> f`": 4,
    }
    assert (found.functions, found.share < 1) == (3, True)
    (row,) = [row for row in reference.table(found, 3) if "a = b" in row]
    assert row.startswith("| `a = b = c = d = 0` | 0 | 1 | the query") and "`` a -> 0 `` (tree)" in row


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_a_quirk_no_paper_is_asked(language: str) -> None:
    edges = get_facet(language, "edges", EdgeLabeller)
    assert type(edges).__module__ == "sonde.languages.engine.relation_query"
    assert type(get_facet(language, "program", ProgramLexer)).__module__ == f"sonde.papers.cubert.{language}"


JAVA = "void f() { g(1, 2); for (int i = 0; i < n; i++) { final String[] s = new String[n]; } }"


@pytest.mark.parametrize(
    ("language", "text", "edge"),
    [
        # A loop's declaration ends before its sign; the type of an array has the size in it.
        ("java", JAVA, ("children:parent->child", "for", "int i = 0")),
        ("java", JAVA, ("children:parent->child", "new", "String [ n")),
        ("java", JAVA, ("children:parent->child", "new", "n")),
        ("java", "void f() { for (final A a : b) { } }", ("children:parent->child", "for", "final A a")),
        ("java", "void f() { x(y >>> 2); }", ("InfixExpr:left->right", "y", "2")),
        ("python", "def f(x):\n    x[a, b,]\n", ("Subscript:value->slice", "x", "a , b ,")),
        ("python", "def f(x):\n    x[a, b,]\n", ("children:parent->child", "a", "b")),
    ],
)
def test_what_the_grammar_has_otherwise(language: str, text: str, edge: tuple[str, str, str]) -> None:
    for related in (
        get_facet(language, "relations", Relations).relate(text),
        get_facet(language, "edges", EdgeLabeller).relate(text, PUBLISHED_OPTIONS),
    ):
        words = related.words.surface
        assert edge in {
            (found.relation, words[found.head], " ".join(words[found.first : found.last + 1]))
            for found in related.edges
        }


def test_a_sign_that_may_close_type_arguments_is_a_word_each() -> None:
    words = get_facet("java", "relations", Relations).words("void f() { x = y >>> 2; }").surface
    assert words[5:12] == ("x", "=", "y", ">", ">", ">", "2")
