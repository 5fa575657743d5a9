"""Go: what is found in its code, by hand and against lizard, what it cannot have, odd and broken code."""

from __future__ import annotations

from pathlib import Path

import lizard
import pytest
from tests.languages.by_hand import (
    Check,
    comes_back_from_program_tokens,
    puts_a_bug_in,
    puts_a_fault_in,
    reads_whole,
    relates,
    relates_children,
    says_that_it_is_broken,
)
from tests.languages.go_relations import CASES, CHILDREN

from sonde.corpora import Item
from sonde.languages import LANGUAGES, get_facet, get_unsupported_tasks, has_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.imports import ImportReader
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.tagging import AST_CLASSES, IDN_CLASSES, KTX_CLASSES, Tagger
from sonde.tasks import Repository
from sonde.tasks.engine.cloze_statements import make_aliased_statement, make_plain_statement
from sonde.tasks.engine.task import TASKS

GO = LANGUAGES.load("go")

CODE = """package a

import (
	"fmt"
	r "math/rand/v2"
	"net/http"
)

var x = 1 // Not about first.
func first() {}

// Left alone.

// Total adds
// what is large.
//
//go:noinline
func (s *Store[K]) Total(items []Item, least int) (sum int, err error) {
	for _, item := range items {
		if n := item.Size(); n > least && s.ok {
			sum += n // grows
		} else if n == 0 {
			continue
		}
	}
	switch sum {
	case 0, 1:
		return 0, fmt.Errorf("none {")
	default:
		defer scale(sum, r.Int())
	}
	return sum, nil
}

/*
Block documents.
*/
func documented(h http.Handler) func() { return func() { documented(nil) } }

func ext(int) bool

type Store[K any] struct{ ok bool }

type Sizer interface{ Size() int }
"""


@pytest.fixture
def item() -> Item:
    function = next(one for one in GO.functions(CODE) if one.name == "Total")
    return Item("i", function.slice_from(CODE), "go", "function", "a.go", "Total", 0, "c", "r")


def test_functions_and_what_documents_them() -> None:
    assert [(one.qualified_name, one.docstring) for one in GO.functions(CODE)] == [
        ("first", ""),
        ("Store.Total", "Total adds\nwhat is large."),
        ("documented", "Block documents."),
    ]
    assert [(one.name, one.kind) for one in GO.definitions(CODE)] == [
        *(("first", "function"), ("Total", "method"), ("documented", "function"), ("ext", "function")),
        *(("Store", "class"), ("Sizer", "class"), ("Size", "method")),
    ]
    assert [(one.name, one.is_method) for one in GO.calls(CODE)] == [
        *(("Size", True), ("Errorf", True), ("scale", False), ("Int", True), ("documented", False)),
    ]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_relations(text: str, expected: list[str]) -> None:
    relates("go", text, expected)


@pytest.mark.parametrize(("text", "expected"), CHILDREN)
def test_children(text: str, expected: list[str]) -> None:
    relates_children("go", text, expected)


def test_metrics(item: Item) -> None:
    metrics = get_facet("go", "metrics", Metrics)
    # for, if, &&, if, one case, and one.
    assert metrics.complexity(item.text) == 6
    assert metrics.nesting_depth(item.text) == 3
    assert metrics.count_structures(item.text) == {"if": 2, "loop": 1, "switch": 1, "try": 0}
    assert metrics.operators(item.text) == (":=", ":=", ">", "&&", "+=", "==")
    # func, for, range, if, else, if, continue, switch, case, return, default, defer, return.
    assert metrics.keywords(item.text) == 13
    assert metrics.patterns(item.text)["if_in_loop"] == 2
    assert metrics.patterns(item.text)["early_return"] == 1
    assert metrics.patterns("func f(n int) int { return f(n - 1) }")["recursion"] == 1


SOURCES = sorted(Path("/usr/share").glob("go-*/src"))
PACKAGES = (
    "fmt",
    "strings",
    "strconv",
    "sort",
    "go/parser",
    "go/types",
    "net/http",
    "encoding/json",
    "text/template",
)


@pytest.mark.slow
@pytest.mark.skipif(not SOURCES, reason="no sources of Go (Debian: golang-1.19-src)")
def test_complexity_and_length_against_lizard() -> None:
    compared, other = 0, []
    metrics = get_facet("go", "metrics", Metrics)
    for path in (file for package in PACKAGES for file in sorted((SOURCES[0] / package).glob("*.go"))):
        text = path.read_text(encoding="utf-8")
        theirs = {
            one.start_line: one for one in lizard.analyze_file.analyze_source_code("a.go", text).function_list
        }
        assert not GO.parse(text).has_error
        for function in GO.functions(text):
            own = function.slice_from(text)
            # lizard counts function literals apart, and loses its way behind these.
            if "func(" in own or "struct{}" in own or "\\\\`" in own or "\nfunc " in own:
                continue
            line = text.count("\n", 0, function.start) + 1
            one = theirs.get(line)
            compared += 1
            mine = metrics.complexity(own), text.count("\n", 0, function.end) + 1
            if one is None or (one.cyclomatic_complexity, one.end_line) != mine:
                other.append((path.name, function.name))
    assert compared > 2000
    assert len(other) <= compared // 500, other


def test_variables_and_their_misuse(item: Item) -> None:
    flow, bugs = get_facet("go", "flow", Flow), get_facet("go", "misuse", BugSites)
    assert {one.name: one.kind for one in flow.variables(item.text)} == {
        **dict.fromkeys(("s", "items", "least", "sum", "err"), "parameter"),
        **dict.fromkeys(("item", "n"), "local"),
    }
    assert bugs.variables(item.text).names == ("err", "item", "items", "least", "n", "s", "sum")
    use = next(one for one in bugs.variables(item.text).uses if one.surface == "n")
    assert bugs.replacements(item.text, use) == ("err", "item", "items", "least", "s", "sum")
    outer = "func f(a int) {\n\t{ b := a }\n\tg(a)\n}"
    last = [one for one in bugs.variables(outer).uses if one.surface == "a"][-1]
    assert bugs.replacements(outer, last) == ()
    text = "func f(a, b int) { x := &T{a: b}; y := map[int]int{a: b}; _, z := g(x); y[a] = z }"
    assert [one.surface for one in bugs.variables(text).uses] == ["b", "a", "b", "x", "y", "a", "z"]
    found = flow.variables(text)
    pairs = {(found[one].name, found[two].name) for one, two in flow.dependencies(text)}
    assert {("x", "b"), ("y", "z"), ("z", "x")} <= pairs and ("x", "a") not in pairs


@pytest.mark.parametrize("name", ["variable_misuse", "wrong_operator", "swapped_operand"])
def test_bugs_are_put_in(item: Item, name: str) -> None:
    puts_a_bug_in(name, item, item.text)


@pytest.mark.parametrize(
    "name", ["typ", "rea", "jbl", "jmb", "jft", "sri", "srk", "sck", "jbl_parsed", "jst"]
)
def test_faults_are_put_in(item: Item, name: str) -> None:
    text = item.text.replace("sum += n", "sum = n")
    puts_a_fault_in(name, "go", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("func (a A) X() int { return a.x }", True),
        ("func (a *A) SetX(x int) { a.x = x }", True),
        ("func (a A) X() int { return a.x + 1 }", False),
        ("func (a *A) SetX(x int) { a.x = x; a.y = x }", False),
    ],
)
def test_getters_and_setters(text: str, expected: bool) -> None:
    assert get_facet("go", "edits", Edits).is_accessor(text) is expected


def test_classes_of_tokens(item: Item) -> None:
    tagging = get_facet("go", "tagging", Tagger)
    found = {item.text[one.start : one.end]: one.label for one in tagging.keywords(item.text)}
    expected = {"for": "KFC", ":=": "OAS", "&&": "OLB", "==": "ORE", "int": "KPT", "*": "SYM"}
    expected |= {"defer": "KEH", "func": "KMD"}
    assert {word: found[word] for word in expected} == expected
    names = {
        item.text[one.start : one.end]: one.label
        for one in tagging.identifiers(item.text, tagging.imports(CODE))
    }
    expected = {
        "fmt": "IDP",
        "r": "IDP",
        "s": "IDV",
        "Store": "IDC",
        "Total": "IDM",
        "scale": "IDM",
        "n": "IDV",
    }
    assert {word: names[word] for word in expected} == expected
    tables = tagging
    reachable = {*tables.classes.values(), *tables.words.values()}
    assert reachable == set(KTX_CLASSES)
    # No keyword of Go stands for an object.
    assert reachable | set(tables.extra_classes.values()) | set(IDN_CLASSES) | {"KOB"} == set(AST_CLASSES)


def test_constructs() -> None:
    text = 'func f() { if x { panic("no") }; return }'
    found = {(one.label, text[one.start : one.end]) for one in GO.constructs(GO.parse(text))}
    assert {
        ("raise", 'panic("no")'),
        ("condition", "x"),
        ("body", '{ panic("no") }'),
        ("string", '"no"'),
    } <= found


def test_program_tokens_and_back(item: Item) -> None:
    comes_back_from_program_tokens("go", item.text, "grows")


def test_calls_go_into_the_repository_and_out_of_it(item: Item) -> None:
    (defined,) = GO.definitions("package a\nfunc scale(n, by int) int { return n * by }\n")
    known = {"r": Repository({"scale": (("b.go", defined),)})}
    rows = TASKS.load("call_origin").label([item], known)["i"].filter(part="name")
    assert sorted(zip(rows["name"], rows["label"], strict=True)) == [
        *(("Errorf", "external"), ("Int", "external"), ("Size", "external"), ("scale", "internal")),
    ]


IMPORTING = """package a

import "strings"
import (
	"fmt"
	r "math/rand"
	. "os"
	_ "image/png"
	`net/url`
	http "net/http"
	"math/rand/v2"
	"github.com/a/b"
	"C"
)

func f(strings int) {
	fmt.Println(r.Intn(3), C.malloc(1), b.F())
	strings.Split()
	os.Stdout.Write(x)
	go func() { defer fmt.Print("é", &url.URL{Path: "p"}) }()
}

func g(t T) []http.Header {
	strings.Split("a", "b")
	url, err := url.Parse(t)
	url.String()
	return []http.Header{{}, http.Header{}}
}
"""


def test_imports_and_what_is_taken_from_them() -> None:
    imports = get_facet("go", "imports", ImportReader)
    found = imports.read(IMPORTING)
    assert [(one.bound, one.name, one.alias) for one in found.imports] == [
        *(("strings", "strings", ""), ("fmt", "fmt", ""), ("r", "math.rand", "r"), ("url", "net.url", "")),
        ("http", "net.http", ""),
    ]
    assert IMPORTING[found.imports[0].start : found.imports[0].end] == 'import "strings"'
    assert IMPORTING[found.imports[1].start : found.imports[1].end].count("\n") == 10
    assert (found.stars, found.unplaced) == (("os",), 2)
    assert [(one.name, one.kind, IMPORTING[one.start : one.end]) for one in found.calls] == [
        *(("fmt.Println", "call", "fmt.Println"), ("math.rand.Intn", "call", "r.Intn")),
        *(("fmt.Print", "call", "fmt.Print"), ("net.url.URL", "literal", "url.URL")),
        # The first Split is a method of a parameter; url.Parse stands where url is declared.
        *(("strings.Split", "call", "strings.Split"), ("net.http.Header", "literal", "http.Header")),
    ]


def test_imports_inside_of_broken_code_are_left_out() -> None:
    found = get_facet("go", "imports", ImportReader).read(
        'package a\nimport "fmt"\nfunc f() { fmt.A() }\n) fmt.B( {{'
    )
    assert [one.name for one in found.calls] == ["fmt.A"]


def test_statements_of_names() -> None:
    templates = get_facet("go", "imports", ImportReader).templates
    name = ("math", "rand", "Intn")
    call = make_plain_statement(templates["call"]["call"], name)
    assert call.text == "rand.Intn("
    assert [(number, call.text[slice(*span)]) for number, span in call.levels.items()] == [
        (1, "rand"),
        (2, "Intn"),
    ]
    assert make_plain_statement(templates["call"]["import"], name).text == 'import "math/rand"'
    assert (
        make_plain_statement(templates["literal"]["call"], ("net", "http", "Header")).text == "http.Header{"
    )
    assert (
        make_aliased_statement(templates["call"]["alias"], name, 2, "r").text
        == 'import r "math/rand"\nr.Intn('
    )


def test_what_go_cannot_have() -> None:
    # Each with its reason in `language.toml`.
    assert not any(has_facet("go", facet) for facet in ("npath", "deprecations"))
    assert get_facet("go", "bugs", BugSites).exceptions == ()
    assert set(get_unsupported_tasks("go")) == {"npt", "exception_type", "api_deprecated"}


ODD = [
    "package a",
    "package a; func init() {}; func init() {}",
    "package a\nfunc _() { _ = func() (_ int) { return 1 }() }",
    "package a\nfunc f[T ~int | ~string, U interface{ m() }](T, U) (_ T) { return }",
    "package a\nfunc π(世界 ...func(...int) <-chan chan<- int) {}",
    "package a\nvar ƒ = [...]struct{ x, y int }{{1, 2}, 3: {x: 4}}",
    "package a\nfunc f() { L: for { select {}; continue L } }",
    "package a\nfunc f() { if x := (T{}); x == (T{}) {} else if switch_ := 1; switch_ > 0 {} }",
    "package a\nfunc f() { a[i], *p, s.x = <-c, -+^!1, `raw\n\\` + '\\''[0] }".replace("'\\''[0]", '"\\""'),
    "package a\nfunc (T) m() { go func() { defer func() { recover() }() }() }\r\n/* é */ // 🎉",
]
BROKEN = [
    "func",
    "func (",
    "func f( {",
    "func f() { if { } else",
    "func f() { x := }",
    "func (r *) m() {}",
    'func f() { "',
    "func f() { `",
    "func f() } {",
    'package\nimport "\nfunc f() { case 1: }}',
]


@pytest.mark.parametrize("text", ODD)
def test_odd_code_is_read_whole(text: str, check: Check) -> None:
    reads_whole("go", text, check)


@pytest.mark.parametrize("text", BROKEN)
def test_broken_code_is_told(text: str, check: Check) -> None:
    says_that_it_is_broken("go", text, check)
