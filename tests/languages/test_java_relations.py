"""Java's relations by hand: what is joined to what, read off the text."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.counting import grows_by

from sonde.base.errors import UsageError
from sonde.languages import get_facet
from sonde.languages.engine.relations import RelationGraph, RelationOptions, Relations
from sonde.papers.codesyntax.java import add_newlines

JAVA = get_facet("java", "relations", Relations)
LOOP = "for (int i = 0; i < n; i++) { g(n); }"
BRANCH = "if (x > 3) { g(1); } else h(2);"
CAUGHT = "try { g(1); } catch (E e) { h(2); } finally { k(3); }"

# A statement, and the edges of a relation in it: head -> first word .. last word; ^2 is the second such word.
GOLDEN = {
    "Assign:target->value": ("x = g(y, 1);", "x -> g .. 1"),
    "Attribute:value->attr": ("a.b.c(1);", "a -> c"),
    "Call:func->args": ("g(x + 1, y);", "g -> x .. y"),
    "Do:body->test": ("do { g(1); } while (x < 5);", "g -> x .. 5"),
    "Do:do->body": ("do { g(1); } while (x < 5);", "do -> g .. ;"),
    "Do:do->test": ("do { g(1); } while (x < 5);", "do -> x .. 5"),
    "For:for->body": (LOOP, "for -> g .. ;^3"),
    "For:for->initializers": (LOOP, "for -> int .. 0"),
    "For:for->test": (LOOP, "for -> i^2 .. n"),
    "For:for->updaters": (LOOP, "for -> i^3 .. ++"),
    "For:initializers->body": (LOOP, "int -> g .. ;^3"),
    "For:initializers->test": (LOOP, "int -> i^2 .. n"),
    "For:initializers->updaters": (LOOP, "int -> i^3 .. ++"),
    "For:test->body": (LOOP, "i^2 -> g .. ;^3"),
    "For:test->updaters": (LOOP, "i^2 -> i^3 .. ++"),
    "For:updaters->body": (LOOP, "i^3 -> g .. ;^3"),
    "If:body->orelse": (BRANCH, "g -> h .. ;^2"),
    "If:if->body": (BRANCH, "if -> g .. ;"),
    "If:if->else": (BRANCH, "if -> else"),
    "If:if->test": (BRANCH, "if -> x .. 3"),
    "If:test->body": (BRANCH, "x -> g .. ;"),
    "If:test->orelse": (BRANCH, "x -> h .. ;^2"),
    "IfExp:body->orelse": ("x = a ? b + 1 : c;", "b -> c"),
    "IfExp:test->body": ("x = a ? b + 1 : c;", "a -> b .. 1"),
    "IfExp:test->orelse": ("x = a ? b + 1 : c;", "a -> c"),
    "InfixExpr:left->right": ("x = a + b * c + d;", "a -> b .. c; a -> d; b -> c"),
    "InstanceofExpr:expr->type": ("x = (a) instanceof B;", "a -> B"),
    "LabeledStatement:label->body": ("l: while (x) g(1);", "l -> while .. ;"),
    "Subscript:value->slice": ("x = a[i + 1];", "a -> i .. 1"),
    "Switch:expr->statement": ("switch (x) { case 1: g(2); }", "x -> case .. ;"),
    "Switch:switch->expr": ("switch (x) { case 1: g(2); }", "switch -> x"),
    "Switch:switch->statement": ("switch (x) { case 1: g(2); }", "switch -> case .. ;"),
    "Try:body->finalbody": (CAUGHT, "g -> k .. ;^3"),
    "Try:body->handler": (CAUGHT, "g -> catch .. ;^2"),
    "Try:handler->finalbody": (CAUGHT, "catch -> k .. ;^3"),
    "While:test->body": ("while (x > 1) { g(2); }", "x -> g .. ;"),
    "While:while->body": ("while (x > 1) { g(2); }", "while -> g .. ;"),
    "While:while->test": ("while (x > 1) { g(2); }", "while -> x .. 1"),
    "children:parent->child": ("return a + b;", "return -> a .. b; a -> b"),
}

EMPTY, GLUED, OLD = "codesyntax.empty_brackets", "codesyntax.glued", "codesyntax.java_1_3"
SHIFTED, STRINGS = "codesyntax.shifted_offsets", "codesyntax.javalang_strings"

# A quirk, a relation, a statement; its edges in the mode paper, and corrected.
DIFFERENT = [
    (EMPTY, "While:while->test", "while (it.hasNext()) g(1);", "", "while -> it .. (^3"),
    (EMPTY, "Assign:target->value", "x = g();", "", "x -> g .. (^2"),
    (EMPTY, "Assign:target->value", "x = new int[]{};", "", "x -> new .. {^2"),
    (EMPTY, "Try:body->handler", "try { } catch (E e) { g(1); }", "", "{^2 -> catch .. ;"),
    (EMPTY, "If:if->body", "if (x) { } else g(1);", "", "if -> {^2"),
    (EMPTY, "If:if->body", "if (x) { { } g(1); }", "", "if -> {^3 .. ;"),
    (GLUED, "Do:do->body", "do{g(1);} while (x);", "", "do -> g .. ;"),
    (GLUED, "Try:body->handler", "try{g(1);} catch (E e) {h();}", "try -> catch .. ;^2", "g -> catch .. ;^2"),
    (GLUED, "If:body->orelse", "if (x) { g(1); } else{ h(2); }", "", "g -> h .. ;^2"),
    (GLUED, "InfixExpr:left->right", "return(a) + b;", "return -> b", "a -> b"),
    (OLD, "Call:func->args", "g(x -> h(1));", "g -> x .. 1", "g -> x .. 1; h -> 1"),
    (OLD, "Call:func->args", "g(a::b, 1);", "g -> a .. 1", "g -> a .. 1"),
    (OLD, "children:parent->child", "g(a::b);", "g -> a .. b", "g -> a .. b; a -> b"),
    (OLD, "Call:func->args", "try (A a = g(1)) { h(2); }", "h -> 2", "g -> 1; h -> 2"),
    (OLD, "Call:func->args", "g(1); assert x > 1;", "", "g -> 1"),
    (OLD, "Call:func->args", "assert (x);", "assert -> x", ""),
    (OLD, "Call:func->args", "enum A { B } g(1);", "", "g -> 1"),
    (OLD, "Call:func->args", "record A(int b) { } g(1);", "", "g -> 1"),
    (OLD, "Call:func->args", "interface A { int b = g(1); }", "", "g -> 1"),
    (OLD, "Call:func->args", "x = switch (y) { default -> g(1); };", "", "g -> 1"),
    (OLD, "Switch:switch->expr", "x = switch (y) { default -> 1; };", "", "switch -> y"),
    (OLD, "Call:func->args", "switch (y) { default -> g(1); }", "", "g -> 1"),
    (OLD, "Call:func->args", "x = switch (y) { default: yield g(1); };", "", "g -> 1"),
    (OLD, "InfixExpr:left->right", "x = 0b1 + 2;", "", "0b1 -> 2"),
    (OLD, "If:if->test", "if (a instanceof B b) g(1);", "if -> a .. B", "if -> a .. b"),
    (SHIFTED, "Assign:target->value", 'ss = "🎉"; xx = yy;', 'ss -> "🎉" .. ;', 'ss -> "🎉"; xx -> yy'),
    (STRINGS, "Assign:target->value", 's = """\n  a""";', 's -> "" .. ""^2', 's -> """\n  a"""'),
    (STRINGS, "Call:func->args", 'g("\\s");', "", 'g -> "\\s"'),
]  # fmt: skip


def method(statement: str) -> str:
    return f"void f() {{\n    {statement}\n}}"


def written(related: RelationGraph, relation: str) -> str:
    seen: Counter[str] = Counter()
    names: list[str] = []
    for surface in related.words.surface:
        seen[surface] += 1
        names.append(surface if seen[surface] == 1 else f"{surface}^{seen[surface]}")
    edges = sorted(edge for edge in related.edges if edge.relation == relation)
    spans = (names[e.first] if e.first == e.last else f"{names[e.first]} .. {names[e.last]}" for e in edges)
    return "; ".join(f"{names[edge.head]} -> {span}" for edge, span in zip(edges, spans, strict=True))


@pytest.mark.parametrize("mode", ["corrected", "paper"])
@pytest.mark.parametrize("relation", GOLDEN)
def test_golden_edges(relation: str, mode: str) -> None:
    statement, expected = GOLDEN[relation]
    assert written(JAVA.relate(method(statement), RelationOptions(mode=mode)), relation) == expected


@pytest.mark.parametrize(("quirk", "relation", "statement", "paper", "corrected"), DIFFERENT)
def test_a_quirk_changes_what_it_says(
    quirk: str, relation: str, statement: str, paper: str, corrected: str
) -> None:
    code = method(statement)
    assert written(JAVA.relate(code, RelationOptions(mode="paper")), relation) == paper
    assert written(JAVA.relate(code), relation) == corrected
    # The quirk named is the one that matters: alone it does what the mode does.
    assert written(JAVA.relate(code, RelationOptions(quirks={quirk})), relation) == paper


def test_every_quirk_is_shown_and_has_a_description() -> None:
    assert {row[0] for row in DIFFERENT} == set(JAVA.quirks)
    assert all(JAVA.quirks.values())


@pytest.mark.parametrize("break_", ["\n", "\r\n"])
def test_positions_shift_behind_the_scanner_in_the_paper_only(break_: str) -> None:
    plain = method("g(x, 1);\n    h(y);")
    text = break_ * 3 + plain.replace("\n", break_)
    expected = JAVA.relate(plain)
    assert JAVA.relate(text).edges == expected.edges
    assert sorted(JAVA.relate(plain, RelationOptions(mode="paper")).edges) == list(expected.edges)
    shifted = JAVA.relate(text, RelationOptions(quirks={SHIFTED}))
    assert shifted.words.surface == expected.words.surface and shifted.edges != expected.edges


def test_what_is_declared_is_not_assigned_and_what_is_created_not_called() -> None:
    code = method("int x = 10; for (A a : b) { c = new D(1); }")
    for mode in ("corrected", "paper"):
        related = JAVA.relate(code, RelationOptions(mode=mode))
        assert written(related, "Assign:target->value") == "c -> new .. 1"
        assert {edge.relation for edge in related.edges} == {"Assign:target->value", "children:parent->child"}


def test_the_first_statement_of_a_block_is_the_parent_of_the_others() -> None:
    related = JAVA.relate(method("g(1); h(2);"))
    assert written(related, "children:parent->child") == "g -> 1; g -> h .. ;^2; h -> 2"


def test_a_method_inside_of_another_is_labelled_where_its_head_is_not_the_first_word() -> None:
    code = method("new A() { /** Doc. */ public int g(int b) throws E { return b; } };")
    found = written(JAVA.relate(code), "children:parent->child")
    assert "public -> int" in found and "public -> g" in found and "public -> E" in found


@pytest.mark.parametrize("code", ["public A(int b) { c = d; }", "int f();", "A() { super(b); c = d; }"])
@pytest.mark.parametrize("mode", ["corrected", "paper"])
def test_any_member_of_a_class_parses_alone(code: str, mode: str) -> None:
    related = JAVA.relate(code, RelationOptions(mode=mode))
    assert not related.problem
    assert ("Assign:target->value" in {edge.relation for edge in related.edges}) == ("=" in code)


def test_a_file_is_labelled_as_well_except_in_the_paper() -> None:
    code = "package a;\nimport b.C;\nclass D { void f() { g(1); } }"
    assert written(JAVA.relate(code), "Call:func->args") == "g -> 1"
    assert JAVA.relate(code, RelationOptions(mode="paper")).problem == "does not parse"


@pytest.mark.parametrize(
    ("code", "problem", "words"),
    [
        ("void f() { if (x { } }", "does not parse", 11),
        ("hello world (", "does not parse", 3),
        ('void f() { "', "no words: a string is not closed", 0),
        ("void f() { /* ", "no words: a comment is not closed", 0),
        ("void f() { # }", "no words: a character is in no word", 0),
        ("void f() { x = 0x1.2; }", "no words: a hexadecimal number with a point has no exponent", 0),
        (r'void f() { "\u00" }', "no words: an escape is invalid", 0),
    ],
)
def test_what_cannot_be_read_is_a_problem_not_an_error(code: str, problem: str, words: int) -> None:
    related = JAVA.relate(code, RelationOptions(mode="paper"))
    assert (related.problem, len(related.words), related.edges) == (problem, words, ())
    assert JAVA.words(code, RelationOptions(mode="paper")).surface == related.words.surface
    corrected = JAVA.relate(code)
    # The grammar takes a hexadecimal number as it is written.
    assert corrected.problem == ("" if "0x1.2" in code else "does not parse")
    assert JAVA.words(code).surface == corrected.words.surface != ()


def test_nothing_is_in_an_empty_text() -> None:
    for mode in ("corrected", "paper"):
        related = JAVA.relate("", RelationOptions(mode=mode))
        assert (related.problem, len(related.words), related.edges) == ("", 0, ())


def test_unknown_modes_are_one_line_and_quirks_of_other_languages_are_passed_over() -> None:
    with pytest.raises(UsageError, match="mode 'papers'"):
        JAVA.relate("", RelationOptions(mode="papers"))
    code = method("a.b();")
    other = JAVA.relate(code, RelationOptions(quirks={"codesyntax.first_line"}))
    assert other.edges == JAVA.relate(code).edges


def test_newlines_end_a_dependent_that_stands_before_one() -> None:
    code = method("if (a) {\n  g(1);\n}\n h(2); k(3);")
    with_them = JAVA.relate(code, RelationOptions(newlines=True))
    assert written(with_them, "If:if->body") == "if -> g .. \n^4"
    assert written(with_them, "Call:func->args") == "g -> 1; h -> 2; k -> 3"
    assert written(JAVA.relate(code), "If:if->body") == "if -> g .. ;"


def test_newlines_of_comments_are_words_and_those_at_either_end_are_not() -> None:
    words = JAVA.words("\n a /* \n\n */ b // \n c\n", RelationOptions(newlines=True))
    assert words.surface == ("a", "\n", "\n", "b", "\n", "c")
    assert [int(place) for place in words.start] == [2, 7, 8, 13, 18, 20]
    assert add_newlines("", []) == []


def test_semicolons_may_be_trimmed_and_then_masked() -> None:
    code = method("if (a) g(1); else h();")
    trimmed = JAVA.relate(code, RelationOptions(semicolons=False))
    assert written(trimmed, "If:if->body") == "if -> g .. 1"
    assert written(trimmed, "If:test->orelse") == "a -> h .. (^4"
    in_paper = JAVA.relate(code, RelationOptions(mode="paper", semicolons=False))
    assert written(in_paper, "If:if->body") == "if -> g .. 1"
    assert written(in_paper, "If:test->orelse") == ""
    assert trimmed.words.candidate.all()
    masked = JAVA.words(code, RelationOptions(semicolons=False, masked=True))
    assert [word for word, on in zip(masked.surface, masked.candidate, strict=True) if not on] == [";", ";"]


def test_words_lead_back_to_their_characters() -> None:
    code = "void f() { List<List<é>> x = 'ß' /* no */ + \"🎉\"; }"
    words = JAVA.words(code)
    assert [code[a:b] for a, b in zip(words.start, words.end, strict=True)] == list(words.surface)
    assert words.surface[5:13] == ("List", "<", "List", "<", "é", ">", ">", "x")


def test_an_escaped_character_is_one_of_its_word() -> None:
    code = r"void f() { \u0061b = '\u0041' + '\\u0041'; }"
    words = JAVA.words(code, RelationOptions(mode="paper"))
    places = {word: code[a:b] for word, a, b in zip(words.surface, words.start, words.end, strict=True)}
    assert places["ab"] == r"\u0061b" and places["'A'"] == r"'\u0041'" and places[r"'\\u0041'"]


PIECES = st.sampled_from(
    [
        *("void f() {", "}", "{", "(", ")", "[", "]", ";", ",", ".", "if (a)", "else", "try", "catch (E e)"),
        *("finally", "for (;;)", "while (b)", "do", "switch (c)", "case 1:", "case 2 ->", "default:"),
        *("a", "b.c", "g(", "new A()", "x ->", "::", "instanceof", "assert", "yield", "enum", "record R("),
        *("class B {", "@C", "/** d */", "// e\n", "/*", "*/", '"', "'f'", '"""', "\\u0041", "\\s", "0"),
        *("+", "-", "==", "=", "?", ":", "<", ">", ">>", "🎉", "\r\n", "\n", "\u2028", "return", "super"),
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(st.text(), st.lists(PIECES).map(" ".join), st.lists(PIECES).map("".join)),
    mode=st.booleans(),
)
@example(text="\n" * 3, mode=True)
@example(text="\ud800 \udc00", mode=True)
@example(text="(" * 3000 + "a" + ")" * 3000, mode=True)
@example(text=method("x = " + "a + " * 3000 + "b;"), mode=True)
@example(text=method("new A() { { " * 200 + "} }; " * 200), mode=False)
def test_no_text_crashes_and_every_edge_is_inside(text: str, mode: bool) -> None:
    for delimiters in (RelationOptions(), RelationOptions(newlines=True, semicolons=False, masked=True)):
        related = JAVA.relate(text, replace(delimiters, mode="paper" if mode else "corrected"))
        words = related.words
        assert (words.start[:-1] <= words.end[:-1]).all() and (words.end[:-1] <= words.start[1:]).all()
        assert not (related.problem and related.edges)
        for edge in related.edges:
            assert 0 < edge.head < edge.first <= edge.last < len(words)
            assert edge.relation in GOLDEN


@pytest.mark.parametrize("mode", ["corrected", "paper"])
@pytest.mark.parametrize("pair", ["{}", "()"])
def test_the_work_grows_with_the_brackets(mode: str, pair: str) -> None:
    def relate(size: int) -> RelationGraph:
        return JAVA.relate(
            f"class A {{ int[] x = {pair[0] * size}1{pair[1] * size}; }}", RelationOptions(mode=mode)
        )

    assert grows_by(relate) < 2.6
