"""JavaScript against acorn (tokens, functions, calls, refusals) and lizard; odd and broken code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import lizard
import pytest
from tests.languages.by_hand import Check, reads_whole, says_that_it_is_broken

from sonde.corpora import Item
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.relations import Relations
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.tasks.engine.bugs import BugTask, make_choice
from sonde.tasks.engine.faults import FaultContext, Mutation
from sonde.tasks.engine.task import TASKS

JAVASCRIPT = LANGUAGES.load("javascript")
assert isinstance(JAVASCRIPT, TreeSitterLanguage)

MODULES = Path("/usr/lib/node_modules/npm")
NODE = shutil.which("node")


@cache
def parser_answers(texts: tuple[str, ...]) -> list[dict[str, Any] | None]:
    """What acorn sees in texts, None for one that it does not parse."""
    if NODE is None:
        pytest.skip("no node on this machine")
    places = [os.environ.get("NODE_PATH", ""), str(MODULES.parent)]
    script = Path(__file__).with_name("acorn.cjs")
    ran = subprocess.run(
        [NODE, str(script)],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NODE_PATH": os.pathsep.join(filter(None, places))},
    )
    if "MODULE_NOT_FOUND" in ran.stderr:
        pytest.skip(
            "no acorn and acorn-jsx (`npm install acorn acorn-jsx`, and NODE_PATH to their node_modules)"
        )
    assert ran.returncode == 0, ran.stderr
    answers: list[dict[str, Any] | None] = json.loads(ran.stdout)
    return answers


@cache
def files() -> tuple[str, ...]:
    """JavaScript of this machine whose characters and UTF-16 units are as many."""
    found = sorted(path for path in MODULES.rglob("*.js") if path.is_file())
    if not found:
        pytest.skip(f"no JavaScript below {MODULES}")
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in Random(1).sample(found, 300))
    return tuple(text for text in texts if len(text) < 200_000 and max(text, default="") < "\U00010000")


def test_tokens_functions_and_calls_against_acorn() -> None:
    metrics = get_facet("javascript", "metrics", Metrics)
    assert isinstance(JAVASCRIPT, TreeSitterLanguage)
    compared = 0
    for text, answer in zip(files(), parser_answers(files()), strict=True):
        # The grammar does not see where a static field ends that no semicolon ends.
        if answer is None or JAVASCRIPT.parse(text).has_error:
            continue
        compared += 1
        assert [[leaf.start, leaf.end] for leaf in JAVASCRIPT.leaves(text)] == answer["tokens"]
        functions = [
            [one.name, one.end, metrics.complexity(one.slice_from(text))]
            for one in JAVASCRIPT.functions(text)
        ]
        assert sorted(functions) == sorted(answer["functions"])
        calls = [[one.name, one.start] for one in JAVASCRIPT.calls(text)]
        assert sorted(calls) == sorted(answer["calls"])
    assert compared >= len(files()) - 2 > 200


def test_complexity_and_length_against_lizard() -> None:
    metrics = get_facet("javascript", "metrics", Metrics)
    compared, other = 0, []
    # lizard tells functions of one line apart by it.
    for text in (text for text in files() if max(map(len, text.splitlines()), default=0) < 500):
        try:
            found = lizard.analyze_file.analyze_source_code("a.js", text).function_list
        except IndexError:
            # One of its own.
            continue
        theirs = {one.start_line: one for one in found}
        for function in JAVASCRIPT.functions(text):
            own = function.slice_from(text)
            # lizard loses its way in functions inside functions and in regular expressions.
            plain = own.startswith(("function ", "async function ")) and own.count("function") == 1
            if not plain or "=>" in own or re.search(r"[(]/|[?'`]", own):
                continue
            compared += 1
            one = theirs.get(text.count("\n", 0, function.start) + 1)
            mine = metrics.complexity(own), text.count("\n", 0, function.end) + 1
            if one is None or (one.cyclomatic_complexity, one.end_line) != mine:
                other.append((function.name, mine, one and (one.cyclomatic_complexity, one.end_line)))
    assert compared > 100
    # Where they differ acorn has what we have, see above.
    assert len(other) <= compared // 20, other


REFUSED = {
    **dict.fromkeys(("wrong_operator", "swapped_operand", "variable_misuse", "rea"), 0.0),
    # A name declared twice is no matter of a grammar, nor is a `const` that is given nothing.
    **dict.fromkeys(("sri", "jbl_parsed"), 0.1),
    **dict.fromkeys(("srk", "sck"), 0.2),
    "sra": 0.3,
}
"""The share of code with a fault that acorn refuses, at most."""


def test_code_with_a_fault_is_valid_to_acorn() -> None:
    texts = functions_of(files())[:600]
    assert None not in parser_answers(tuple(map(standing, texts)))
    faulty = {name: [one for one in map(fault_of(name), texts) if one] for name in REFUSED}
    asked = tuple(standing(one) for found in faulty.values() for one in found)
    answers = iter(parser_answers(asked))
    refused = {name: sum(next(answers) is None for _ in found) for name, found in faulty.items()}
    assert min(map(len, faulty.values())) > 30, {name: len(found) for name, found in faulty.items()}
    assert all(refused[name] <= share * len(faulty[name]) for name, share in REFUSED.items()), refused


def functions_of(texts: Sequence[str]) -> list[str]:
    found = {one.slice_from(text) for text in texts for one in JAVASCRIPT.functions(text)}
    return sorted(one for one in found if len(one) < 3000)


def fault_of(name: str) -> Callable[[str], str | None]:
    task = TASKS.load(name)

    def bug(text: str) -> str | None:
        assert isinstance(task, BugTask)
        asked = Item(text, text, "javascript", "function", "a.js", "f", 0, "c", "r")
        found = task.variants(text, get_facet("javascript", "bugs", BugSites), make_choice(0, asked))
        return found[1].text if found else None

    def fault(text: str) -> str | None:
        assert isinstance(task, Mutation)
        edits = get_facet("javascript", "edits", Edits)
        around = FaultContext(edits, "train", task.survey([text], edits))
        found = task.fault(text, around, Random(len(text)))
        return found.text if found else None

    return bug if isinstance(task, BugTask) else fault


def standing(text: str) -> str:
    """A function where it may stand: a method in a class, a property in an object."""
    tree = JAVASCRIPT.parse(text)
    if tree.kind_name(0) != "program":
        return f"class _ extends Object {{ {text} }}"
    return f"({{ {text} }})" if tree.kind_name(1) == "labeled_statement" else text


ODD = [
    "'use strict'\nvar a = b\n++c\nlet async, of, get, static_\nasync\n(1)",
    "x = a / b / c; y = /[/\\]]+/gi.test(z) / 2; if (x) /re/.exec(y)",
    "`a${`b${c}` + {d: 1}.d}e` + `\\`${'}'}`; tag`x\n${y}`",
    "for (var {a, b: [c = 1, , ...d], ...e} = f, g; ; ) for (const x in y) for await (z of w) ;",
    "a?.[0]?.b?.(...c)?.#d; a ??= b ||= c &&= d; 1_000n ** -0x1F; .5.toFixed()",
    "class A extends (b, c) { static { } static async *[d]() {} get\ne() {} 'f'() {} 0() {} static = 1; #g }",
    "export default async function* () { yield* 2 }\nexport * as y from 'z'; import w, {a as v} from 'u'",
    "({async, get, set: 1, get a() {}, set a(b) {}, async *c() {}, [d]: e, 'f': 1, 1: 2, ...g})",
    "l: { m: for (;;) { break l } } do ; while (0) with_: if (1) ; else function f() {}",
    "x = <A.B c:d='é' {...e}>&nbsp;{/* f */}<></>{g => <h/>}</A.B>; \r\n<!-- old\n/* 🎉 */ // end",
]
BROKEN = [
    "function",
    "function f( {",
    "function f() { if { } else",
    "const = 1",
    "class { foo( }",
    "get x() { return",
    'x = "',
    "x = `${",
    "f() } {",
    "import { from 'x'; case 1: }}",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_code_is_read_whole(text: str, check: Check) -> None:
    get_facet("javascript", "flow", Flow).dependencies(text)
    assert not get_facet("javascript", "relations", Relations).relate(text).problem
    reads_whole("javascript", text, check)


@pytest.mark.parametrize("text", BROKEN)
def test_broken_code_is_told(text: str, check: Check) -> None:
    says_that_it_is_broken("javascript", text, check)


def test_odd_and_broken_code_are_so_to_acorn() -> None:
    answers = parser_answers((*ODD, *BROKEN))
    assert [answer is not None for answer in answers] == [True] * len(ODD) + [False] * len(BROKEN)
