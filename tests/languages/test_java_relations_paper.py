"""Paper-mode edges against the published way: lex again for every end of every edge, with javalang.

`java_relations_eclipse.txt` is what org.eclipse.jdt.core (AST.JLS3, default options, the text inside of
``public class A {`` and ``}``) said of `java_relations.txt`: for each relation, the first character of the
head, the first of the dependent, and one past its last.
"""

from __future__ import annotations

import random
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.languages.java_relations_referee import Eclipse, Position

from sonde.base.fingerprint import unit_hash
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.relations import RelationOptions, Relations
from sonde.papers.javalang_tokens import LexerError, lex

javalang = pytest.importorskip("javalang", reason="javalang, whose tokens these are, is not installed")

JAVA = get_facet("java", "relations", Relations)
HERE = Path(__file__).parent
SNIPPETS = dict(
    part.split("\n", 1)
    for part in (HERE / "java_relations.txt").read_text(encoding="utf-8").split("=== ")[1:]
)
SNIPPETS |= {f"{name} (windows)": SNIPPETS[name].replace("\n", "\r\n") for name in ("if", "loops")}
DELIMITERS = (RelationOptions(), RelationOptions(newlines=True), RelationOptions(semicolons=False))
SOURCES = [
    path
    for pattern in ("/usr/lib/jvm/*/lib/src.zip", "/opt/*/lib/src.zip")
    for path in sorted(Path("/").glob(pattern.removeprefix("/")))
    if path.is_file()
]
with_sources = pytest.mark.skipif(not SOURCES, reason="no Java development kit with its sources here")

Edge = tuple[str, int, int, int]


def recorded() -> dict[str, list[Position]]:
    found: dict[str, list[Position]] = {}
    for part in (HERE / "java_relations_eclipse.txt").read_text(encoding="utf-8").split("=== ")[1:]:
        name, *lines = part.splitlines()
        rows = [line.split(" | ") for line in lines]
        found[name] = [
            (relation, *map(int, place.split())) for relation, places in rows for place in places.split(", ")
        ]  # type: ignore[misc]
    return found


ECLIPSE = recorded()


def strings(code: str, newlines: bool) -> list[str]:
    tokens = list(javalang.tokenizer.tokenize(code))
    lines = code.split("\n")
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    starts = [begins[token.position[0] - 1] + token.position[1] - 1 for token in tokens]
    found: list[str] = []
    for index, token in enumerate(tokens):
        found.append(token.value)
        if newlines and index + 1 < len(tokens):
            found += ["\n"] * code[starts[index] + len(token.value) : starts[index + 1]].count("\n")
    return found


def agreeing(left: list[str], right: list[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )


def edges(
    code: str, positions: list[Position], newlines: bool = False, semicolons: bool = True
) -> list[Edge]:
    """The authors' second step: positions of characters to words."""
    words = strings(code, newlines)
    opening, closing = set("([{\n"), set(")]}") if semicolons else set(")]};")

    @cache
    def before(position: int) -> int:
        return agreeing(words, strings(code[:position] + "_EndOfLineSymbol_", newlines))

    def first(start: int) -> int | None:
        at = before(start)
        while words[at] in opening:
            at += 1
            if words[at] in closing:
                return None
        return at

    def last(start: int, end: int) -> int | None:
        # The blank is for javalang, which stumbles over a text that ends in 0.
        at = before(start) + agreeing(words[before(start) :], strings(code[start:end] + " ", newlines))
        if newlines and at < len(words) and words[at] == "\n":
            at += 1
        while words[at - 1] in closing:
            at -= 1
            if words[at - 1] in opening:
                return None
        return at - 1

    found: list[Edge] = []
    for relation, head_start, start, end in positions:
        try:
            head, begin, stop = first(head_start), first(start), last(start, end)
        except javalang.tokenizer.LexerError:
            continue
        if head is not None and begin is not None and stop is not None and 0 < head < begin <= stop:
            found.append((relation, head, begin, stop))
    return found


def labelled(code: str, delimiters: RelationOptions) -> Counter[Edge]:
    related = JAVA.relate(code, replace(delimiters, mode="paper"))
    assert not related.problem
    assert list(related.words.surface) == strings(code, delimiters.newlines)
    return Counter(tuple(edge) for edge in related.edges)


def test_the_snippets_hold_every_relation() -> None:
    assert set(SNIPPETS) == set(ECLIPSE)
    assert {relation for rows in ECLIPSE.values() for relation, *_ in rows} == set(JAVA.relation_types)


@pytest.mark.parametrize("name", ECLIPSE)
def test_edges_of_snippets_are_those_of_eclipse_and_javalang(name: str) -> None:
    code = SNIPPETS[name]
    for delimiters in DELIMITERS:
        # javalang does not count the lines of a text block, so that newlines are anywhere.
        if delimiters.newlines and '"""' in code:
            continue
        expected = edges(code, ECLIPSE[name], delimiters.newlines, delimiters.semicolons)
        assert labelled(code, delimiters) == Counter(expected)


@pytest.mark.parametrize(
    "name", [name for name, code in SNIPPETS.items() if code.isascii() and "\r" not in code]
)
def test_the_plain_recursion_is_eclipse(name: str) -> None:
    code = SNIPPETS[name]
    # Eclipse read the text without its empty first lines.
    assert sorted(Eclipse(code.lstrip("\n")).positions()) == sorted(ECLIPSE[name])


@cache
def methods(wanted: int) -> list[str]:
    """Methods of plain ASCII, from all over the class library, in an order that looks random."""
    java = LANGUAGES.load("java")
    found: list[str] = []
    with zipfile.ZipFile(SOURCES[0]) as archive:
        names = sorted((name for name in archive.namelist() if name.endswith(".java")), key=unit_hash)
        for name in names:
            text = archive.read(name).decode("utf-8")
            own = [text[function.start : function.end] for function in java.functions(text)]
            fitting = [code for code in own if 60 < len(code) < 5_000 and code.isascii() and "\r" not in code]
            found += random.Random(name).sample(fitting, min(2, len(fitting)))
            if len(found) >= wanted:
                return found[:wanted]
    return found


@pytest.mark.slow
@with_sources
def test_edges_of_the_class_library_are_those_of_the_plain_implementation() -> None:
    total: Counter[str] = Counter()
    for index, code in enumerate(methods(200)):
        delimiters = DELIMITERS[index % len(DELIMITERS)]
        expected = edges(code, Eclipse(code).positions(), delimiters.newlines, delimiters.semicolons)
        assert labelled(code, delimiters) == Counter(expected), code
        total.update(relation for relation, *_ in expected)
    assert len(total) >= 25 and total.total() > 3_000


@with_sources
def test_words_of_the_class_library_are_javalangs() -> None:
    for code in methods(200):
        assert list(JAVA.words(code, RelationOptions(mode="paper")).surface) == strings(code, False)


def has(*fields: str) -> Callable[[Any], bool]:
    return lambda node: all(node.child_by_field_name(name) for name in fields)


def holds(*kinds: str) -> Callable[[Any], bool]:
    return lambda node: set(kinds) <= {child.type for child in node.children}


# How many nodes of which kinds there has to be an edge for, once nothing is dropped.
ONE_EDGE_EACH: dict[str, tuple[set[str], Callable[[Any], bool]]] = {
    "If:if->test": ({"if_statement"}, has("condition")),
    "If:if->body": ({"if_statement"}, has("condition")),
    "If:test->body": ({"if_statement"}, has("condition")),
    "If:if->else": ({"if_statement"}, has("alternative")),
    "If:test->orelse": ({"if_statement"}, has("alternative")),
    "If:body->orelse": ({"if_statement"}, has("alternative")),
    "While:while->test": ({"while_statement"}, has("condition")),
    "While:while->body": ({"while_statement"}, has("condition")),
    "While:test->body": ({"while_statement"}, has("condition")),
    "Do:do->body": ({"do_statement"}, has("condition")),
    "Do:do->test": ({"do_statement"}, has("condition")),
    "Do:body->test": ({"do_statement"}, has("condition")),
    "For:for->body": ({"for_statement"}, has("body")),
    "For:for->test": ({"for_statement"}, has("condition")),
    "For:for->initializers": ({"for_statement"}, has("init")),
    "For:for->updaters": ({"for_statement"}, has("update")),
    "For:initializers->test": ({"for_statement"}, has("init", "condition")),
    "For:initializers->updaters": ({"for_statement"}, has("init", "update")),
    "For:initializers->body": ({"for_statement"}, has("init")),
    "For:test->updaters": ({"for_statement"}, has("condition", "update")),
    "For:test->body": ({"for_statement"}, has("condition")),
    "For:updaters->body": ({"for_statement"}, has("update")),
    "Try:body->handler": ({"try_statement", "try_with_resources_statement"}, holds("catch_clause")),
    "Try:body->finalbody": ({"try_statement", "try_with_resources_statement"}, holds("finally_clause")),
    "Try:handler->finalbody": (
        *({"try_statement", "try_with_resources_statement"}, holds("catch_clause", "finally_clause")),
    ),
    "IfExp:test->body": ({"ternary_expression"}, has("condition")),
    "IfExp:test->orelse": ({"ternary_expression"}, has("condition")),
    "IfExp:body->orelse": ({"ternary_expression"}, has("condition")),
    "Switch:switch->expr": (
        {"switch_expression"},
        lambda node: node.named_children[-1].named_child_count > 0,
    ),
    "Assign:target->value": ({"assignment_expression"}, has("left")),
    "Subscript:value->slice": ({"array_access"}, has("index")),
    "InstanceofExpr:expr->type": ({"instanceof_expression"}, has("left")),
    "LabeledStatement:label->body": ({"labeled_statement"}, lambda node: True),
    "Call:func->args": (
        {"method_invocation"},
        lambda node: not holds("super")(node) and node.child_by_field_name("arguments").named_child_count > 0,
    ),
    "Attribute:value->attr": (
        *({"method_invocation"}, lambda node: not holds("super")(node) and has("object")(node)),
    ),
}


@with_sources
def test_corrected_edges_of_the_class_library_are_one_a_construct() -> None:
    java = LANGUAGES.load("java")
    for code in methods(200):
        if "/*" in code or "//" in code:
            continue
        nodes, waiting = [], [java.syntax(f"class A {{ {code} }}")[1]]
        while waiting:
            nodes.append(waiting.pop())
            waiting.extend(nodes[-1].children)
        related = JAVA.relate(code)
        assert not related.problem
        found = Counter(edge.relation for edge in related.edges)
        for relation, (kinds, fits) in ONE_EDGE_EACH.items():
            expected = sum(node.type in kinds and fits(node) for node in nodes)
            assert found[relation] == expected, (relation, code)


TEXTS = st.lists(
    st.sampled_from(
        [
            *("\"", "'", "\\", "u0041", "0", "1", "7", "9", "x", "X", "b", "L", "_", ".", "..", "...", "e"),
            *("E", "p", "+", "-", "f", "d", ">", "<", "=", ">>=", "/", "*", "\n", " ", "a", "é", "//", "/*"),
            *("*/", "@", "n", "s", "{", "}", "(", ")", ";", "\u3000", "$", "#", "`"),
            *("\\u0041", "\\u0022", "\\\\u0041"),
        ]
    ),
    max_size=9,
).map("".join)  # fmt: skip


@settings(max_examples=1_000, deadline=None)
@given(text=TEXTS)
@example(text="0x1.8p-3f 0xFL 1_0__2 1e5d .5f 1. 07 0b101 1..2 ... >>>= List<List<A>>")
@example(text=r"'\\' '\123' '\7' '\48' '\u0022'")
def test_words_are_javalangs(text: str) -> None:
    try:
        expected = [token.value for token in javalang.tokenizer.tokenize(text)]
    except (TypeError, IndexError, ValueError):
        # It stumbles over ends of a text: a last 0 or backslash.
        return
    except javalang.tokenizer.LexerError:
        with pytest.raises(LexerError):
            lex(text)
        return
    if not text.rstrip("u").endswith("\\"):
        assert [word.surface for word in lex(text)] == expected
