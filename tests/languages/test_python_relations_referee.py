"""Edges against plain implementations on `ast` and `tokenize`, one for each mode.

The paper's counts tokens of the text before a node and of the node's own text, as the published code does;
the other looks positions up.
"""

import ast
import io
import sys
import tokenize
from collections import defaultdict
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sonde.corpora import Selection, select
from sonde.languages import get_facet
from sonde.languages.engine.relations import RelationOptions, Relations

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="tokenize takes f-strings apart, words are those of Python 3.9"
)

WRITTEN = Path(__file__).with_name("python_relations.txt").read_text(encoding="utf-8")
SNIPPETS = dict(part.split("\n", 1) for part in WRITTEN.split("=== ")[1:])
SNIPPETS["windows"] = SNIPPETS["windows"].replace("\n", "\r\n")

Edges = dict[str, list[tuple[int, int, int]]]


def strings(code: str) -> list[str]:
    found: list[str] = []
    with suppress(tokenize.TokenError, IndentationError):
        found.extend(token.string for token in tokenize.generate_tokens(io.StringIO(code).readline))
    return found


def agreeing(left: list[str], right: list[str]) -> int:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return count


class Referee:
    """Counts tokens of the text before a node and of the node's own text, as the specification says."""

    def __init__(self, code: str, newlines: bool = False) -> None:
        self.code, self.newlines = code, newlines
        self.words = strings(code)
        self.found: Edges = defaultdict(list)
        self.first, self.last = cache(self.first), cache(self.last)  # type: ignore[method-assign]

    def before(self, node: Any) -> int:
        lines = self.code.split("\n")
        above = "\n".join(lines[: node.lineno - 1])
        return agreeing(self.words, strings(f"{above}\n{lines[node.lineno - 1][: node.col_offset]}__HERE__"))

    def first(self, node: Any) -> int:
        if isinstance(node, ast.comprehension):
            node = node.target
        place = self.before(node)
        while (
            self.words[place] in "([{" and self.words[place] and self.words[place + 1] not in (")", "]", "}")
        ):
            place += 1
        return place

    def last(self, node: Any) -> int:
        if isinstance(node, ast.comprehension):
            node = node.iter
        begin = self.before(node)
        own = ast.get_source_segment(self.code, node) or ""
        margin = self.code.split("\n")[node.lineno - 1][: node.col_offset]
        if margin.isspace():
            again = strings(margin + own)
            again = again[1:] if again[0].isspace() else again
        else:
            again = strings(own)
        end = begin + agreeing(self.words[begin:], again)
        if self.newlines and end < len(self.words) and self.words[end] == "\n":
            end += 1
        while self.words[end - 1] in (")", "]", "}"):
            end -= 1
        return end - 1

    def add(self, name: str, head: Any, first: Any, last: Any, *, head_last: bool = False) -> None:
        if head is None or first is None:
            return
        edge = (self.last(head) if head_last else self.first(head), self.first(first), self.last(last))
        if 0 < edge[0] < edge[1] <= edge[2]:
            self.found[name].append(edge)

    def attribute(self, node: Any) -> tuple[int, int]:
        return self.last(node), self.last(node)

    def end_of_orelse(self, orelse: list[ast.stmt]) -> ast.stmt:
        return orelse[0]

    def visit(self, node: Any) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                self.visit(statement)
            return
        self.own(node)
        for child in ast.iter_child_nodes(node):
            functions = (ast.FunctionDef, ast.AsyncFunctionDef)
            if hasattr(node, "lineno") and hasattr(child, "lineno") and not isinstance(child, functions):
                self.add("children:parent->child", node, child, child)
            self.visit(child)

    def own(self, node: Any) -> None:
        match node:
            case ast.If(test, body, orelse):
                if orelse:
                    for place in range(self.last(body[-1]) + 1, self.first(orelse[0]) + 1):
                        if self.words[place] in ("else", "elif"):
                            self.found["If:if->else"].append((self.first(node), place, place))
                            break
                    self.add("If:test->orelse", test, orelse[0], orelse[-1])
                    self.add("If:body->orelse", body[0], orelse[0], orelse[-1])
                self.add("If:if->test", node, test, test)
                self.add("If:if->body", node, body[0], body[-1])
                self.add("If:test->body", test, body[0], body[-1])
            case ast.Call(func, args, keywords):
                if args:
                    self.add("Call:func->args", func, args[0], args[-1], head_last=True)
                if keywords:
                    self.add("Call:func->keywords", func, keywords[0], keywords[-1], head_last=True)
                if args and keywords:
                    self.add("Call:args->keywords", args[0], keywords[0], keywords[-1], head_last=True)
            case ast.Assign(targets, value):
                self.add("Assign:target->value", targets[0], value, value)
            case ast.AugAssign(target, _, value):
                self.add("AugAssign:target->value", target, value, value)
            case ast.While(test, body):
                self.add("While:while->test", node, test, test)
                self.add("While:while->body", node, body[0], body[-1])
                self.add("While:test->body", test, body[0], body[-1])
            case ast.For(target, iterated, body):
                self.add("For:for->target", node, target, target)
                self.add("For:for->iter", node, iterated, iterated)
                self.add("For:for->body", node, body[0], body[-1])
                self.add("For:target->iter", target, iterated, iterated)
                self.add("For:target->body", target, body[0], body[-1])
                self.add("For:iter->body", iterated, body[0], body[-1])
            case ast.BinOp(left, _, right):
                self.add("BinOp:left->right", left, right, right)
            case ast.BoolOp(_, values):
                self.add("BoolOp:value->value", values[0], values[1], values[1])
            case ast.Compare(left, _, others):
                self.add("Compare:left->comparator", left, others[0], others[-1])
            case ast.Try(body, handlers, orelse, final):
                if handlers:
                    self.add("Try:body->handler", body[0], handlers[0], handlers[-1])
                if handlers and orelse:
                    self.add("Try:handler->orelse", handlers[0], orelse[0], self.end_of_orelse(orelse))
                if handlers and final:
                    self.add("Try:handler->finalbody", handlers[0], final[0], final[-1])
                if orelse:
                    self.add("Try:body->orelse", body[0], orelse[0], orelse[-1])
                if final:
                    self.add("Try:body->finalbody", body[0], final[0], final[-1])
            case ast.IfExp(test, body, orelse):
                self.add("IfExp:body->test", body, test, test)
                self.add("IfExp:test->orelse", test, orelse, orelse)
                self.add("IfExp:body->orelse", body, orelse, orelse)
            case ast.Attribute(value):
                head, edge = self.first(value), self.attribute(node)
                if 0 < head < edge[0]:
                    self.found["Attribute:value->attr"].append((head, *edge))
            case ast.Dict(keys, values):
                for key, value in zip(keys, values, strict=True):
                    self.add("Dict:key->value", key, value, value)
            case ast.Subscript(value, index):
                self.add("Subscript:value->slice", value, index, index)
            case ast.Slice(lower, upper):
                self.add("Slice:lower->upper", lower, upper, upper)
            case ast.With(items, body):
                self.add("With:item->body", items[0].context_expr, body[0], body[-1])
            case (
                ast.ListComp(element, loops) | ast.SetComp(element, loops) | ast.GeneratorExp(element, loops)
            ):
                self.add(f"{type(node).__name__}:elt->generator", element, loops[0], loops[-1])
            case ast.DictComp(key, value, loops):
                self.add("DictComp:key->value", key, value, value)
                self.add("DictComp:key->generator", key, loops[0], loops[-1])
                self.add("DictComp:value->generator", value, loops[0], loops[-1])
            case ast.comprehension(target, iterated):
                self.add("comprehension:target->iter", target, iterated, iterated)
            case _:
                pass


def refereed(code: str, newlines: bool = False) -> Edges:
    referee = Referee(code, newlines)
    referee.visit(ast.parse(code))
    return dict(referee.found)


class Exact(Referee):
    """The same relations between the words at the nodes' own positions, brackets and layout left out."""

    def __init__(self, code: str, newlines: bool = False) -> None:
        super().__init__(code, newlines)
        lines = [f"{line}\n" for line in code.split("\n")]
        self.bytes_before = lambda line, column: len(lines[line - 1][:column].encode())
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
        written = [(place, token) for place, token in enumerate(tokens) if token.string]
        self.at = {(one.start[0], self.bytes_before(*one.start)): place for place, one in written}
        self.until = {(one.end[0], self.bytes_before(*one.end)): place for place, one in written}

    def layout(self, place: int) -> bool:
        return not self.words[place].strip() or self.words[place].startswith("#")

    def first(self, node: Any) -> int:
        if isinstance(node, ast.comprehension):
            node = node.target
        place = self.at[node.lineno, node.col_offset]
        while self.words[place] in ("(", "[", "{"):
            inside = next(other for other in range(place + 1, len(self.words)) if not self.layout(other))
            if self.words[inside] in (")", "]", "}"):
                break
            place = inside
        return place

    def last(self, node: Any) -> int:
        if isinstance(node, ast.comprehension):
            node = node.iter
        place = self.until[node.end_lineno, node.end_col_offset]
        if self.newlines and self.words[place + 1] == "\n":
            return place + 1
        while self.words[place] in (")", "]", "}") or self.layout(place):
            place -= 1
        return place

    def attribute(self, node: Any) -> tuple[int, int]:
        return self.until[node.end_lineno, node.end_col_offset], self.last(node)

    def end_of_orelse(self, orelse: list[ast.stmt]) -> ast.stmt:
        return orelse[-1]

    def visit(self, node: Any) -> None:
        if not isinstance(node, ast.JoinedStr):
            super().visit(node)


def corrected(code: str, newlines: bool = False) -> Edges:
    referee = Exact(code, newlines)
    referee.visit(ast.parse(code))
    kept = {name: sorted(edge for edge in edges if edge[0] > 0) for name, edges in referee.found.items()}
    return {name: edges for name, edges in kept.items() if edges}


def labelled(code: str, newlines: bool = False, mode: str = "paper") -> tuple[list[str], Edges]:
    facet = get_facet("python", "relations", Relations)
    related = facet.relate(code, RelationOptions(mode=mode, newlines=newlines))
    assert related.problem == ""
    found: Edges = defaultdict(list)
    for relation, *edge in related.edges:
        found[relation].append((edge[0], edge[1], edge[2]))
    return list(related.words.surface), dict(found)


@pytest.mark.parametrize("code", SNIPPETS.values(), ids=SNIPPETS)
@pytest.mark.parametrize("newlines", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_snippets_equal_the_referee(code: str, newlines: bool, ended: bool) -> None:
    end = "\r\n" if "\r\n" in code else "\n"
    code = code.rstrip() + (end if ended else "")
    assert labelled(code, newlines) == (strings(code), refereed(code, newlines))
    words, found = labelled(code, newlines, "corrected")
    assert words == strings(code)
    assert {relation: sorted(edges) for relation, edges in found.items()} == corrected(code, newlines)


@pytest.mark.slow
def test_two_hundred_library_functions_equal_the_referee() -> None:
    # The referee is slow on long functions: its time grows with the square of their length.
    drawn = select("stdlib", Selection(languages=("python",), limit=300)).items
    chosen = sorted(drawn, key=lambda item: len(item.text))[:200]
    seen: set[str] = set()
    facet = get_facet("python", "relations", Relations)
    parsed = 0
    for item in chosen:
        try:
            expected = refereed(item.text)
        except SyntaxError:
            assert facet.relate(item.text, RelationOptions(mode="paper")).problem == "does not parse"
            continue
        parsed += 1
        words, found = labelled(item.text, mode="corrected")
        assert words == strings(item.text)
        assert {relation: sorted(edges) for relation, edges in found.items()} == corrected(item.text), (
            item.path
        )
        assert labelled(item.text) == (strings(item.text), expected), item.path
        seen |= expected.keys()
    assert parsed > 150
    for code in SNIPPETS.values():
        seen |= refereed(code).keys()
    assert seen == set(facet.relation_types)
