"""Edges written by hand for every relation in both modes, the quirks, and what does not parse."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.counting import grows_by

from sonde.base.errors import UsageError
from sonde.corpora import Selection, select
from sonde.languages import get_facet
from sonde.languages.engine.relations import RelationGraph, RelationOptions, Relations
from sonde.papers.python_tokens import count_matches

FACET = get_facet("python", "relations", Relations)


def body(*lines: str) -> str:
    return "def f(x):\n" + "".join(f"    {line}\n" for line in lines)


def shown(related: RelationGraph, relation: str) -> list[str]:
    """Edges as ``head: first ... last``, words joined by blanks, a newline as ``NL`` and nothing as ``_``."""
    words = [{"\n": "NL", "": "_"}.get(word, word.strip()) for word in related.words.surface]
    return [
        f"{words[edge.head]}: {' '.join(words[edge.first : edge.last + 1])}"
        for edge in related.edges
        if edge.relation == relation
    ]


# Relation, code, edges. They are the same in both modes: one line each, ASCII, ended by a newline.
IF = body("if a:", "    b", "elif c:", "    d", "    e", "else:", "    g", "    h")
TRY = body(
    "try:",
    "    a",
    "    b",
    "except C:",
    "    d",
    "except E:",
    "    g",
    "else:",
    "    h",
    "finally:",
    "    i",
)
FOR = body("for a, b in c(d):", "    e", "    g", "else:", "    h")
WHILE = body("while a < b:", "    c", "    d")
CALL = body("a.b(c, d, e=g, **h)")
DICTIONARY = body("{a: b for a, b in c if d for e in g if h}")
GOLDEN: list[tuple[str, str, list[str]]] = [
    ("Assign:target->value", body("a, b = c = d + 1"), ["a: d + 1"]),
    ("Assign:target->value", body("a: int = 1"), []),
    ("Attribute:value->attr", body("a.b(c).d"), ["a: d", "a: b"]),
    ("AugAssign:target->value", body("a[0] += b"), ["a: b"]),
    ("BinOp:left->right", body("a + b * c - d"), ["a: b * c", "a: d", "b: c"]),
    ("BoolOp:value->value", body("a and b and c or not d"), ["a: b", "a: not d"]),
    ("Call:args->keywords", CALL, ["c: e = g , ** h"]),
    ("Call:func->args", CALL, ["b: c , d"]),
    ("Call:func->args", body("a(b, c=1, *d)"), ["a: b , c = 1 , * d"]),
    ("Call:func->args", body("a()(b)"), ["(: b"]),
    ("Call:func->keywords", CALL, ["b: e = g , ** h"]),
    ("Compare:left->comparator", body("a < b <= c"), ["a: b <= c"]),
    ("Dict:key->value", body("{a: 1, **b, 'c': d()}"), ["a: 1", "'c': d ("]),
    ("DictComp:key->generator", DICTIONARY, ["a: a , b in c if d for e in g"]),
    ("DictComp:key->value", DICTIONARY, ["a: b"]),
    ("DictComp:value->generator", DICTIONARY, ["b: a , b in c if d for e in g"]),
    ("For:for->body", FOR, ["for: e NL g"]),
    ("For:for->iter", FOR, ["for: c ( d"]),
    ("For:for->target", FOR, ["for: a , b"]),
    ("For:iter->body", FOR, ["c: e NL g"]),
    ("For:target->body", FOR, ["a: e NL g"]),
    ("For:target->iter", FOR, ["a: c ( d"]),
    ("GeneratorExp:elt->generator", body("a((b for c in d if e))"), ["b: c in d"]),
    ("If:body->orelse", IF, ["b: elif c : NL  d NL e NL _ else : NL  g NL h", "d: g NL h"]),
    ("If:if->body", IF, ["if: b", "elif: d NL e"]),
    ("If:if->else", IF, ["if: elif", "elif: else"]),
    ("If:if->test", IF, ["if: a", "elif: c"]),
    ("If:test->body", IF, ["a: b", "c: d NL e"]),
    ("If:test->orelse", IF, ["a: elif c : NL  d NL e NL _ else : NL  g NL h", "c: g NL h"]),
    ("IfExp:body->orelse", body("a.b if c else (d)"), ["a: d"]),
    ("IfExp:body->test", body("a.b if c else (d)"), ["a: c"]),
    ("IfExp:test->orelse", body("a.b if c else (d)"), ["c: d"]),
    ("ListComp:elt->generator", body("[a.b for a in c if d]"), ["a: a in c"]),
    ("SetComp:elt->generator", body("{a.b for a in c if d}"), ["a: a in c"]),
    ("Slice:lower->upper", body("a[b:c:d], a[:c], a[b:], a[b::c]"), ["b: c"]),
    ("Subscript:value->slice", body("a[b][c:d, 1]"), ["a: b", "a: c : d , 1"]),
    ("Try:body->finalbody", TRY, ["a: i"]),
    ("Try:body->handler", TRY, ["a: except C : NL  d NL _ except E : NL  g"]),
    ("Try:body->orelse", TRY, ["a: h"]),
    ("Try:handler->finalbody", TRY, ["except: i"]),
    ("Try:handler->orelse", TRY, ["except: h"]),
    ("Try:body->handler", TRY.replace("except", "except*"), []),
    ("While:test->body", WHILE, ["a: c NL d"]),
    ("While:while->body", WHILE, ["while: c NL d"]),
    ("While:while->test", WHILE, ["while: a < b"]),
    ("With:item->body", body("with a(b) as c, d:", "    e", "    g"), ["a: e NL g"]),
    ("children:parent->child", body("return a[b] + -c"), ["-: c", "a: - c", "a: b", "return: a [ b ] + - c"]),
    ("comprehension:target->iter", body("[a for b, c in d for e in g if h]"), ["b: d", "e: g"]),
]


@pytest.mark.parametrize("mode", ["corrected", "paper"])
@pytest.mark.parametrize(
    ("relation", "code", "edges"), GOLDEN, ids=[f"{row[0]} {row[1][10:26]}" for row in GOLDEN]
)
def test_golden_edges(relation: str, code: str, edges: list[str], mode: str) -> None:
    related = FACET.relate(code, RelationOptions(mode=mode))
    assert related.problem == ""
    assert sorted(shown(related, relation)) == sorted(edges)


PARENTHESES = body("a = (b +", "     c)")
QUIRKS: list[tuple[str, str, str, list[str], list[str]]] = [
    ("byte_columns", body("a = '€' + b.c"), "BinOp:left->right", ["'€': b . c"], []),
    ("byte_columns", body("'€', a + b + c"), "BinOp:left->right", ["a: b", "a: c"], ["+: c"]),
    ("empty_ends", "def f(x):\n    return a.b", "Attribute:value->attr", ["a: b"], ["a: _"]),
    ("empty_ends", "def f(x):\n    a = b(c)", "Assign:target->value", ["a: b ( c"], ["a: b ( c ) _ _"]),
    ("first_line", "def f(x): return a(b)\n", "Call:func->args", ["a: b"], []),
    ("glued", body("a(b for b in c)"), "Call:func->args", ["a: b for b in c"], []),
    (
        "handler_orelse",
        TRY.replace("    h\n", "    h\n        k\n"),
        "Try:handler->orelse",
        ["except: h NL k"],
        ["except: h"],
    ),
    ("layout_ends", body("a = [", "    b,", "]"), "Assign:target->value", ["a: b ,"], ["a: NL b , NL"]),
    ("layout_ends", body("a = b(  # c", ")"), "Assign:target->value", ["a: b ("], ["a: b ( # c NL"]),
    ("margin", "@a\n    def f(x):\n        b = c\n", "Assign:target->value", ["b: c"], []),
    ("retokenized", PARENTHESES, "Assign:target->value", ["a: b + NL c"], ["a: b + NL"]),
    ("retokenized", body("(a", " .b", " .c(d))"), "Call:func->args", ["c: d"], ["NL: d"]),
    ("unfiltered_else", "if a:\n    b\nelse:\n    c\n", "If:if->else", [], ["if: else"]),
]


@pytest.mark.parametrize(("quirk", "code", "relation", "corrected", "quirky"), QUIRKS)
def test_a_quirk_changes_an_edge(
    quirk: str, code: str, relation: str, corrected: list[str], quirky: list[str]
) -> None:
    assert sorted(shown(FACET.relate(code), relation)) == corrected
    assert (
        shown(FACET.relate(code, RelationOptions(quirks=frozenset({f"codesyntax.{quirk}"}))), relation)
        == quirky
    )


def test_an_attribute_before_a_newline_is_the_newline_in_the_published_ablation() -> None:
    code, newlines = body("a.b"), RelationOptions(newlines=True)
    quirks = frozenset({"codesyntax.newline_alone"})
    assert shown(FACET.relate(code, newlines), "Attribute:value->attr") == ["a: b NL"]
    published = FACET.relate(code, replace(newlines, quirks=quirks))
    assert shown(published, "Attribute:value->attr") == ["a: NL"]


def test_every_quirk_has_a_test_and_the_paper_has_them_all() -> None:
    tested = {f"codesyntax.{quirk}" for quirk, *_ in QUIRKS} | {"codesyntax.newline_alone"}
    assert tested == set(FACET.quirks)
    code = PARENTHESES.rstrip()
    assert (
        FACET.relate(code, RelationOptions(quirks=frozenset(tested))).edges
        == FACET.relate(code, RelationOptions(mode="paper")).edges
    )


def test_newlines_may_be_taken_in() -> None:
    code = body("if a:", "    b = c", "    d()")
    longer = FACET.relate(code, RelationOptions(newlines=True))
    assert shown(longer, "If:if->body") == ["if: b = c NL d ( ) NL"]
    assert shown(longer, "If:if->test") == ["if: a"]
    assert shown(FACET.relate(code), "If:if->body") == ["if: b = c NL d ("]


def test_candidates_follow_the_mode_and_the_delimiters() -> None:
    code = body("a; b")
    words = FACET.words(code).surface

    def left_out(mode: str = "corrected", **delimiters: bool) -> set[str]:
        candidate = FACET.words(code, RelationOptions(mode=mode, **delimiters)).candidate
        return {word for word, kept in zip(words, candidate, strict=True) if not kept}

    assert left_out() == {""}
    assert left_out("paper") == set()
    assert left_out(masked=True) == {"", "\n"}
    assert left_out(masked=True, newlines=True) == {""}
    assert left_out("paper", masked=True, semicolons=False) == {"\n", ";"}


def test_words_stand_on_their_characters() -> None:
    code = "\n\ndef f(ä):\n\tif ä:  # ö\n\t\treturn '''a\n b''' \\\n\t\t  + f'{ä!r}'"
    words = FACET.words(code)
    spans = zip(words.surface, words.start.tolist(), words.end.tolist(), strict=True)
    assert all(code[start:end] == word for word, start, end in spans)
    between = [
        code[end:start] for end, start in zip(words.end.tolist(), words.start.tolist()[1:], strict=False)
    ]
    assert set(between) <= {"", " ", "  ", "\t", " \\\n\t\t  "}


def test_modes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match="papper"):
        FACET.words("x", RelationOptions(mode="papper"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["corrected", "paper"])
def test_no_piece_of_a_program_breaks_the_labeller(mode: str) -> None:
    chosen = select("stdlib", Selection(languages=("python",), limit=40)).items
    for item in chosen:
        for place in range(0, len(item.text), 97):
            for piece in (item.text[:place], item.text[place:]):
                related = FACET.relate(piece, RelationOptions(mode=mode))
                assert related.problem in ("", "does not parse")
                assert all(
                    0 <= edge.head < edge.first <= edge.last < len(related.words) for edge in related.edges
                )


def test_a_carriage_return_alone_is_counted() -> None:
    for mode in ("corrected", "paper"):
        assert (
            FACET.relate("def f(x):\r    return x.y\n", RelationOptions(mode=mode)).problem
            == "carriage return without a newline"
        )


def test_deep_nesting_is_no_crash() -> None:
    for code in (
        "(" * 3000 + "x" + ")" * 3000,
        "x" + ".y" * 3000,
        "-" * 3000 + "x",
        body("if a:" + " " * 4) * 2,
    ):
        for mode in ("corrected", "paper"):
            assert FACET.relate(code, RelationOptions(mode=mode)).problem in ("", "does not parse")


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("corrected", lambda size: "x = " + "[" * size + "1" + "]" * size),
        ("paper", lambda size: "x = 'é' + a\n" * size),
        ("paper", lambda size: "\n" + "é = 1; " * size),
        ("paper", lambda size: "x = a" + ".b" * size),
    ],
)
def test_the_work_grows_with_the_text(mode: str, text: Callable[[int], str]) -> None:
    assert grows_by(lambda size: FACET.relate(text(size), RelationOptions(mode=mode))) < 2.6


def test_words_are_compared_where_they_are() -> None:
    class Unsliced(list[str]):
        def __getitem__(self, place: Any) -> Any:
            assert isinstance(place, int), "a copy of all words for each node of a line"
            return super().__getitem__(place)

    assert count_matches(Unsliced("abcd"), Unsliced("bcx"), 1) == 2
    assert count_matches(Unsliced("abcd"), Unsliced("cdef"), 2) == 2
    assert count_matches(Unsliced("ab"), Unsliced("a"), 5) == 0
