"""PHP: what is found in its code, by hand and against PHP, PHP-Parser and lizard, odd and broken code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import lizard
import pytest
from tests.languages.by_hand import (
    Check,
    comes_back_from_program_tokens,
    puts_a_bug_in,
    reads_whole,
    relates,
    relates_children,
    says_that_it_is_broken,
)
from tests.languages.php_relations import CASES, CHILDREN

from sonde.corpora import Item
from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.imports import ImportReader
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.relations import Relations
from sonde.languages.engine.tagging import AST_CLASSES, IDN_CLASSES, KTX_CLASSES, Tagger
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.tasks import Repository, get_languages
from sonde.tasks.engine.bugs import BugTask, make_choice
from sonde.tasks.engine.cloze_statements import make_aliased_statement, make_plain_statement
from sonde.tasks.engine.faults import FaultContext, Mutation
from sonde.tasks.engine.task import TASKS

PHP = LANGUAGES.load("php")

CODE = r"""<?php
namespace App\Store;

use Psr\Log\LoggerInterface as Log;

/** Not of first. */

$x = 1;
function first() { return function () { documented(); }; }

/* Left alone. */
abstract class Store extends Base
{
    /**
     * Adds
     * what is large.
     *
     * @return int
     */
    // Still documented.
    #[Pure]
    public static function total(array $items, int $least = 0, ?Log &...$logs): int
    {
        $sum = 0;
        foreach ($items as $name => $item) {
            $n = $item->size();
            if ($n > $least && $item?->ok) {
                $sum += $n; // grows
            } elseif ($n === 0) {
                continue;
            }
        }
        switch ($sum) {
            case 0:
                throw new \LogicException("none {$name} $least");
            default:
                scale($sum, self::times((string) $n));
        }
        return $sum;
    }

    abstract protected function size();
}

interface Sized { function size(): int; }
trait Counts { private function count() { return new class { function inner() {} }; } }
enum Suit: string { case A = 'a'; public function label() { return Str::title($this->value); } }
"""


@pytest.fixture
def item() -> Item:
    function = next(one for one in PHP.functions(CODE) if one.name == "total")
    return Item("i", function.slice_from(CODE), "php", "function", "a.php", "total", 0, "c", "r")


def test_functions_and_what_documents_them(item: Item) -> None:
    assert [(one.qualified_name, one.docstring) for one in PHP.functions(CODE)] == [
        ("first", ""),
        ("Store.total", "Adds\nwhat is large.\n\n@return int"),
        *(("Counts.count", ""), ("Suit.label", "")),
    ]
    assert [(one.name, one.kind) for one in PHP.definitions(CODE)] == [
        *(("first", "function"), ("Store", "class"), ("total", "method"), ("size", "method")),
        *(
            ("Sized", "class"),
            ("size", "method"),
            ("Counts", "class"),
            ("count", "method"),
            ("inner", "method"),
        ),
        *(("Suit", "class"), ("label", "method")),
    ]
    assert [(one.name, one.is_method) for one in PHP.calls(CODE)] == [
        *(
            ("documented", False),
            ("size", True),
            ("LogicException", False),
            ("scale", False),
            ("times", True),
        ),
        ("title", True),
    ]
    assert item.text.startswith("#[Pure]\n    public static function total(")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("function f() {}", ["function_definition"]),
        ("public function f() {}", ["method_declaration"]),
        ("<?php f();", ["php_tag", "expression_statement"]),
        ("<b><?= $x ?> c", ["text", "php_tag", "expression_statement", "text_interpolation"]),
        ("Dear <?= $x ?>", ["text", "php_tag", "expression_statement", "text_interpolation"]),
        ("#!/usr/bin/php\n<?php f();", ["text", "php_tag", "expression_statement"]),
        ("function f() { ?> a <?php }", ["function_definition"]),
        ("return '<?php f();';", ["return_statement"]),
        ("<<<X\n<?= $x ?>\nX;", ["expression_statement"]),
        ("<p>No code.</p>", ["text"]),
        ("", []),
    ],
)
def test_a_text_begins_in_php_or_in_html(text: str, kinds: list[str]) -> None:
    tree = PHP.parse(text)
    assert not tree.has_error
    under = [row for row in range(1, len(tree)) if tree.parent[row] == 0 and tree.named[row]]
    # What was read before a text takes no place in it.
    assert [tree.kind_name(row) for row in under if tree.end[row] > tree.start[row]] == kinds


def test_what_leaves_its_class_is_no_member() -> None:
    assert PHP.parse("} function f() {").has_error
    assert PHP.parse("public function f() {} } class B {").has_error


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_relations(text: str, expected: list[str]) -> None:
    relates("php", text, expected)


@pytest.mark.parametrize(("text", "expected"), CHILDREN)
def test_children(text: str, expected: list[str]) -> None:
    relates_children("php", text, expected)


def test_metrics(item: Item) -> None:
    metrics = get_facet("php", "metrics", Metrics)
    # foreach, if, &&, elseif, one case, and one.
    assert metrics.complexity(item.text) == 6
    assert metrics.nesting_depth(item.text) == 3
    assert metrics.count_structures(item.text) == {"if": 2, "loop": 1, "switch": 1, "try": 0}
    assert metrics.operators(item.text) == ("=", "=", ">", "&&", "+=", "===")
    assert metrics.patterns(item.text)["if_in_loop"] == 2
    assert metrics.patterns(item.text)["early_return"] == 0
    assert metrics.patterns("function f($n) { return f($n - 1); }")["recursion"] == 1
    assert metrics.patterns("private function f() { $this->f(); self::f(); $x->f(); }")["recursion"] == 2
    match = "function f() { return match ($x) { 1, 2 => $a ?: $b, 3 => $a or $b, default => $a ?? $b }; }"
    assert metrics.complexity(match) == 5
    assert metrics.operators(match) == ("?:", "or", "??")
    assert (
        metrics.nesting_depth("function f() { if ($x): while ($y): g(); endwhile; else: h(); endif; }") == 3
    )


LIBRARIES = Path("/usr/share/php")
INSTALLED = pytest.mark.skipif(
    not (LIBRARIES / "PhpParser").is_dir() or shutil.which("php") is None,
    reason="no PHP with libraries (Debian: php-pear, php-symfony-console, php-guzzlehttp-psr7, phpunit)",
)
SCRIPT = Path(__file__).parent / "php_referee.php"


def referee(texts: Sequence[str]) -> list[dict[str, Any]]:
    """What PHP says of texts; it ends at one that it refuses beyond its grammar, and goes on behind."""
    found: list[dict[str, Any]] = []
    while len(found) < len(texts):
        lines = "".join(json.dumps(text) + "\n" for text in texts[len(found) :])
        command = ["php", "-d", "display_errors=stderr", str(SCRIPT)]
        out = subprocess.run(command, input=lines, capture_output=True, text=True, check=False).stdout
        found += map(json.loads, out.splitlines())
        if len(found) < len(texts):
            found.append({"parses": False, "tokens": []})
    return found


@cache
def sources() -> tuple[tuple[Path, str], ...]:
    listed = ((path, path.read_bytes()) for path in sorted(LIBRARIES.rglob("*.php")))
    texts = [(path, data.decode()) for path, data in listed if data.isascii() or "Symfony" in path.parts]
    return tuple(one for one in texts if len(one[1]) < 60_000)


@cache
def told() -> list[dict[str, Any]]:
    return referee([text for _, text in sources()])


@INSTALLED
def test_tokens_functions_and_calls_against_php() -> None:
    assert isinstance(PHP, TreeSitterLanguage)
    counted, unparsed = Counter[str](), []
    for (path, text), theirs in zip(sources(), told(), strict=True):
        assert theirs["parses"]
        if PHP.parse(text).has_error:
            unparsed.append(path.name)
            continue
        assert [(leaf.start, leaf.end) for leaf in PHP.leaves(text)] == list(spans(theirs["tokens"])), path
        at = characters(text)
        found = [(site.name, site.start, site.end) for site in PHP._sites(text)[0] if site.role == "function"]
        named = sorted((text[at[name[0]] : at[name[1]]], start, end) for name, start, end in found if name)
        assert named == sorted(tuple(row) for row in theirs["functions"]), path
        # A class made without arguments has none to stand for.
        calls = sorted(name for name, start, end in theirs["calls"] if made_with(text[at[start] : at[end]]))
        assert sorted(call.name for call in PHP.calls(text)) == calls, path
        counted.update(tokens=len(theirs["tokens"]), functions=len(named), calls=len(calls))
    assert counted["tokens"] > 500_000 and counted["functions"] > 5_000 and counted["calls"] > 15_000
    # `&new A`, which is no PHP since 7.
    assert len(unparsed) <= 2, unparsed


def made_with(call: str) -> bool:
    return not re.match(r"new\b", call, re.IGNORECASE) or call.endswith(")")


def characters(text: str) -> list[int]:
    """The character that each byte is in, and the end."""
    found = [place for place, character in enumerate(text) for _ in character.encode()]
    return [*found, len(text)]


def spans(tokens: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Where tokens begin and end: a string is one, names with a namespace and casts are several."""
    at, opened, closing = 0, -1, ""
    for name, text in tokens:
        start, at = at, at + len(text)
        if opened >= 0:
            if name == closing:
                yield opened, at
                opened = -1
        elif name in ('"', "`", "T_START_HEREDOC"):
            opened, closing = start, "T_END_HEREDOC" if name == "T_START_HEREDOC" else name
        elif name.startswith("T_NAME_") or name.endswith("_CAST"):
            yield from ((start + one.start(), start + one.end()) for one in re.finditer(r"\w+|[\\()]", text))
        elif name not in ("T_WHITESPACE", "T_COMMENT", "T_DOC_COMMENT"):
            tag = name in ("T_OPEN_TAG", "T_CLOSE_TAG")
            yield start, start + len(text.rstrip() if tag else text)


@INSTALLED
def test_relations_against_php_parser() -> None:
    facet = get_facet("php", "relations", Relations)
    alike, apart = Counter[str](), Counter[str]()
    for (_, text), theirs in zip(sources(), told(), strict=True):
        found = facet.relate(text)
        if found.problem:
            continue
        at = characters(text)
        listed = {
            (name, bare(text, at[head]), bare(text, at[end])) for name, head, end in theirs["relations"]
        }
        words, starts = found.words.surface, found.words.start.tolist()
        own = {
            (edge.relation, starts[edge.head], starts[edge.first])
            for edge in found.edges
            if edge.relation in COMPARED and (edge.relation != "Call:func->args" or named(words[edge.head]))
        }
        alike.update(name for name, _, _ in listed & own)
        apart.update(name for name, _, _ in listed ^ own)
    assert alike.keys() == set(COMPARED) and alike.total() > 50_000
    # It has no place of a sign for a reference, and comments stand behind brackets.
    assert apart.total() < alike.total() / 1000, apart


def named(word: str) -> bool:
    """Whether what is called is a function by name, and no word that the grammar takes for one."""
    return word.isidentifier() and word.lower() not in ("isset", "empty", "eval", "die")


def bare(text: str, place: int) -> int:
    """Where a node at a place begins without the brackets around it, unless they hold nothing."""
    while text[place] in "([{":
        inside = place + 1 + len(text[place + 1 :]) - len(text[place + 1 :].lstrip())
        if text[inside] in ")]}":
            break
        place = inside
    return place


COMPARED = (
    *("Assign:target->value", "Attribute:value->attr", "AugAssign:target->value", "Call:func->args"),
    *("Dict:key->value", "Do:body->test", "For:iter->body", "For:iter->target", "If:test->body"),
    *("If:test->orelse", "IfExp:body->orelse", "IfExp:test->body", "IfExp:test->orelse"),
    *("InfixExpr:left->right", "InstanceofExpr:expr->type", "Subscript:value->slice"),
    *("Switch:expr->statement", "Try:body->handler", "While:test->body"),
)


def functions() -> Iterator[tuple[Path, int, str]]:
    for path, text in sources():
        if not PHP.parse(text).has_error:
            for function in PHP.functions(text):
                yield path, function.start, function.slice_from(text)


# What lizard counts otherwise: closures apart, arms with arrays in them, `?int` as a decision; words as none.
OTHERWISE = re.compile(
    r"function.*\bfunction\b|\bmatch\b|<<<|\?[\w\\:]|\s(or|and)\s", re.DOTALL | re.IGNORECASE
)


@INSTALLED
def test_complexity_and_length_against_lizard() -> None:
    compared, other = 0, []
    metrics = get_facet("php", "metrics", Metrics)
    theirs: dict[Path, dict[int, Any]] = {}
    texts = dict(sources())
    for path, start, own in functions():
        text = texts[path]
        # A tag in a string leads lizard out of PHP.
        if "<?" in text[5:] or "?>" in text or OTHERWISE.search(own):
            continue
        if path not in theirs:
            listed = lizard.analyze_file.analyze_source_code("a.php", text).function_list
            theirs[path] = {one.start_line: one for one in listed}
        line = text.count("\n", 0, text.index("function", start)) + 1
        one = theirs[path].get(line)
        compared += 1
        mine = metrics.complexity(own), line + own.count("\n", own.index("function"))
        if one is None or (one.cyclomatic_complexity, one.end_line) != mine:
            other.append((path.name, line))
    assert compared > 4000
    assert len(other) <= compared // 200, other


VALID = (
    *("typ", "rea", "jbl_parsed", "jst", "jbk", "sri", "sra"),
    *("variable_misuse", "misuse_repair", "wrong_operator", "swapped_operand"),
)


@INSTALLED
def test_php_takes_what_is_said_to_parse() -> None:
    edits, bugs = get_facet("php", "edits", Edits), get_facet("php", "bugs", BugSites)
    draw = Random(1)
    texts = [text for _, _, text in functions() if 80 < len(text) < 2500]
    texts = draw.sample(texts, 250)
    changed = [("as written", text) for text in texts]
    for name in (*VALID, "srk", "sck", "jbl", "jmb", "jft"):
        task = TASKS.load(name)
        if isinstance(task, BugTask):
            items = (
                Item(str(at), text, "php", "function", "a", "f", 0, "c", "r") for at, text in enumerate(texts)
            )
            variants = (task.variants(one.text, bugs, make_choice(0, one)) for one in items)
            changed += [(name, right.text) for found in variants for right in found[1:]]
        else:
            assert isinstance(task, Mutation)
            around = FaultContext(edits, "train", task.survey(texts, edits))
            faults = (task.fault(text, around, draw) for text in texts)
            changed += [(name, fault.text) for fault in faults if fault is not None]
    judged = referee(["<?php class _ {\n" + text + "\n}" for _, text in changed])
    alike, apart = Counter[str](), Counter[str]()
    for (name, text), theirs in zip(changed, judged, strict=True):
        (alike if edits.parses(text) == theirs["parses"] else apart)[name] += 1
    assert not set(apart) & {"as written", *VALID}
    assert all(alike[name] > 10 for name in VALID)
    # The grammar takes some keywords in places where PHP has none.
    assert apart.total() < alike.total() / 100


@INSTALLED
def test_what_php_provides() -> None:
    code = """foreach (explode(' ', 'Core date hash json pcre random Reflection SPL standard') as $name) {
        $one = new ReflectionExtension($name);
        echo implode(' ', array_keys($one->getFunctions() + $one->getClasses())), ' ';
    }"""
    out = subprocess.run(["php", "-r", code], capture_output=True, text=True, check=True).stdout
    theirs = {name for name in out.split() if "\\" not in name}
    # Versions differ by a few.
    assert len(theirs ^ PHP.builtins) < 40


def test_variables_and_their_misuse(item: Item) -> None:
    flow, bugs = get_facet("php", "flow", Flow), get_facet("php", "misuse", BugSites)
    assert {one.name: one.kind for one in flow.variables(item.text)} == {
        **dict.fromkeys(("$items", "$least", "$logs"), "parameter"),
        **dict.fromkeys(("$sum", "$name", "$item", "$n"), "local"),
    }
    assert bugs.variables(item.text).names == ("$item", "$items", "$least", "$logs", "$n", "$name", "$sum")
    use = next(one for one in bugs.variables(item.text).uses if one.surface == "$n")
    assert bugs.replacements(item.text, use) == ("$item", "$items", "$least", "$logs", "$name", "$sum")
    # Neither the object nor a property is a variable, nor what stands in a string a place of a misuse.
    text = 'public function f($a) { $this->a = self::$b; [$c, $a => $d] = $$a; echo "$c"; global $e; }'
    assert bugs.variables(text).names == ("$a", "$c", "$d")
    assert [one.surface for one in bugs.variables(text).uses] == ["$a", "$a"]
    text = "$b = function ($x) use ($a) { $y = $a; return $y; }; $c = fn($z) => $z . $b; static $d = 1;"
    text = f"function f($a) {{ {text} }}"
    found = flow.variables(text)
    places = {one.name: len(one.places) for one in found}
    assert places == {"$a": 3, "$b": 2, "$x": 1, "$y": 2, "$c": 1, "$z": 2, "$d": 1}
    pairs = {(found[one].name, found[two].name) for one, two in flow.dependencies(text)}
    assert {("$y", "$a"), ("$c", "$b"), ("$c", "$z")} <= pairs and ("$b", "$c") not in pairs


@pytest.mark.parametrize("name", ["variable_misuse", "wrong_operator", "swapped_operand"])
def test_bugs_are_put_in(item: Item, name: str) -> None:
    puts_a_bug_in(name, item, item.text)


def test_caught_exceptions() -> None:
    bugs = get_facet("php", "bugs", BugSites)
    text = (
        "function f() { try {} catch (\\RuntimeException | TypeError | A\\Own $e) {} catch (Exception) {} }"
    )
    assert [one.surface for one in bugs.caught_exceptions(text)] == ["RuntimeException", "TypeError"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("public function x(): int { return $this->x; }", True),
        ("public function x() { return 'x'; }", True),
        ("public function setX($x) { $this->x = $x; return $this; }", True),
        ("public function x() { return $this->x + 1; }", False),
        ("public function setX($x) { $this->x = $x; $this->y = $x; }", False),
    ],
)
def test_getters_and_setters(text: str, expected: bool) -> None:
    assert get_facet("php", "edits", Edits).is_accessor(text) is expected


@pytest.mark.parametrize(
    "text", ["$x = return;", "else;", "static public static $x;", "f(public);", "$class->for = A::while();"]
)
def test_a_reserved_word_is_no_name_but_a_member_s(text: str) -> None:
    assert get_facet("php", "edits", Edits).parses(text) is text.startswith("$class")


def test_classes_of_tokens(item: Item) -> None:
    tagging = get_facet("php", "tagging", Tagger)
    found = {item.text[one.start : one.end]: one.label for one in tagging.keywords(item.text)}
    expected = {
        "foreach": "KFC",
        "=": "OAS",
        "&&": "OLB",
        "===": "ORE",
        "int": "KPT",
        "->": "SYM",
        "as": "KFC",
    }
    expected |= {"throw": "KEH", "public": "KMD", "string": "KPT", "&": "SYM", "?": "SYM"}
    assert {word: found[word] for word in expected} == expected
    text = "use A\\B as C; function f(self $x) { return new \\D\\E(h($x)) . $this->k(G::I); }"
    names = {text[one.start : one.end]: one.label for one in tagging.nodes(text)}
    expected = {
        "A": "IDP",
        "B": "IDC",
        "C": "IDC",
        "f": "IDM",
        "$x": "IDV",
        "D": "IDP",
        "E": "IDC",
        "h": "IDM",
    }
    expected |= {"self": "KOB", "$this": "KOB", "k": "IDM", "G": "IDC", "I": "IDV"}
    assert {word: names[word] for word in expected} == expected
    tables = tagging
    reachable = {*tables.classes.values(), *tables.words.values()}
    assert reachable == set(KTX_CLASSES)
    assert reachable | set(tables.extra_classes.values()) | set(IDN_CLASSES) == set(AST_CLASSES)


def test_constructs() -> None:
    text = 'private function f() { if ($x): throw new E("no"); endif; return; }'
    found = {(one.label, text[one.start : one.end]) for one in PHP.constructs(PHP.parse(text))}
    assert {
        ("function", text),
        *(
            ("raise", 'throw new E("no")'),
            ("condition", "($x)"),
            ("body", ': throw new E("no");'),
            ("string", '"no"'),
        ),
    } <= found
    assert not {"class", "error"} & {label for label, _ in found}


def test_program_tokens_and_back(item: Item) -> None:
    comes_back_from_program_tokens("php", item.text, "grows")


def test_calls_go_into_the_repository_and_out_of_it(item: Item) -> None:
    (defined,) = PHP.definitions("<?php function scale($n, $by) { return strlen($n) * $by; }\n")
    known = {"r": Repository({"scale": (("b.php", defined),)})}
    rows = TASKS.load("call_origin").label([item], known)["i"].filter(part="name")
    assert sorted(zip(rows["name"], rows["label"], strict=True)) == [
        *(("LogicException", "builtin"), ("scale", "internal"), ("size", "external"), ("times", "external")),
    ]


IMPORTING = r"""<?php
use A\B\C, D as E; use function F\g; use const Q\R; use G\{H, I\J as K, function l};
C::f(1); new C(2); E::h(); new E\S(3); g(4); \A\B\C::z(); K::m(); l(); H\q(1); self::v(); strlen(1); $E->n();
"""


def test_imports_and_the_calls_through_them() -> None:
    found = get_facet("php", "imports", ImportReader).read(IMPORTING)
    assert [(one.bound, one.name, one.member, one.alias) for one in found.imports] == [
        *(("C", "A.B.C", False, ""), ("E", "D", False, "E"), ("g", "F.g", True, ""), ("H", "G.H", False, "")),
        *(("K", "G.I.J", False, "K"), ("l", "G.l", True, "")),
    ]
    assert [(one.name, one.kind, IMPORTING[one.start : one.end]) for one in found.calls] == [
        *(
            ("A.B.C.f", "call", "C::f"),
            ("A.B.C", "new", "C"),
            ("D.h", "call", "E::h"),
            ("D.S", "new", r"E\S"),
        ),
        *(("F.g", "function", "g"), ("G.I.J.m", "call", "K::m"), ("G.l", "function", "l")),
        ("G.H.q", "function", r"H\q"),
    ]
    call, made = (get_facet("php", "imports", ImportReader).templates[kind] for kind in ("call", "new"))
    assert make_plain_statement(call["call"], ("A", "B", "f")).text == r"\A\B::f("
    assert (
        make_plain_statement(call["import"], ("A", "B", "f")).text
        == make_plain_statement(made["import"], ("A", "B")).text
        == r"use A\B;"
    )
    assert make_aliased_statement(call["alias"], ("A", "B", "f"), 2, "C").text == "use A\\B as C;\nC::f("


def test_what_php_cannot_have() -> None:
    # Each with its reason in `language.toml`.
    assert not any(has_facet("php", facet) for facet in ("npath", "deprecations"))
    lacks = {name for name in TASKS.names() if "php" not in get_languages(TASKS.load(name))}
    assert lacks == {"npt"}


ODD = [
    "<?php",
    "<html>\n<?php if ($a): ?>\r\n<b>é</b><?php elseif ($b): ?> 🎉 <? endif ?>",
    "<?php function &f(): static { return $this?->{'a' . $b}[0]::C::${'d'}; }",
    "function f() { $$a->$b(...)[1] = <<<'X'\n  $no {$no}\n  X . <<<\"Y\"\n\\x41 ${a} {$b['c']}\nY; }",
    "function f(self|null $a, A&B $b, int ...$c): never { exit; }",
    "#[A, B(1)] #[C] final protected static function class(private readonly ?int $x = 1) { parent::as(); }",
    "class π { use A, B { A::f insteadof B; B::f as private g; } const ƒ = 1; public $x = ['a' => [1,],]; }",
    "function f() { a: goto a; declare(ticks=1) { ; } list(, list($b)) = $c; unset($b,); /* é */ // 🎉\r\n }",
    "function f() { return static fn(int &$x = PHP_INT_MAX): ?int => yield $x => 1_000 <=> 0b11 ** .5e-3; }",
    "function f() { switch ($a): case 1; default: ?> <?= 'x' ?> <?php endswitch; while (1): endwhile; }",
    "enum E: int implements I { case A = 1; const C = self::A; static function f() { return match(1) {}; } }",
]
BROKEN = [
    "function",
    "function (",
    "function f( {",
    "public function f() { if ($a) { } else",
    "function f() { $x = ; }",
    "private static public function () {}",
    'function f() { "$a {$b',
    "function f() { return <<<X\n abc",
    "function f() } {",
    "<?php namespace; use ; case 1: }}",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_code_is_read_whole(text: str, check: Check) -> None:
    reads_whole("php", text, check)


@pytest.mark.parametrize("text", BROKEN)
def test_broken_code_is_told(text: str, check: Check) -> None:
    says_that_it_is_broken("php", text, check)


def test_what_use_imports_has_the_kind_that_the_statement_says() -> None:
    text = (
        "<?php use function A\\x, A\\y as z; use const B\\C, B\\D as E; use F\\G, F\\H as I;"
        " use J\\{function k, const L, M as N, O\\P}; use function Q\\{r, s as t}; y(); z(); t(); I::f();"
    )
    tags = get_facet("php", "tagging", Tagger).identifiers(text)
    found = {text[tag.start : tag.end]: tag.label for tag in tags}
    kinds = {"IDM": "xyzkrstf", "IDV": "CDEL", "IDC": "GHIMNP", "IDP": "ABFJOQ"}
    assert found == {name: kind for kind, names in kinds.items() for name in names}
    read = get_facet("php", "imports", ImportReader).read(text)
    assert {one.bound for one in read.imports if one.member} == set("xzkrt")
    assert [call.name for call in read.calls] == ["A.y", "Q.s", "F.H.f"]
