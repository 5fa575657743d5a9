"""Relations between nodes of `ast`, as CodeSyntax's labeller finds them, one quirk at a time.

The rules are CodeSyntax's table of Python relations. Whatever is not listed there has no relation: annotated
assignments, ``async for`` and ``async with``, the ``else`` of a loop, ``except*``. Parameters, defaults,
decorators and annotations of functions are never looked at.

`ast` is the running interpreter's: a text in syntax that it does not know does not parse. Its reading of a
text that parses is the same on every Python that sonde runs on; the inside of f-strings, for which it
differs, is not looked at. On Python 3.9, which the README of the published code names, the names of an import
had no position and so were nobody's children; here they are.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from sonde.languages.engine.relations import CHILD_RELATION, Edge
from sonde.papers.codesyntax.python.words import (
    HANDLER_ORELSE,
    MARGIN,
    NEWLINE_ALONE,
    UNFILTERED_ELSE,
    AstWordFinder,
    find_code_start,
)

IF_ELSE = "If:if->else"


class RelationRule(NamedTuple):
    """A relation between nodes.

    Attributes:
        name: One of the relations of the language.
        head: The node whose first word is the head, its last word where ``head_end`` says so.
        first: Node in which the dependent begins.
        last: Node in which the dependent ends.
        head_end: Whether the head is the last word of its node: of a called expression, of an argument.
        end_only: Whether the dependent is the last word alone: of an attribute.
    """

    name: str
    head: ast.AST
    first: ast.AST
    last: ast.AST
    head_end: bool = False
    end_only: bool = False


def find_relations(node: ast.AST) -> Iterator[RelationRule]:
    """The relations that a construct's own parts have, those to children and `IF_ELSE` excepted."""
    rule = _RULES.get(type(node))
    return rule(node) if rule is not None else iter(())


def is_function(node: ast.AST) -> bool:
    """Whether a node is a function with a name: only its body is looked at, and it is nobody's child."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def iterate_children(node: ast.AST) -> Iterator[ast.AST]:
    """The children of a node that can hold relations, in the order of their fields.

    An f-string is one word, so nothing in it is related to anything.
    """
    if is_function(node):
        yield from node.body  # pyright: ignore[reportAttributeAccessIssue]
    elif type(node).__name__ not in ("JoinedStr", "TemplateStr"):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _WITHOUT_PLACE):
                yield child


_WITHOUT_PLACE = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.type_ignore)


def _if_relations(node: ast.If) -> Iterator[RelationRule]:
    first, last = node.body[0], node.body[-1]
    yield RelationRule("If:if->test", node, node.test, node.test)
    yield RelationRule("If:if->body", node, first, last)
    yield RelationRule("If:test->body", node.test, first, last)
    if node.orelse:
        yield RelationRule("If:test->orelse", node.test, node.orelse[0], node.orelse[-1])
        yield RelationRule("If:body->orelse", first, node.orelse[0], node.orelse[-1])


def _call_relations(node: ast.Call) -> Iterator[RelationRule]:
    if node.args:
        yield RelationRule("Call:func->args", node.func, node.args[0], node.args[-1], head_end=True)
    if node.keywords:
        first, last = node.keywords[0], node.keywords[-1]
        if node.args:
            yield RelationRule("Call:args->keywords", node.args[0], first, last, head_end=True)
        yield RelationRule("Call:func->keywords", node.func, first, last, head_end=True)


def _assign_relations(node: ast.Assign) -> Iterator[RelationRule]:
    yield RelationRule("Assign:target->value", node.targets[0], node.value, node.value)


def _augmented_assign_relations(node: ast.AugAssign) -> Iterator[RelationRule]:
    yield RelationRule("AugAssign:target->value", node.target, node.value, node.value)


def _while_relations(node: ast.While) -> Iterator[RelationRule]:
    first, last = node.body[0], node.body[-1]
    yield RelationRule("While:while->test", node, node.test, node.test)
    yield RelationRule("While:while->body", node, first, last)
    yield RelationRule("While:test->body", node.test, first, last)


def _for_relations(node: ast.For) -> Iterator[RelationRule]:
    first, last = node.body[0], node.body[-1]
    yield RelationRule("For:for->body", node, first, last)
    yield RelationRule("For:for->target", node, node.target, node.target)
    yield RelationRule("For:for->iter", node, node.iter, node.iter)
    yield RelationRule("For:target->iter", node.target, node.iter, node.iter)
    yield RelationRule("For:target->body", node.target, first, last)
    yield RelationRule("For:iter->body", node.iter, first, last)


def _binary_relations(node: ast.BinOp) -> Iterator[RelationRule]:
    yield RelationRule("BinOp:left->right", node.left, node.right, node.right)


def _boolean_relations(node: ast.BoolOp) -> Iterator[RelationRule]:
    yield RelationRule("BoolOp:value->value", node.values[0], node.values[1], node.values[1])


def _compare_relations(node: ast.Compare) -> Iterator[RelationRule]:
    yield RelationRule("Compare:left->comparator", node.left, node.comparators[0], node.comparators[-1])


def _try_relations(node: ast.Try) -> Iterator[RelationRule]:
    body, handlers, orelse, final = node.body[0], node.handlers, node.orelse, node.finalbody
    if handlers:
        yield RelationRule("Try:body->handler", body, handlers[0], handlers[-1])
        if orelse:
            yield RelationRule("Try:handler->orelse", handlers[0], orelse[0], orelse[-1])
        if final:
            yield RelationRule("Try:handler->finalbody", handlers[0], final[0], final[-1])
    if orelse:
        yield RelationRule("Try:body->orelse", body, orelse[0], orelse[-1])
    if final:
        yield RelationRule("Try:body->finalbody", body, final[0], final[-1])


def _conditional_relations(node: ast.IfExp) -> Iterator[RelationRule]:
    yield RelationRule("IfExp:body->test", node.body, node.test, node.test)
    yield RelationRule("IfExp:test->orelse", node.test, node.orelse, node.orelse)
    yield RelationRule("IfExp:body->orelse", node.body, node.orelse, node.orelse)


def _attribute_relations(node: ast.Attribute) -> Iterator[RelationRule]:
    yield RelationRule("Attribute:value->attr", node.value, node, node, end_only=True)


def _dict_relations(node: ast.Dict) -> Iterator[RelationRule]:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            yield RelationRule("Dict:key->value", key, value, value)


def _subscript_relations(node: ast.Subscript) -> Iterator[RelationRule]:
    yield RelationRule("Subscript:value->slice", node.value, node.slice, node.slice)


def _slice_relations(node: ast.Slice) -> Iterator[RelationRule]:
    if node.lower is not None and node.upper is not None:
        yield RelationRule("Slice:lower->upper", node.lower, node.upper, node.upper)


def _with_relations(node: ast.With) -> Iterator[RelationRule]:
    yield RelationRule("With:item->body", node.items[0].context_expr, node.body[0], node.body[-1])


def _element_relations(node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Iterator[RelationRule]:
    first, last = node.generators[0].target, node.generators[-1].iter
    yield RelationRule(f"{type(node).__name__}:elt->generator", node.elt, first, last)


def _entry_relations(node: ast.DictComp) -> Iterator[RelationRule]:
    first, last = node.generators[0].target, node.generators[-1].iter
    yield RelationRule("DictComp:key->value", node.key, node.value, node.value)
    yield RelationRule("DictComp:key->generator", node.key, first, last)
    yield RelationRule("DictComp:value->generator", node.value, first, last)


def _comprehension_relations(node: ast.comprehension) -> Iterator[RelationRule]:
    yield RelationRule("comprehension:target->iter", node.target, node.iter, node.iter)


_RULES: dict[type[ast.AST], Callable[..., Iterator[RelationRule]]] = {
    ast.If: _if_relations,
    ast.Call: _call_relations,
    ast.Assign: _assign_relations,
    ast.AugAssign: _augmented_assign_relations,
    ast.While: _while_relations,
    ast.For: _for_relations,
    ast.BinOp: _binary_relations,
    ast.BoolOp: _boolean_relations,
    ast.Compare: _compare_relations,
    ast.Try: _try_relations,
    ast.IfExp: _conditional_relations,
    ast.Attribute: _attribute_relations,
    ast.Dict: _dict_relations,
    ast.Subscript: _subscript_relations,
    ast.Slice: _slice_relations,
    ast.With: _with_relations,
    ast.ListComp: _element_relations,
    ast.SetComp: _element_relations,
    ast.GeneratorExp: _element_relations,
    ast.DictComp: _entry_relations,
    ast.comprehension: _comprehension_relations,
}


def parse_module(text: str, quirks: Set[str]) -> ast.Module | None:
    """The syntax tree, or None for a text that does not parse.

    A decorated method cut out of its class begins in another column than its other lines; it is parsed with
    its margin put back.
    """
    tree = _parse_silently(text)
    begin = find_code_start(text)
    if tree is None and begin and MARGIN not in quirks:
        margin = text[text.rfind("\n", 0, begin) + 1 : begin]
        around = _parse_silently(f"if 1:\n{margin}{text}")
        if around is not None:
            ast.increment_lineno(around, -1)
            assert isinstance(around.body[0], ast.If)
            # Nobody looks at the decorators, the only nodes on the line that was moved.
            return ast.Module(around.body[0].body + around.body[1:], [])
    return tree


def _parse_silently(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def iterate_edges(tree: ast.Module, places: AstWordFinder, quirks: Set[str]) -> Iterator[Edge]:
    """The edges of a tree, each node's own before its children's."""
    waiting: list[tuple[ast.AST | None, ast.AST]] = [(None, tree)]
    while waiting:
        parent, node = waiting.pop()
        placed = hasattr(node, "lineno") and not is_function(node)
        if parent is not None and placed:
            head, first = places.first(parent), places.first(node)
            if 0 < head < first <= (last := places.last(node)):
                yield Edge(CHILD_RELATION, head, first, last)
        if isinstance(node, ast.If) and node.orelse:
            yield from _else_edges(node, places, quirks)
        for relation in find_relations(node):
            edge = _build_edge(relation, places, quirks)
            if 0 < edge.head < edge.first <= edge.last:
                yield edge
        above = node if placed else None
        waiting.extend((above, child) for child in reversed(list(iterate_children(node))))


def _build_edge(relation: RelationRule, places: AstWordFinder, quirks: Set[str]) -> Edge:
    final = relation.last
    if relation.name == "Try:handler->orelse" and HANDLER_ORELSE in quirks:
        final = relation.first
    head = places.last(relation.head) if relation.head_end else places.first(relation.head)
    last = places.last(final)
    if not relation.end_only:
        first = places.first(relation.first)
    else:
        first = last if NEWLINE_ALONE in quirks else places.last_without_newline(final)
    return Edge(relation.name, head, first, last)


def _else_edges(node: ast.If, places: AstWordFinder, quirks: Set[str]) -> Iterator[Edge]:
    """From ``if`` to the first ``else`` or ``elif`` between the body and what follows it."""
    head = places.first(node)
    for place in range(places.last(node.body[-1]) + 1, places.first(node.orelse[0]) + 1):
        if places.word(place) in ("else", "elif"):
            if head > 0 or UNFILTERED_ELSE in quirks:
                yield Edge(IF_ELSE, head, place, place)
            return
