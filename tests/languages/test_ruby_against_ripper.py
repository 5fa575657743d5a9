"""Ruby's own library, read by sonde, by Ruby's own parser (Ripper, which only parses) and by lizard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import lizard
import pytest
from tests.languages.test_ruby import BROKEN, CASES, CHILDREN, ODD

from sonde.corpora import Item
from sonde.languages import LANGUAGES, TOKEN_KINDS, get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.relations import Relations
from sonde.languages.engine.text import EncodedText
from sonde.tasks.engine.bugs import BugTask, make_choice
from sonde.tasks.engine.task import TASKS

RUBY = LANGUAGES.load("ruby")
REFEREE = Path(__file__).with_name("ruby_referee.rb")
FILES = sorted(Path("/usr/lib/ruby").rglob("*.rb"))[::6]

pytestmark = [
    pytest.mark.skipif(shutil.which("ruby") is None, reason="no Ruby to ask (Debian: ruby)"),
    pytest.mark.skipif(len(FILES) < 100, reason="no library of Ruby (Debian: libruby, rubygems)"),
]


def asked(texts: Sequence[str]) -> list[dict[str, Any]]:
    """What Ripper finds in each text."""
    lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
    told = subprocess.run(
        ["ruby", "--disable-gems", str(REFEREE)], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in told.stdout.splitlines()]


@cache
def corpus() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Texts of the library, with what Ripper finds in each."""
    texts = [text for text in (file.read_text("utf-8", "replace") for file in FILES) if "\ufffd" not in text]
    found = [(text, told) for text, told in zip(texts, asked(texts), strict=True) if told["valid"]]
    read = [(text, told) for text, told in found if not RUBY.parse(text).has_error]
    # Of the 1,455 files of Ruby 3.1 the grammar refuses one.
    assert len(read) > 200 and len(read) >= len(found) - 1
    return tuple(read)


def places(text: str) -> Callable[[int, int], int]:
    """From a line and a byte in it to the character of the text."""
    source = EncodedText.of(text)
    begins = list(accumulate((len(line) + 1 for line in source.data.split(b"\n")), initial=0))

    def at(line: int, byte: int) -> int:
        return source.to_character(begins[line - 1] + byte)

    return at


@pytest.mark.slow
def test_functions_are_those_of_ripper() -> None:
    count = 0
    for text, told in corpus():
        at = places(text)
        theirs = [(name, at(line, byte)) for name, line, byte in told["functions"]]
        named = {one.start for one in RUBY.definitions(text) if one.kind != "class"}
        mine = [
            (one.name, next(at for at in sorted(named) if at > one.start)) for one in RUBY.functions(text)
        ]
        assert mine == sorted(theirs, key=lambda one: one[1])
        count += len(mine)
    assert count > 2_500


def test_calls_are_those_of_ripper() -> None:
    """Names without arguments included, which are calls where they mean no variable.

    Ripper forgets what `{name:}` binds in a pattern and takes it for a call later on.
    """
    count, forgotten = 0, 0
    for text, told in corpus():
        at = places(text)
        theirs = {(name, at(line, byte), method) for name, line, byte, method in told["calls"]}
        mine = {(one.name, one.start, one.is_method) for one in RUBY.calls(text)}
        assert mine <= theirs
        for name, _, method in theirs - mine:
            assert not method and re.search(rf"[{{,]\s*{name}:\s*[,}}]", text)
            forgotten += 1
        count += len(mine)
    assert count > 15_000 and forgotten <= count // 500


KINDS = {
    **dict.fromkeys(("on_ident", "on_const", "on_ivar", "on_cvar", "on_gvar", "on_backref"), "identifier"),
    "on_kw": "keyword",
    "on_comment": "comment",
    "on_label": "identifier",
    "on_CHAR": "literal",
    **dict.fromkeys(("on_int", "on_float", "on_rational", "on_imaginary"), "literal"),
    "on_op": "operator",
    "on_heredoc_beg": "literal",
}
"""What each kind of Ripper's tokens is here."""

LITERAL_WORDS = {"nil", "true", "false"}
SIGNS = {"=>", "::", "|", "<", "=", "*", "&", "**", "&.", "<<", "...", "->", "^"}
"""Operators to Ripper, which may operate on nothing."""


def test_tokens_are_those_of_ripper() -> None:
    count = Counter[str]()
    for text, told in corpus():
        at = places(text)
        tree = RUBY.parse(text)
        tokens = RUBY.tokens(tree)
        columns = zip(tokens.start.tolist(), tokens.end.tolist(), tokens.kind.tolist(), strict=True)
        mine = {start: (TOKEN_KINDS[kind], text[start:end]) for start, end, kind in columns}
        before, named = "", ""
        for kind, line, byte, spelling in told["tokens"]:
            if kind in KINDS and before != "on_symbeg":
                found = mine.pop(at(line, byte), ("", ""))
                # A reserved word may be the name of a method.
                if (
                    kind != "on_kw"
                    or named not in ("def", ".", "alias", "undef")
                    or found != ("identifier", spelling)
                ):
                    assert found in list(allowed(kind, spelling.rstrip("\r\n"))), (kind, spelling, found)
                count[kind] += 1
            before, named = kind, named if kind == "on_sp" else spelling
        # What is more is part of a token of theirs: the sign of a setter's name, a symbol, what is no code.
        for kind, spelling in mine.values():
            assert kind in ("literal", "punctuation", "layout") or spelling == "=" or "\n" in spelling
    assert count["on_ident"] > 20_000 and count["on_kw"] > 10_000 and count["on_comment"] > 5_000


def allowed(kind: str, spelling: str) -> Iterator[tuple[str, str]]:
    """What a token of Ripper's may be here: mostly one thing."""
    if kind == "on_label":
        yield "identifier", spelling.removesuffix(":")
        return
    if kind == "on_kw" and spelling in LITERAL_WORDS:
        yield "literal", spelling
        return
    # A sign of a literal is one in the grammar.
    if kind in ("on_rational", "on_imaginary", "on_int", "on_float"):
        yield "literal", re.sub(r"(ri|r|i)$", "", spelling)
        return
    yield KINDS[kind], spelling
    if kind == "on_op" and spelling in SIGNS:
        yield "punctuation", spelling
    # A method may be called by a sign; the grammar takes `__FILE__` for a name now and then.
    if kind == "on_op" or spelling.startswith("__"):
        yield "identifier", spelling


CONSTRUCTS = {
    "If:if->test": ["if", "elsif"],
    "Unless:unless->test": ["unless"],
    "While:while->test": ["while"],
    "Until:until->test": ["until"],
    "For:for->iter": ["for"],
    "IfModifier:body->test": ["if_mod"],
    "UnlessModifier:body->test": ["unless_mod"],
    "WhileModifier:body->test": ["while_mod"],
    "UntilModifier:body->test": ["until_mod"],
    "RescueModifier:body->handler": ["rescue_mod"],
    "IfExp:test->body": ["ifop"],
    "Assign:target->value": ["assign", "massign"],
    "AugAssign:target->value": ["opassign"],
    "InfixExpr:left->right": ["binary"],
    "Range:lower->upper": ["dot2_whole", "dot3_whole"],
    "Switch:switch->expr": ["case_whole"],
    "Dict:key->value": ["assoc_new_whole"],
    "Subscript:value->slice": ["aref_whole", "aref_field_whole"],
    "Attribute:value->attr": ["call", "command_call", "field", "const_path_ref", "const_path_field"],
}
"""Relations that a construct has once, with Ripper's names of it."""


@pytest.mark.slow
def test_constructs_are_as_many_as_those_of_ripper() -> None:
    total: Counter[str] = Counter()
    for text, told in corpus():
        # A head is never the first word of a text.
        related = get_facet("ruby", "relations", Relations).relate("nil\n" + text)
        mine = Counter(edge.relation for edge in related.edges)
        theirs = {
            name: sum(told["counts"].get(kind, 0) for kind in kinds) for name, kinds in CONSTRUCTS.items()
        }
        assert {name: mine[name] for name in CONSTRUCTS} == theirs
        total.update(theirs)
    assert total.total() > 20_000 and min(total.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["variable_misuse", "wrong_operator", "swapped_operand"])
def test_what_bugs_are_put_into_is_still_ruby(name: str) -> None:
    task, bugs = TASKS.load(name), get_facet("ruby", "bugs", BugSites)
    assert isinstance(task, BugTask)
    changed: list[str] = []
    for text, _ in corpus():
        for function in RUBY.functions(text):
            own = function.slice_from(text)
            item = Item(f"i{len(changed)}", own, "ruby", "function", "a.rb", "f", 0, "c", "r")
            changed += [one.text for one in task.variants(own, bugs, make_choice(0, item))[1:]]
    assert len(changed) > 100
    assert [text for text, told in zip(changed, asked(changed), strict=True) if not told["valid"]] == []


def test_cases_are_ruby_and_broken_ones_are_not() -> None:
    valid = [*ODD, *(text for text, _ in CASES + CHILDREN)]
    assert [text for text, told in zip(valid, asked(valid), strict=True) if not told["valid"]] == []
    assert [text for text, told in zip(BROKEN, asked(BROKEN), strict=True) if told["valid"]] == []


def test_complexity_and_length_against_lizard() -> None:
    """lizard counts `ensure` and neither `unless` nor `in`.

    It takes an `end` for that of the method where a `case`, a class or an `if` that is a value opens before,
    reads `<<` and `?x` wrong, and behind a method that it lost its way in finds none.
    """
    metrics = get_facet("ruby", "metrics", Metrics)
    lost = re.compile(r"\b(case|class|module)\b|[=(\[,&|]\s*(if|unless|while|until)\b|return if|<<|\?.")
    compared, other = 0, []
    for text, _ in corpus():
        theirs = {
            one.start_line: one for one in lizard.analyze_file.analyze_source_code("a.rb", text).function_list
        }
        for function in RUBY.functions(text):
            own = function.slice_from(text)
            if lost.search(own):
                continue
            line = text.count("\n", 0, function.start) + 1
            one = theirs.get(line)
            compared += 1
            mine = metrics.complexity(own), text.count("\n", 0, function.end) + 1
            if one is None or (one.cyclomatic_complexity + _more(metrics, own), one.end_line) != mine:
                other.append((function.qualified_name, line))
    assert compared > 1_500
    assert len(other) <= compared // 25, other


def _more(metrics: Metrics, own: str) -> int:
    """How many decisions a function has beyond those that lizard counts."""
    words: Mapping[tuple[str, str], int] = Counter((leaf.kind, leaf.parent) for leaf in metrics.leaves(own))
    count = sum(number for (kind, _), number in words.items() if kind == "unless")
    return count + words["in", "in_clause"] - words["ensure", "ensure"]
