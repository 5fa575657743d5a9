"""JavaScript: what is found in its code, by hand, against acorn and against lizard, odd and broken code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import lizard
import pytest
from tests.languages.javascript_relations import CASES, CHILDREN

from sonde.corpora import Item
from sonde.languages import LANGUAGES, Language, facet_of, has_facet, javascript
from sonde.languages._bugs import Bugs
from sonde.languages._edits import Edits
from sonde.languages._flow import Flow
from sonde.languages._imports import Imports
from sonde.languages._metrics import Metrics
from sonde.languages._program import Program, tokenize, untokenize
from sonde.languages._relations import Relations
from sonde.languages._tagging import AST_CLASSES, IDN_CLASSES, KTX_CLASSES, Tagging
from sonde.languages._treesitter import TreeSitterLanguage
from sonde.tasks import TASKS, Repository, languages_of
from sonde.tasks._bugs import BugTask, choice_of
from sonde.tasks._mutation import Mutation, Surroundings

JAVASCRIPT = LANGUAGES.load("javascript")
assert isinstance(JAVASCRIPT, TreeSitterLanguage)

CODE = """import fs from 'fs';
import * as path from 'path';
const util = require('util');

var x = 1; // Not about first.
function first() {}

// Left alone.

/**
 * Sums up
 * what is large.
 * @param {Item[]} items the items
 */
// eslint-disable-next-line
export async function total(items, {least = 0, ...others} = {}, ...more) {
  let sum = 0;
  for (const item of items) {
    if (item.size() > least && others.ok) {
      sum += scale(item.size(), util.inspect(more)); // grows
    } else if (sum === null) continue;
  }
  switch (sum) {
    case 0: throw new RangeError(`none {${items}`);
    default: items.forEach((one) => { if (one || sum) path.join(one) });
  }
  return sum
}

// Plain
// words.
const arrow = (n) => n ? n * arrow(n - 1) : 1, other = function () {};

class A extends B {
  #secret = 1;
  /** Gets. */
  get secret() { return this.#secret }
  static handle = (e) => { this.#hide(e) };
  #hide() {}
  [Symbol.iterator]() { const inner = () => 1 }
}
A.prototype.late = function () { return function named() {} };
module.exports = { run() {}, 'stop-it': function () {} };
var Deep = { down: { under: async () => {} } };
(function ($) { function hidden() {} $.fn.plugin = function () {} })(jQuery);
items[0] = function () {};
"""


@pytest.fixture
def item() -> Item:
    function = next(one for one in JAVASCRIPT.functions(CODE) if one.name == "total")
    return Item("i", function.taken_from(CODE), "javascript", "function", "a.js", "total", 0, "c", "r")


def test_functions_and_what_documents_them() -> None:
    assert [(one.qualified_name, one.docstring) for one in JAVASCRIPT.functions(CODE)] == [
        ("first", ""),
        ("total", "Sums up\nwhat is large.\n@param {Item[]} items the items"),
        ("arrow", "Plain\nwords."),
        ("other", ""),
        *(("A.secret", "Gets."), ("A.handle", ""), ("A.#hide", ""), ("A.[Symbol.iterator]", "")),
        *(("A.prototype.late", ""), ("run", ""), ("stop-it", ""), ("Deep.down.under", "")),
        *(("hidden", ""), ("$.fn.plugin", "")),
    ]
    texts = {one.name: one.taken_from(CODE) for one in JAVASCRIPT.functions(CODE)}
    assert texts["arrow"].startswith("const arrow = (n) => n") and texts["arrow"].endswith(": 1")
    assert texts["other"] == "other = function () {}"
    assert texts["total"].startswith("async function total(") and texts["secret"].startswith("get secret()")
    assert texts["late"].startswith("A.prototype.late = ") and texts["stop-it"] == "'stop-it': function () {}"
    kinds = {(one.name, one.kind) for one in JAVASCRIPT.definitions(CODE)}
    assert {("A", "class"), ("total", "function"), ("late", "method"), ("run", "method")} <= kinds
    assert {("inner", "function"), ("hidden", "function")} <= kinds


def test_calls() -> None:
    text = "f(1); a.b?.c(); new D(x); new e.F(); this.#g(); new H; t`x`; import('y'); await (z)"
    assert [(one.name, one.is_method) for one in JAVASCRIPT.calls(text)] == [
        *(("f", False), ("c", True), ("D", False), ("F", False), ("#g", True)),
    ]


@pytest.mark.parametrize(
    "text",
    ["get é(a) { return f(a) }", "static async *m() {}", "#p() {}", "static h = () => '🎉'", "  m() {} "],
)
def test_a_method_alone_is_read_as_what_it_is(text: str, check: Callable[[Language, str], None]) -> None:
    tree = JAVASCRIPT.parse(text)
    assert not tree.has_error and tree.kind_name(0) in ("method_definition", "field_definition")
    check(JAVASCRIPT, text)
    (function,) = JAVASCRIPT.functions(text)
    assert function.taken_from(text) == text.strip()
    assert not any(call.name == function.name for call in JAVASCRIPT.calls(text))
    assert facet_of("javascript", "bugs", Bugs).parses(text) and facet_of(
        "javascript", "edits", Edits
    ).parses(text)
    assert facet_of("javascript", "metrics", Metrics).complexity(text) == 1
    # Two of them are no definition.
    assert JAVASCRIPT.parse(text + text).has_error


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_relations(text: str, expected: list[str]) -> None:
    found = [edge for relation, edge in edges(text) if relation != "children:parent->child"]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(("text", "expected"), CHILDREN)
def test_children(text: str, expected: list[str]) -> None:
    found = [edge for relation, edge in edges(text) if relation == "children:parent->child"]
    assert sorted(edge.partition(" ")[2] for edge in found) == sorted(expected)


def edges(text: str) -> Iterator[tuple[str, str]]:
    related = facet_of("javascript", "relations", Relations).relate(text)
    assert not related.problem
    words = related.words.surface
    for edge in related.edges:
        dependent = " ".join(words[edge.first : edge.last + 1])
        yield edge.relation, f"{edge.relation} {words[edge.head]}: {dependent}"


def test_the_cases_have_every_relation() -> None:
    told = {edge.split(" ")[0] for _, held in CASES for edge in held}
    relations = facet_of("javascript", "relations", Relations)
    assert told | {"children:parent->child"} == set(relations.relation_types)
    assert len(CASES) + len(CHILDREN) >= 30


def test_metrics(item: Item) -> None:
    metrics = facet_of("javascript", "metrics", Metrics)
    # for, if, &&, if, one case, and one; the arrow counts apart.
    assert metrics.complexity(item.text) == 6
    assert metrics.nesting(item.text) == 4
    assert metrics.structures(item.text) == {"if": 3, "loop": 1, "switch": 1, "try": 0}
    assert metrics.operators(item.text) == ("=", ">", "&&", "+=", "===", "||")
    # async, function, let, for, const, of, if, else, if, continue, switch, case, throw, new, default, if and
    # return.
    assert metrics.keywords(item.text) == 17
    assert metrics.patterns(item.text)["if_in_loop"] == 2
    assert metrics.patterns(item.text)["early_return"] == 0
    assert metrics.patterns("function f(n) { if (n) return 1; return f(n - 1) }") == {
        **dict.fromkeys(("nested_loop", "if_in_loop"), 0),
        **dict.fromkeys(("early_return", "recursion"), 1),
    }
    for text in (
        "const f = n => f(n - 1)",
        "f(n) { return this.f(n - 1) }",
        "a.f = function (n) { this.f(n) }",
    ):
        assert metrics.patterns(text)["recursion"] == 1
    for text in ("const f = () => { const g = () => g() }", "f(n) { f(n) }", "a.f = function () { f() }"):
        assert metrics.patterns(text)["recursion"] == 0
    # A default is no decision of the body, and what is chained is none at all.
    assert metrics.complexity("const f = (a = b || c) => a?.b ?? (c ? 1 : 2)") == 3


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
    metrics = facet_of("javascript", "metrics", Metrics)
    assert isinstance(JAVASCRIPT, TreeSitterLanguage)
    compared = 0
    for text, answer in zip(files(), parser_answers(files()), strict=True):
        # The grammar does not see where a static field ends that no semicolon ends.
        if answer is None or JAVASCRIPT.parse(text).has_error:
            continue
        compared += 1
        assert [[leaf.start, leaf.end] for leaf in JAVASCRIPT.leaves(text)] == answer["tokens"]
        functions = [
            [one.name, one.end, metrics.complexity(one.taken_from(text))]
            for one in JAVASCRIPT.functions(text)
        ]
        assert sorted(functions) == sorted(answer["functions"])
        calls = [[one.name, one.start] for one in JAVASCRIPT.calls(text)]
        assert sorted(calls) == sorted(answer["calls"])
    assert compared >= len(files()) - 2 > 200


def test_complexity_and_length_against_lizard() -> None:
    metrics = facet_of("javascript", "metrics", Metrics)
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
            own = function.taken_from(text)
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


def test_variables_and_their_misuse(item: Item) -> None:
    flow, bugs = facet_of("javascript", "flow", Flow), facet_of("javascript", "misuse", Bugs)
    assert {one.name: one.kind for one in flow.variables(item.text)} == {
        **dict.fromkeys(("items", "least", "others", "more", "one"), "parameter"),
        **dict.fromkeys(("sum", "item"), "local"),
    }
    use = next(one for one in bugs.variables(item.text).uses if one.surface == "item")
    assert bugs.replacements(item.text, use) == ("items", "least", "more", "others", "sum")
    text = """function f(a, b) {
        const x = {a, b: c, [b]: a.b}; let {d, e: [g]} = x;
        a[b] = d; return <T b={a}>{g}</T>
    }"""
    assert [one.surface for one in bugs.variables(text).uses] == ["b", "a", "x", "a", "b", "d", "a", "g"]
    found = flow.variables(text)
    pairs = {(found[one].name, found[two].name) for one, two in flow.dependencies(text)}
    assert {("x", "a"), ("x", "b"), ("d", "x"), ("g", "x"), ("a", "d")} <= pairs
    assert ("b", "d") not in pairs and ("d", "g") not in pairs


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        # `var` belongs to the function, `let` to its block, before and behind where it stands.
        ("function f(a) { { var b = 1; let c = 2 } g(a) }", "a)", {"a", "b"}),
        ("function f(a) { { g(a); let c = 2 } }", "a); let", {"a", "c"}),
        ("function f(a) { for (let i = 0; i < 1; i++) g(i); g(a) }", "a) }", {"a"}),
        ("function f(a) { for (var i of a) g(i); g(a) }", "a) }", {"a", "i"}),
        ("function f(a) { try { g() } catch (e) { g(a) } }", "a) }", {"a", "e"}),
        # The parameters of a function inside are seen in it alone.
        ("function f(a) { a.map((b, {c}) => b); g(a) }", "a) }", {"a"}),
        ("function f(a) { a.map((b, {c}) => b) }", "b) }", {"a", "b", "c"}),
        ("function f(a) { const g = () => 1; function h() {} return a }", "a }", {"a"}),
    ],
)
def test_where_a_variable_is_seen(text: str, at: str, expected: set[str]) -> None:
    assert facet_of("javascript", "flow", Flow).visible(text, text.rindex(at)) == expected


def as_method(text: str) -> str:
    return text.replace("async function total", "static async *#total")


@pytest.mark.parametrize("method", [False, True])
@pytest.mark.parametrize("name", ["variable_misuse", "wrong_operator", "swapped_operand"])
def test_bugs_are_put_in(item: Item, name: str, method: bool) -> None:
    task, bugs = TASKS.load(name), facet_of("javascript", "bugs", Bugs)
    assert isinstance(task, BugTask)
    text = as_method(item.text) if method else item.text
    right, wrong = task.variants(text, bugs, choice_of(0, item))
    assert right.text == text != wrong.text and bugs.parses(wrong.text)


@pytest.mark.parametrize("method", [False, True])
@pytest.mark.parametrize(
    "name", ["typ", "rea", "jbl", "jmb", "jft", "sri", "srk", "sck", "jbl_parsed", "jst"]
)
def test_faults_are_put_in(item: Item, name: str, method: bool) -> None:
    task, edits = TASKS.load(name), facet_of("javascript", "edits", Edits)
    assert isinstance(task, Mutation)
    text = as_method(item.text) if method else item.text
    text = text.replace("inspect(", "inspect(String, Map, ").replace("sum += scale", "sum = scale")
    text = text.replace("return sum", "if (sum > least) return sum")
    around = Surroundings(edits, "train", task.survey([text], edits))
    found = [task.fault(text, around, Random(seed)) for seed in range(20)]
    assert any(fault is not None and fault.text != text for fault in found)


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
    found = {one.taken_from(text) for text in texts for one in JAVASCRIPT.functions(text)}
    return sorted(one for one in found if len(one) < 3000)


def fault_of(name: str) -> Callable[[str], str | None]:
    task = TASKS.load(name)

    def bug(text: str) -> str | None:
        assert isinstance(task, BugTask)
        asked = Item(text, text, "javascript", "function", "a.js", "f", 0, "c", "r")
        found = task.variants(text, facet_of("javascript", "bugs", Bugs), choice_of(0, asked))
        return found[1].text if found else None

    def fault(text: str) -> str | None:
        assert isinstance(task, Mutation)
        edits = facet_of("javascript", "edits", Edits)
        around = Surroundings(edits, "train", task.survey([text], edits))
        found = task.fault(text, around, Random(len(text)))
        return found.text if found else None

    return bug if isinstance(task, BugTask) else fault


def standing(text: str) -> str:
    """A function where it may stand: a method in a class, a property in an object."""
    tree = JAVASCRIPT.parse(text)
    if tree.kind_name(0) != "program":
        return f"class _ extends Object {{ {text} }}"
    return f"({{ {text} }})" if tree.kind_name(1) == "labeled_statement" else text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("get x() { return this.x }", True),
        ("set x(x) { this.#x = x; }", True),
        ("A.prototype.x = function () { return 1; }", True),
        ("get x() { return this.x + 1 }", False),
        ("set x(x) { this.x = x; this.y = x }", False),
    ],
)
def test_getters_and_setters(text: str, expected: bool) -> None:
    assert facet_of("javascript", "edits", Edits).is_accessor(text) is expected


def test_classes_of_tokens(item: Item) -> None:
    tagging = facet_of("javascript", "tagging", Tagging)
    found = {item.text[one.start : one.end]: one.label for one in tagging.keywords(item.text)}
    expected = {"for": "KFC", "of": "KFC", "=": "OAS", "&&": "OLB", "===": "ORE", "=>": "SYM", "...": "SYM"}
    expected |= {"throw": "KEH", "function": "KMD", "async": "KMD", "let": "KMD"}
    assert {word: found[word] for word in expected} == expected
    names = {
        item.text[one.start : one.end]: one.label
        for one in tagging.identifiers(item.text, tagging.imports(CODE))
    }
    expected = {
        "util": "IDP",
        "path": "IDP",
        "total": "IDM",
        "scale": "IDM",
        "RangeError": "IDC",
        "sum": "IDV",
    }
    assert {word: names[word] for word in expected} == expected
    text = "f() { l: for (;;) break l; return x instanceof A.B && new c.D(Math.max(<div><E/></div>)) }"
    names = {text[one.start : one.end]: one.label for one in tagging.identifiers(text)}
    assert {name for name, label in names.items() if label == "IDC"} == {"A", "D", "Math", "E"}
    assert not {"l", "div"} & set(names)
    tables = tagging.tables  # type: ignore[attr-defined]
    reachable = {*tables.classes.values(), *tables.words.values(), "OUT"}
    assert reachable == set(KTX_CLASSES)
    assert reachable | set(tables.more.values()) | set(IDN_CLASSES) == set(AST_CLASSES)


def test_constructs() -> None:
    text = "const f = () => { if (x) { throw new Error('no') } return require('m')[0] ?? /r/ }"
    found = {(one.label, text[one.start : one.end]) for one in JAVASCRIPT.constructs(JAVASCRIPT.parse(text))}
    assert {
        *(("raise", "throw new Error('no')"), ("condition", "(x)"), ("call", "new Error('no')")),
        *(
            ("string", "'no'"),
            ("string", "/r/"),
            ("import", "require('m')"),
            ("subscript", "require('m')[0]"),
        ),
    } <= found


def test_program_tokens_and_back(item: Item) -> None:
    facet = facet_of("javascript", "program", Program)
    found = tokenize(facet, item.text)
    assert "grows" not in "".join(found) and tokenize(facet, untokenize(facet, found)) == found


def test_calls_go_into_the_repository_and_out_of_it(item: Item) -> None:
    (defined,) = JAVASCRIPT.definitions("export const scale = (n, by) => n * by")
    known = {"r": Repository({"scale": (("b.js", defined),)})}
    rows = TASKS.load("call_origin").label([item], known)["i"].filter(part="name")
    found = set(zip(rows["name"], rows["label"], strict=True))
    assert {("scale", "internal"), ("inspect", "external"), ("RangeError", "builtin")} <= found


IMPORTS = """import fs, {readFile as read, writeFile} from 'fs';
import * as path from 'node:path';
import x from './x'; import y from '@a/b'; import 'side';
const _ = require('lodash'), {spawn, exec: run} = require('child_process');
const Emitter = require('events').EventEmitter, z = require(name);
fs.statSync('a'); read(1); writeFile(2); new Emitter(); run(); fs.promises.read(); x.y(); _(x); z.f();
function f(path) { path.join(1); const g = () => _.filter(1); { const read = 1; read() } }
function h() { var q = require('util'); return q.inspect(path.sep, path.join(1)) }
"""


def test_imports_and_calls_of_what_modules_export() -> None:
    found = facet_of("javascript", "imports", Imports).read(IMPORTS)
    assert [(one.bound, one.name, one.member, one.alias) for one in found.imports] == [
        *(("fs", "fs", False, ""), ("writeFile", "fs.writeFile", True, "")),
        *(("read", "fs.readFile", True, "read"), ("path", "path", False, ""), ("_", "lodash", False, "_")),
        *(("spawn", "child_process.spawn", True, ""), ("run", "child_process.exec", True, "run")),
        *(("Emitter", "events.EventEmitter", True, "Emitter"), ("q", "util", False, "q")),
    ]
    assert [(one.name, one.kind, IMPORTS[one.start : one.end]) for one in found.calls] == [
        *(("fs.statSync", "call", "fs.statSync"), ("fs.readFile", "call", "read")),
        *(("fs.writeFile", "call", "writeFile"), ("events.EventEmitter", "new", "Emitter")),
        *(("child_process.exec", "call", "run"), ("lodash.filter", "call", "_.filter")),
        *(("util.inspect", "call", "q.inspect"), ("path.join", "call", "path.join")),
    ]
    assert found.unplaced == 2


def test_what_javascript_cannot_have() -> None:
    # Each with its reason in `language.toml`.
    assert not any(has_facet("javascript", facet) for facet in ("npath", "deprecations"))
    assert facet_of("javascript", "bugs", Bugs).exceptions == ()
    lacks = {name for name in TASKS.names() if "javascript" not in languages_of(TASKS.load(name))}
    assert lacks == {"npt"}


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
def test_odd_code_is_read_whole(text: str, check: Callable[[Language, str], None]) -> None:
    assert not JAVASCRIPT.parse(text).has_error
    check(JAVASCRIPT, text)
    facet_of("javascript", "flow", Flow).dependencies(text)
    assert not facet_of("javascript", "relations", Relations).relate(text).problem
    for function in JAVASCRIPT.functions(text):
        own = function.taken_from(text)
        assert facet_of("javascript", "metrics", Metrics).complexity(own) >= 1
        assert not facet_of("javascript", "relations", Relations).relate(own).problem


@pytest.mark.parametrize("text", BROKEN)
def test_broken_code_is_told(text: str, check: Callable[[Language, str], None]) -> None:
    assert JAVASCRIPT.parse(text).has_error
    check(JAVASCRIPT, text)
    assert facet_of("javascript", "relations", Relations).relate(text).problem == "does not parse"
    facet_of("javascript", "metrics", Metrics).complexity(text)
    facet_of("javascript", "flow", Flow).variables(text)
    facet_of("javascript", "tagging", Tagging).identifiers(text)
    assert not facet_of("javascript", "bugs", Bugs).parses(text)


def test_odd_and_broken_code_are_so_to_acorn() -> None:
    answers = parser_answers((*ODD, *BROKEN))
    assert [answer is not None for answer in answers] == [True] * len(ODD) + [False] * len(BROKEN)


def test_javascript_is_small() -> None:
    folder = Path(javascript.__file__).parent
    files = [file for file in folder.glob("*.*") if file.stem != "imports"]
    assert sum(len(file.read_text().splitlines()) for file in files) <= 700
