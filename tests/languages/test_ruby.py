"""Ruby: what is found in its code by hand, what it cannot have, odd and broken code."""

from __future__ import annotations

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
from tests.languages.ruby_relations import CASES, CHILDREN

from sonde.corpora import Item
from sonde.languages import LANGUAGES, get_facet, get_unsupported_tasks, has_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.tagging import AST_CLASSES, IDN_CLASSES, KTX_CLASSES, Tagger
from sonde.tasks import Repository
from sonde.tasks.engine.task import TASKS

RUBY = LANGUAGES.load("ruby")

CODE = """# frozen_string_literal: true
require "set"

module Shop
  # Left alone.

  class Store::Till < Base
    # Of the class.
    attr_reader :ok

    ##
    # Total adds
    # what is large.
    # :nodoc:
    def total(items, least: 0)
      sum = 0
      items.each do |item|
        n = item.size
        if n > least && @ok
          sum += n # grows
        elsif n == 0
          next
        end
      end
      case sum
      when 0, 1 then return nil, format("none {", label)
      else scale(sum, Random.rand)
      end
      sum
    end

    # Private documents.
    private def name = @name

    def self.ok?() true end
    def total=(v); @total = v; end
    def ==(other)
      def inner; end
    end

    class << self
      def open; yield; end
    end

    included do
      def hook; end
    end
  end
end
"""


@pytest.fixture
def item() -> Item:
    function = next(one for one in RUBY.functions(CODE) if one.name == "total")
    return Item("i", function.slice_from(CODE), "ruby", "function", "a.rb", "total", 0, "c", "r")


def test_functions_and_what_documents_them() -> None:
    within = "Shop.Store.Till."
    assert [(one.qualified_name, one.docstring) for one in RUBY.functions(CODE)] == [
        (within + "total", "Total adds\nwhat is large."),
        (within + "name", "Private documents."),
        *((within + name, "") for name in ("ok?", "total=", "==", "open", "hook")),
    ]
    assert [(one.name, one.kind) for one in RUBY.definitions(CODE)] == [
        *(("Shop", "class"), ("Till", "class"), ("total", "method"), ("name", "method"), ("ok?", "method")),
        *(
            ("total=", "method"),
            ("==", "method"),
            ("inner", "function"),
            ("open", "method"),
            ("hook", "method"),
        ),
    ]


def test_documentation_in_a_block_of_comments() -> None:
    text = "=begin\nBlock documents.\n=end\ndef f; end # beside\n# -*- coding: utf-8 -*-\ndef g; end\n"
    assert [one.docstring for one in RUBY.functions(text)] == ["Block documents.", ""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f 1; f(); f; f {}; f do end", ["f:1", "f:()", "f:", "f:", "f:"]),
        ("x = 1; x; y; [1].each { |z| z; x; y }; z", ["y:", ".each:", "y:", "z:"]),
        ("x = 1; def f(a) = x + a", ["x:"]),
        ("x if x = 1; x", ["x:"]),
        ("[1].each { y = 1; y }; y", [".each:", "y:"]),
        ("a.b = 1; a.c += 1; a.d, e = f; a.g", ["a:", "a:", "a:", "f:", "a:", ".g:"]),
        ("a&.b(1)::c; A::B; A::b; A.(1); Integer(1)", ["a:", ".b:(1)", ".c:", ".b:", "Integer:(1)"]),
        ("super(1); yield 1; raise; __FILE__; :s; f a: b", ["raise:", "f:a: b", "b:"]),
        ('"#{f(1)} #{g}"; a.+(1); not h', ["f:(1)", "g:", "a:", ".+:(1)", "h:"]),
        ("case a\nin [b, {c:}, *d] then b; c; d; e end", ["a:", "e:"]),
        ("class << a; a; end\nbegin; rescue => e; e; end", ["a:", "a:"]),
    ],
)
def test_calls(text: str, expected: list[str]) -> None:
    found = [
        "." * one.is_method + f"{one.name}:{text[one.arguments_start : one.arguments_end]}"
        for one in RUBY.calls(text)
    ]
    assert found == expected


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_relations(text: str, expected: list[str]) -> None:
    relates("ruby", text, expected)


@pytest.mark.parametrize(("text", "expected"), CHILDREN)
def test_children(text: str, expected: list[str]) -> None:
    relates_children("ruby", text, expected)


def test_metrics(item: Item) -> None:
    metrics = get_facet("ruby", "metrics", Metrics)
    # if, &&, elsif, one case, and one.
    assert metrics.complexity(item.text) == 5
    assert metrics.nesting_depth(item.text) == 3
    assert metrics.count_structures(item.text) == {"if": 2, "loop": 1, "switch": 1, "try": 0}
    assert metrics.operators(item.text) == ("=", "=", ">", "&&", "+=", "==")
    # def, do, if, elsif, next, end, end, case, when, then, return, else, end, end.
    assert metrics.keywords(item.text) == 14
    assert metrics.patterns(item.text)["if_in_loop"] == 2
    assert metrics.patterns(item.text)["early_return"] == 1
    assert metrics.patterns("def f(n) = n > 0 ? f(n - 1) : self.f(1)")["recursion"] == 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", 1),
        ("a unless b", 2),
        ("unless a then b else c end", 2),
        ("a while b", 2),
        ("begin; a; end until b or c", 3),
        ("a rescue b", 2),
        ("begin; a; rescue B; c; rescue D; e; ensure; f; end", 3),
        ("case a; in B if c; in D unless e; else; f; end", 5),
        ("a ||= b && c", 3),
        ("a.each { |x| b if x }; def g; c if d; end", 2),
        ("a ? b : c", 2),
        ("for a in b; end; loop { break if c }", 3),
    ],
)
def test_decisions(body: str, expected: int) -> None:
    assert get_facet("ruby", "metrics", Metrics).complexity(f"def f; {body}; end") == expected


def test_what_follows_a_heredoc_ends_the_method() -> None:
    metrics = get_facet("ruby", "metrics", Metrics)
    assert metrics.patterns("def f\n  return <<~A\n    b\n  A\nend")["early_return"] == 0
    assert metrics.patterns("def f\n  return <<~A\n    b\n  A\n  c\nend")["early_return"] == 1


def test_variables_and_their_misuse(item: Item) -> None:
    flow, bugs = get_facet("ruby", "flow", Flow), get_facet("ruby", "misuse", BugSites)
    assert {one.name: one.kind for one in flow.variables(item.text)} == {
        **dict.fromkeys(("items", "least", "item"), "parameter"),
        **dict.fromkeys(("sum", "n"), "local"),
    }
    assert bugs.variables(item.text).names == ("item", "items", "least", "n", "sum")
    uses = bugs.variables(item.text).uses
    # `label` is a call, `sum += n` reads one name.
    assert [one.surface for one in uses] == ["items", "item", "n", "least", "n", "n", "sum", "sum", "sum"]
    assert bugs.replacements(item.text, uses[2]) == ("item", "items", "least", "sum")
    # Seen before its block only where it is assigned there.
    assert bugs.replacements(item.text, uses[-1]) == ("items", "least")
    pairs = {
        (one.name, two.name)
        for first, second in flow.dependencies(item.text)
        for one, two in [(flow.variables(item.text)[first], flow.variables(item.text)[second])]
    }
    assert pairs == {
        ("item", "items"),
        ("n", "item"),
        ("n", "items"),
        ("sum", "n"),
        ("sum", "item"),
        ("sum", "items"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A block writes what stands before it and else has a variable of its own, once for each block.
        ("def f; x = 1; g { x = 2 }; x; end", {"x": [3]}),
        ("def f; g { x = 2; x }; g { x = 3 }; x; end", {"x": [2, 1]}),
        ("def f(x) = g { |x; y| y = x }", {"x": [1, 2], "y": [2]}),
        ("def f; @a, (b, *c), d.e = g; b; c; end", {"b": [2], "c": [2]}),
        ("def f; case g; in {x:, y: [z, *w]} then x + z + w; end; end", {"x": [2], "z": [2], "w": [2]}),
        ("def f(x:, **o) = g(x:, **o)", {"x": [2], "o": [2]}),
        ("def f; x = 1; class << self; x; end; end", {"x": [1]}),
        ("def f; x = 1 rescue y = 2; ->(z = x) { z }; end", {"x": [2], "y": [1], "z": [2]}),
        ("def f; h = <<~T; x = 1\n  #{h}\nT\nend", {"h": [2], "x": [1]}),
    ],
)
def test_places_of_variables(text: str, expected: dict[str, list[int]]) -> None:
    found: dict[str, list[int]] = {}
    for one in get_facet("ruby", "flow", Flow).variables(text):
        found.setdefault(one.name, []).append(len(one.places))
    assert found == expected


@pytest.mark.parametrize("name", ["variable_misuse", "wrong_operator", "swapped_operand"])
def test_bugs_are_put_in(item: Item, name: str) -> None:
    puts_a_bug_in(name, item, item.text)


@pytest.mark.parametrize(
    "name", ["typ", "rea", "jbl", "jmb", "jft", "sri", "srk", "sck", "jbl_parsed", "jst"]
)
def test_faults_are_put_in(item: Item, name: str) -> None:
    text = item.text.replace("sum = 0", "sum = Integer || String")
    puts_a_fault_in(name, "ruby", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def x; @x; end", True),
        ("def x() = @x", True),
        ("def x=(x); @x = x; end", True),
        ("def x; @x + 1; end", False),
        ("def x=(x); @x = x; @y = x; end", False),
    ],
)
def test_getters_and_setters(text: str, expected: bool) -> None:
    assert get_facet("ruby", "edits", Edits).is_accessor(text) is expected


def test_classes_of_tokens(item: Item) -> None:
    tagging = get_facet("ruby", "tagging", Tagger)
    text = item.text.replace("sum = 0", "sum = Integer(x)")
    found = {text[one.start : one.end]: one.label for one in tagging.keywords(text)}
    expected = {"if": "KFC", "=": "OAS", "&&": "OLB", "==": "ORE", "Integer": "KPT", "|": "SYM", "def": "KMD"}
    assert {word: found[word] for word in expected} == expected
    names = {CODE[one.start : one.end]: one.label for one in tagging.identifiers(CODE)}
    expected = {
        **dict.fromkeys(("Till", "Base", "Random"), "IDC"),
        **dict.fromkeys(("total", "total=", "==", "size", "rand", "scale", "format"), "IDM"),
        **dict.fromkeys(("sum", "@ok", "least"), "IDV"),
        **dict.fromkeys(("label", "attr_reader", "open"), "IDM"),
        **dict.fromkeys(("Shop", "Store"), "IDP"),
    }
    assert {word: names[word] for word in expected} == expected
    text = "def f; string = self; A.new(:a, 1); end"
    both = {text[one.start : one.end]: one.label for one in tagging.nodes(text)}
    expected = {"string": "IDV", "self": "KOB", "new": "KOB", ":a": "STR", "1": "NUM", "def": "KMD"}
    assert {word: both[word] for word in expected} == expected
    assert tagging.imports(CODE) == 'require "set"'
    tables = tagging
    reachable = {*tables.classes.values(), *tables.words.values()}
    assert reachable == set(KTX_CLASSES)
    assert reachable | set(tables.extra_classes.values()) | set(IDN_CLASSES) == set(AST_CLASSES)


def test_constructs() -> None:
    text = 'def f\n  raise A, "no" if x\n  return y\nrescue A\n  retry\nend'
    found = {(one.label, text[one.start : one.end]) for one in RUBY.constructs(RUBY.parse(text))}
    assert {
        *(("raise", 'raise A, "no"'), ("condition", "x"), ("branch", 'raise A, "no" if x')),
        *(("string", '"no"'), ("exception_handling", "rescue A\n  retry"), ("jump", "retry")),
        ("return", "return y"),
    } <= found


def test_program_tokens_and_back(item: Item) -> None:
    comes_back_from_program_tokens("ruby", item.text, "grows")


def test_calls_go_into_the_repository_and_out_of_it(item: Item) -> None:
    defined = RUBY.definitions("def scale(n, by) = n * by\n")
    known = {"r": Repository({"scale": (("b.rb", defined[0]),)})}
    rows = TASKS.load("call_origin").label([item], known)["i"]
    assert sorted(rows.filter(part="name").select("name", "label").iter_rows()) == [
        *(("each", "external"), ("format", "builtin"), ("label", "external"), ("rand", "external")),
        *(("scale", "internal"), ("size", "external")),
    ]
    # What is called without arguments has none to label.
    assert set(rows.filter(part="arguments")["name"]) == {"format", "scale"}


def test_what_ruby_cannot_have() -> None:
    # Each with its reason in `language.toml`.
    assert not any(has_facet("ruby", facet) for facet in ("npath", "imports", "deprecations"))
    assert get_facet("ruby", "bugs", BugSites).exceptions == ()
    assert set(get_unsupported_tasks("ruby")) == {
        *("npt", "exception_type", "api_cloze", "api_fakes", "api_names", "api_prompts", "api_deprecated"),
    }


ODD = [
    "",
    "def π(世界, *) = 世界 # 🎉",
    "def f(...) = g(...)\ndef g(*, **, &) = nil",
    "BEGIN { x }\nEND { y }\nundef a, :b\nalias $c $d\nalias e= f=",
    "puts <<A, <<~'B'\n#{x}\nA\n  y #{\nB\n",
    "x = if a then b else c end\ny = (1; 2)\nz = begin 1 end while false",
    'p ?a, ?\\n, %q(a(b)c), %w[a #{b}], %i(c d), :"e f", `g`, %r{h}i, /#{i}/x, 1_000r, 2i, 0b1',
    "case [1, [2]]\nin Integer | Float => a, [b, *] if a > b then c\nin {x: ^y, **nil} unless z\nin ..5\nend",
    "->(a, b = 1, *c, d:, e: 2, **f, &g) do a.() end.(1) { |(h, i), *j; k| }\r\n",
    "class A::B < Struct.new(:a); def `(c) = c; def +@ = self; def []=(k, v); end; end\n__END__\n{ ( é",
]
BROKEN = [
    "def",
    "def f(",
    "def f; if x; end",
    "def f; x = ; end",
    "def f; (1 + ; end",
    'def f; "a #{b',
    "def f; <<A\n",
    "def f; end }",
    "class a; def f; case; in; end",
    "end\ndef f; x.each { |y end",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_code_is_read_whole(text: str, check: Check) -> None:
    reads_whole("ruby", text, check)


@pytest.mark.parametrize("text", BROKEN)
def test_broken_code_is_told(text: str, check: Check) -> None:
    says_that_it_is_broken("ruby", text, check)
