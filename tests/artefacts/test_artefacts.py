"""What a label gave away is gone, in every language that has the task; and the rules that measure it."""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np
import pytest

from sonde.corpora import Item
from sonde.corpora.engine.parallel import ItemChunk
from sonde.languages import get_facet
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import (
    DUPLICATE_NAME,
    LOOSE_JUMP,
    REFUSED_TEXT,
    UNDECLARED_NAME,
    UNREACHABLE_CODE,
    Edits,
)
from sonde.tasks import build, get_languages
from sonde.tasks.bugs.function_docstring import BLANK
from sonde.tasks.engine.faults import FaultRule, Mutation, _examples
from sonde.tasks.engine.spans import LabelRequest
from sonde.tasks.engine.surface import RULES, artefact_features
from sonde.tasks.engine.task import TASKS
from tests.artefacts import LANGUAGES, TREE, Measured, draw_items, measure
from tests.artefacts.__main__ import in_line
from tests.artefacts.functions import BLOCK, functions
from tests.artefacts.parsers import has_parser, refused

_NUMBER = 80
DECLARING = ("java", "go", "javascript")
"""Languages that refuse a variable before its declaration or outside its block."""


def compiled_tasks() -> list[str]:
    """The tasks whose faults no compiler may name."""
    tasks = {name: TASKS.load(name) for name in TASKS.names()}
    return [name for name, task in tasks.items() if isinstance(task, Mutation) and task.must_compile]


CASES = [(task, language) for task in compiled_tasks() for language in LANGUAGES]
STATEMENTS = [(task, language) for task in ("jst", "jbk") for language in LANGUAGES]


@functools.cache
def pool(language: str) -> dict[str, tuple[Item, dict[str, str]]]:
    return {item.item_id: (item, names) for item, names in functions(language, _NUMBER)}


@functools.cache
def faulty(name: str, language: str) -> list[tuple[str, str, dict[str, str]]]:
    """The functions that get a fault, each with it and with the function's names."""
    task, edits = TASKS.load(name), get_facet(language, "edits", Edits)
    assert isinstance(task, Mutation)
    items = [item for item, _ in pool(language).values()]
    survey = task.survey([item.text for item in items], edits)
    splits = {item.cluster: "train" for item in items}
    tokens = {item.item_id: 80 for item in items}
    question = LabelRequest(name, 0, "corrected", frozenset(), {})
    rule = FaultRule(question, language, survey, splits, tokens)
    found = [one[1] for one in _examples(ItemChunk(0, rule, tuple(items))) if one is not None]
    made = [one for one in found if one.item is not one.source]
    assert len(made) >= 10
    return [(one.source.text, one.item.text, pool(language)[one.source.item_id][1]) for one in made]


def test_every_language_has_the_tasks() -> None:
    assert len(compiled_tasks()) >= 8
    assert all(set(LANGUAGES) <= set(get_languages(TASKS.load(task))) for task in compiled_tasks())


@pytest.mark.parametrize(("task", "language"), STATEMENTS)
def test_nothing_stands_behind_a_jump(task: str, language: str) -> None:
    for _, text, _ in faulty(task, language):
        lines = [line for line in text.splitlines() if line.strip()]
        for line, behind in itertools.pairwise(lines):
            if re.match(r"\s*(break|return)\b", line):
                assert _indent(behind) < _indent(line), text


@pytest.mark.slow
@pytest.mark.parametrize(("task", "language"), CASES)
def test_what_leaves_a_loop_stands_in_one(task: str, language: str) -> None:
    for _, text, _ in faulty(task, language):
        loops: list[int] = []
        for line in text.splitlines():
            loops = [depth for depth in loops if depth < _indent(line) or not line.strip()]
            if re.match(r"\s*(for\b|foreach\b|while\b|.* do \|)", line):
                loops.append(_indent(line))
            assert loops or not re.match(r"\s*(break|continue|next|redo)\b(?!:)", line), text


@pytest.mark.parametrize(("task", "language"), [case for case in STATEMENTS if case[1] in DECLARING])
def test_a_variable_of_a_block_is_declared_before_it_is_used(task: str, language: str) -> None:
    declares = {"java": r"\bint \$", "go": r"\$ :=", "javascript": r"\blet \$"}[language]
    for _, text, names in faulty(task, language):
        for name in BLOCK:
            word = re.escape(names[name])
            places = [place.start() for place in re.finditer(rf"\b{word}\b", text)]
            declared = re.search(declares.replace(r"\$", word), text)
            assert not places or (declared and declared.start() <= places[0] < declared.end()), text


@pytest.mark.parametrize(("task", "language"), CASES)
def test_no_parameter_stands_twice_in_a_head(task: str, language: str) -> None:
    for _, text, _ in faulty(task, language):
        held = re.findall(r"\w+", text[text.index("(") : text.index(")")])
        own = [word for word in held if word not in ("int", "first", "second")]
        assert len(own) == len(set(own)), text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", ["srk", "sck"])
def test_the_head_keeps_its_keywords(task: str, language: str) -> None:
    for source, text, _ in faulty(task, language):
        assert text[: text.index("(")] == source[: source.index("(")]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "language"), CASES)
def test_the_language_s_own_parser_refuses_no_fault(task: str, language: str) -> None:
    if not has_parser(language):
        pytest.skip("needs the language's own parser")
    texts = [text for _, text, _ in faulty(task, language)]
    wrong = [text for text, one in zip(texts, refused(texts, language), strict=True) if one]
    assert not wrong, wrong[0]


USED_BEFORE = {
    "python": ("def f(a):\n    return [e + a for e in a if e]\n", {"a": 6, "e": 32}),
    "javascript": ("function f(a) { b = a; var b; return b; }", {"a": 11, "b": 27}),
    "php": ("function f($a) { while ($b) { $b = $a; } }", {"$a": 11, "$b": 30}),
    "java": ("int f(int a) { int b = a; return b; }", {"a": 10, "b": 19}),
    "go": ("func f(a int) int { b := a; return b }", {"a": 7, "b": 20}),
    "ruby": ("def f(a)\n  b = a\n  b\nend", {"a": 6, "b": 11}),
}
"""A function, and where each of its variables is declared; in three languages one is used further up."""


@pytest.mark.parametrize("task", ["same_scope", "data_dependency"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_marks_stand_on_declarations(task: str, language: str) -> None:
    text, declared = USED_BEFORE[language]
    item = Item("id", text, language, "function", "path", "f", 0, "cluster", "repository")
    table = TASKS.load(task).label([item], {})["id"]
    assert [table.row(0, named=True)[name] for name in ("start", "other_start")] == sorted(declared.values())
    for variable in get_facet(language, "flow", Flow).variables(text):
        assert variable.declaration.start == declared[variable.name]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_summary_names_its_function(language: str) -> None:
    items = [item for item, _ in pool(language).values()]
    made = build("function_docstring", items, size=40, language=language)
    texts = {item.item_id: item.text for item in made.inputs}
    for row in made.examples.to_dicts():
        words = texts[row["item_id"]][row["other_start"] : row["other_end"]]
        names = [names["NAME"] for _, names in pool(language).values()]
        assert words.startswith(BLANK) and not any(name in words for name in names), words


PLANTED = {
    "python": [
        (REFUSED_TEXT, "def f(a):\n    if a:\n        break\n"),
        (DUPLICATE_NAME, "def f(a, a):\n    return a\n"),
        (UNDECLARED_NAME, "def f(a):\n    return [e for e in a], e\n"),
        (UNREACHABLE_CODE, "def f(a):\n    return a\n    b = 1\n"),
    ],
    "java": [
        (LOOSE_JUMP, "int f(int a) { if (a > 1) { break; } return 1; }"),
        (DUPLICATE_NAME, "int f(int a) { int b = 1; for (;;) { int b = 2; } }"),
        (UNDECLARED_NAME, "int f(int a) { b = a; int b = 1; return b; }"),
        (UNREACHABLE_CODE, "int f(int a) { return a; b(); }"),
    ],
    "go": [
        (LOOSE_JUMP, "func f(a int) { if a > 1 { continue } }"),
        (DUPLICATE_NAME, "func f(a int, a int) int { return a }"),
        (UNDECLARED_NAME, "func f(a int) { for i := 0; i < a; i++ { b() }; c(i) }"),
        (UNREACHABLE_CODE, "func f(a int) { panic(a)\n b() }"),
    ],
    "javascript": [
        (LOOSE_JUMP, "function f(a) { if (a) break }"),
        (DUPLICATE_NAME, "function f(a) { let b = 1; let b = 2 }"),
        (UNDECLARED_NAME, "function f(a) { { let b = 1 } return b }"),
        (UNREACHABLE_CODE, "function f(a) { throw a; b() }"),
    ],
    "php": [
        (LOOSE_JUMP, "function f($a) { if ($a) { break; } }"),
        (DUPLICATE_NAME, "function f($a, $a) { return $a; }"),
        (UNREACHABLE_CODE, "function f($a) { throw new X(); $b = 1; }"),
    ],
    "ruby": [
        (LOOSE_JUMP, "def f(a)\n  retry\nend"),
        (DUPLICATE_NAME, "def f(a, a)\n  a\nend"),
        (UNDECLARED_NAME, "def f(a)\n  a.each { |b| b }\n  b\nend"),
        (UNREACHABLE_CODE, "def f(a)\n  raise a\n  b\nend"),
    ],
}
"""Texts that the grammar takes, each with what a compiler says against it."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_compiler_says_is_found(language: str) -> None:
    edits = get_facet(language, "edits", Edits)
    for kind, text in PLANTED[language]:
        assert edits.parses(text)
        assert kind in {one for one, _ in edits.count_objections(text)}, text
    for item, _ in pool(language).values():
        assert not edits.count_objections(item.text), item.text


REFUSED_WORDS = {
    "ruby": ["x = end", "x = return", "self 'a'", "if a\n  b\nend\nelse c", "f(nil, do)"],
    "go": ["defer a", "go a", "const a", "return a != b {\n\t\tc()\n\t}"],
    "javascript": ["const a", "try { a }", "a instanceof b = 1", "typeof a = 1"],
}
TAKEN_WORDS = {
    "ruby": ["x.end", "x = nil", "return self", "begin\n  a\nrescue\n  b\nelse\n  c\nend", "f(end: 1)"],
    "go": ["defer a()", "go a()", "const a = 1", "b := T{\n\t\t1,\n\t}", "b := T{\n\t\t1, // c\n\t}"],
    "javascript": ["const a = 1", "try { a } catch { b }", "a instanceof b", "typeof (a = 1)"],
}
_AROUND = {"ruby": "def f\n  {}\nend", "go": "func f() {{\n\t{}\n}}", "javascript": "function f() {{ {} }}"}


@pytest.mark.parametrize("language", REFUSED_WORDS)
def test_what_the_grammar_takes_and_the_language_does_not_is_refused(language: str) -> None:
    parses = get_facet(language, "edits", Edits).parses
    for statements, expected in ((REFUSED_WORDS[language], False), (TAKEN_WORDS[language], True)):
        texts = [_AROUND[language].format(statement) for statement in statements]
        assert [parses(text) for text in texts] == [expected] * len(texts), texts
        if has_parser(language):
            assert refused(texts, language).tolist() == [not expected] * len(texts)


def test_each_rule_sees_what_is_planted() -> None:
    clean = "def close(a):\n    return a\n"
    texts = [clean, clean, "class close(a):\n    return a\n", clean]
    rows = [
        {"item_id": str(number), "start": 0, "end": len(text), "other_start": len(text) + 1}
        for number, text in enumerate(texts)
    ]
    words = ["Say a word.", "Close a word.", "Say a word.", "Return a."]
    items = {}
    for row, text, told in zip(rows, texts, words, strict=True):
        whole = f"{text}\n{told}"
        row["other_end"] = len(whole)
        items[row["item_id"]] = Item(row["item_id"], whole, "python", "function")
    table = dict(zip(RULES, np.array(artefact_features(rows, items)).T, strict=True))
    assert table["own_name"].tolist() == [0, 1, 0, 0]
    assert table["head"].tolist() == [0.25, 0.25, 0.75, 0.25]
    assert table["refused"].tolist() == [0, 0, 1, 0]
    assert table["overlap"][3] == 1.0 > table["overlap"][0]


def test_the_best_rule_of_a_task_is_told_beside_the_tree() -> None:
    rows = [Measured("jst", "go", rule, 100, share, share - 0.1, share + 0.1, 0.5) for rule, share in SHARES]
    assert in_line(rows) == "| `jst` | go | 100 | 50.0 | 60.0 [50.0, 70.0] | loose | 55.0 [45.0, 65.0] |"


SHARES = [(TREE, 0.6), ("parses", 0.5), ("loose", 0.55)]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["jst", "jbk", "sra", "srk", "sck"])
def test_no_rule_tells_a_fault_in_the_standard_library(task: str) -> None:
    items = draw_items("stdlib", "python", 1500)
    for one in measure(task, "python", items, 200):
        assert one.low <= one.chance, one


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
