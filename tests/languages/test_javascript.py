"""JavaScript: what is found in its code, by hand, and what it cannot have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.languages.by_hand import (
    comes_back_from_program_tokens,
    puts_a_bug_in,
    puts_a_fault_in,
    relates,
    relates_children,
)
from tests.languages.javascript_relations import CASES, CHILDREN

from sonde.corpora import Item
from sonde.languages import LANGUAGES, Language, get_facet, has_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.imports import ImportReader
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.tagging import AST_CLASSES, IDN_CLASSES, KTX_CLASSES, Tagger
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.tasks import Repository, get_languages
from sonde.tasks.engine.task import TASKS

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
    return Item("i", function.slice_from(CODE), "javascript", "function", "a.js", "total", 0, "c", "r")


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
    texts = {one.name: one.slice_from(CODE) for one in JAVASCRIPT.functions(CODE)}
    assert texts["arrow"].startswith("const arrow = (n) => n") and texts["arrow"].endswith(": 1")
    assert texts["other"] == "other = function () {}"
    assert texts["total"].startswith("async function total(") and texts["secret"].startswith("get secret()")
    assert texts["late"].startswith("A.prototype.late = ") and texts["stop-it"] == "'stop-it': function () {}"
    kinds = {(one.name, one.kind) for one in JAVASCRIPT.definitions(CODE)}
    assert {("A", "class"), ("total", "function"), ("late", "method"), ("run", "method")} <= kinds
    assert {("inner", "function"), ("hidden", "function")} <= kinds


@pytest.mark.parametrize(
    "text", ["var f = {}", "f = {}", "a.f = {}", "class A {{ f = {} }}", "({{ f: {} }})"]
)
@pytest.mark.parametrize("value", ["function (a) {{ {}a }}", "function g(a) {{ {}a }}", "(a) => {}a"])
def test_brackets_around_a_function_change_nothing(text: str, value: str) -> None:
    metrics = get_facet("javascript", "metrics", Metrics)
    plain, bracketed = (
        text.replace("{{", "{").replace("}}", "}").replace("{}", written)
        for written in (value.format(""), f"({value.format('')})")
    )
    found, other = JAVASCRIPT.functions(plain), JAVASCRIPT.functions(bracketed)
    assert [one.qualified_name for one in found] == [one.qualified_name for one in other]
    assert len(found) == 1 and other[0].slice_from(bracketed).rstrip(" })").count("(") > 0
    assert metrics.complexity(plain) == metrics.complexity(bracketed) == 1


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
    assert function.slice_from(text) == text.strip()
    assert not any(call.name == function.name for call in JAVASCRIPT.calls(text))
    assert get_facet("javascript", "bugs", BugSites).parses(text) and get_facet(
        "javascript", "edits", Edits
    ).parses(text)
    assert get_facet("javascript", "metrics", Metrics).complexity(text) == 1
    # Two of them are no definition.
    assert JAVASCRIPT.parse(text + text).has_error


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_relations(text: str, expected: list[str]) -> None:
    relates("javascript", text, expected)


@pytest.mark.parametrize(("text", "expected"), CHILDREN)
def test_children(text: str, expected: list[str]) -> None:
    relates_children("javascript", text, expected)


def test_metrics(item: Item) -> None:
    metrics = get_facet("javascript", "metrics", Metrics)
    # for, if, &&, if, one case, and one; the arrow counts apart.
    assert metrics.complexity(item.text) == 6
    assert metrics.nesting_depth(item.text) == 4
    assert metrics.count_structures(item.text) == {"if": 3, "loop": 1, "switch": 1, "try": 0}
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


def test_variables_and_their_misuse(item: Item) -> None:
    flow, bugs = get_facet("javascript", "flow", Flow), get_facet("javascript", "misuse", BugSites)
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
    assert get_facet("javascript", "flow", Flow).visible_names(text, text.rindex(at)) == expected


def as_method(text: str) -> str:
    return text.replace("async function total", "static async *#total")


@pytest.mark.parametrize("method", [False, True])
@pytest.mark.parametrize("name", ["variable_misuse", "wrong_operator", "swapped_operand"])
def test_bugs_are_put_in(item: Item, name: str, method: bool) -> None:
    puts_a_bug_in(name, item, as_method(item.text) if method else item.text)


@pytest.mark.parametrize("method", [False, True])
@pytest.mark.parametrize(
    "name", ["typ", "rea", "jbl", "jmb", "jft", "sri", "srk", "sck", "jbl_parsed", "jst"]
)
def test_faults_are_put_in(item: Item, name: str, method: bool) -> None:
    text = as_method(item.text) if method else item.text
    text = text.replace("inspect(", "inspect(String, Map, ").replace("sum += scale", "sum = scale")
    text = text.replace("return sum", "if (sum > least) return sum")
    puts_a_fault_in(name, "javascript", text)


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
    assert get_facet("javascript", "edits", Edits).is_accessor(text) is expected


def test_classes_of_tokens(item: Item) -> None:
    tagging = get_facet("javascript", "tagging", Tagger)
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
    tables = tagging
    reachable = {*tables.classes.values(), *tables.words.values(), "OUT"}
    assert reachable == set(KTX_CLASSES)
    assert reachable | set(tables.extra_classes.values()) | set(IDN_CLASSES) == set(AST_CLASSES)


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
    comes_back_from_program_tokens("javascript", item.text, "grows")


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
    found = get_facet("javascript", "imports", ImportReader).read(IMPORTS)
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
    assert get_facet("javascript", "bugs", BugSites).exceptions == ()
    lacks = {name for name in TASKS.names() if "javascript" not in get_languages(TASKS.load(name))}
    assert lacks == {"npt"}
