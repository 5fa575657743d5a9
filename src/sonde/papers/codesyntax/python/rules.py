"""Which parts of a construct are related, on the nodes of `ast`: CodeSyntax's table of Python relations.

What is not listed there has no relation: annotated assignments, ``async for`` and ``async with``, the
``else`` of a loop, ``except*``. Parameters, defaults, decorators and annotations of functions are never
looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

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


def relations_of(node: ast.AST) -> Iterator[RelationRule]:
    """The relations that a construct's own parts have, those to children and `IF_ELSE` excepted."""
    rule = _RULES.get(type(node))
    return rule(node) if rule is not None else iter(())


def is_function(node: ast.AST) -> bool:
    """Whether a node is a function with a name: only its body is looked at, and it is nobody's child."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def parts(node: ast.AST) -> Iterator[ast.AST]:
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


def _if(node: ast.If) -> Iterator[RelationRule]:
    first, last = node.body[0], node.body[-1]
    yield RelationRule("If:if->test", node, node.test, node.test)
    yield RelationRule("If:if->body", node, first, last)
    yield RelationRule("If:test->body", node.test, first, last)
    if node.orelse:
        yield RelationRule("If:test->orelse", node.test, node.orelse[0], node.orelse[-1])
        yield RelationRule("If:body->orelse", first, node.orelse[0], node.orelse[-1])


def _call(node: ast.Call) -> Iterator[RelationRule]:
    if node.args:
        yield RelationRule("Call:func->args", node.func, node.args[0], node.args[-1], head_end=True)
    if node.keywords:
        first, last = node.keywords[0], node.keywords[-1]
        if node.args:
            yield RelationRule("Call:args->keywords", node.args[0], first, last, head_end=True)
        yield RelationRule("Call:func->keywords", node.func, first, last, head_end=True)


def _assign(node: ast.Assign) -> Iterator[RelationRule]:
    yield RelationRule("Assign:target->value", node.targets[0], node.value, node.value)


def _augmented(node: ast.AugAssign) -> Iterator[RelationRule]:
    yield RelationRule("AugAssign:target->value", node.target, node.value, node.value)


def _while(node: ast.While) -> Iterator[RelationRule]:
    first, last = node.body[0], node.body[-1]
    yield RelationRule("While:while->test", node, node.test, node.test)
    yield RelationRule("While:while->body", node, first, last)
    yield RelationRule("While:test->body", node.test, first, last)


def _for(node: ast.For) -> Iterator[RelationRule]:
    first, last = node.body[0], node.body[-1]
    yield RelationRule("For:for->body", node, first, last)
    yield RelationRule("For:for->target", node, node.target, node.target)
    yield RelationRule("For:for->iter", node, node.iter, node.iter)
    yield RelationRule("For:target->iter", node.target, node.iter, node.iter)
    yield RelationRule("For:target->body", node.target, first, last)
    yield RelationRule("For:iter->body", node.iter, first, last)


def _binary(node: ast.BinOp) -> Iterator[RelationRule]:
    yield RelationRule("BinOp:left->right", node.left, node.right, node.right)


def _boolean(node: ast.BoolOp) -> Iterator[RelationRule]:
    yield RelationRule("BoolOp:value->value", node.values[0], node.values[1], node.values[1])


def _compare(node: ast.Compare) -> Iterator[RelationRule]:
    yield RelationRule("Compare:left->comparator", node.left, node.comparators[0], node.comparators[-1])


def _try(node: ast.Try) -> Iterator[RelationRule]:
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


def _conditional(node: ast.IfExp) -> Iterator[RelationRule]:
    yield RelationRule("IfExp:body->test", node.body, node.test, node.test)
    yield RelationRule("IfExp:test->orelse", node.test, node.orelse, node.orelse)
    yield RelationRule("IfExp:body->orelse", node.body, node.orelse, node.orelse)


def _attribute(node: ast.Attribute) -> Iterator[RelationRule]:
    yield RelationRule("Attribute:value->attr", node.value, node, node, end_only=True)


def _dict(node: ast.Dict) -> Iterator[RelationRule]:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            yield RelationRule("Dict:key->value", key, value, value)


def _subscript(node: ast.Subscript) -> Iterator[RelationRule]:
    yield RelationRule("Subscript:value->slice", node.value, node.slice, node.slice)


def _slice(node: ast.Slice) -> Iterator[RelationRule]:
    if node.lower is not None and node.upper is not None:
        yield RelationRule("Slice:lower->upper", node.lower, node.upper, node.upper)


def _with(node: ast.With) -> Iterator[RelationRule]:
    yield RelationRule("With:item->body", node.items[0].context_expr, node.body[0], node.body[-1])


def _elements(node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Iterator[RelationRule]:
    first, last = node.generators[0].target, node.generators[-1].iter
    yield RelationRule(f"{type(node).__name__}:elt->generator", node.elt, first, last)


def _entries(node: ast.DictComp) -> Iterator[RelationRule]:
    first, last = node.generators[0].target, node.generators[-1].iter
    yield RelationRule("DictComp:key->value", node.key, node.value, node.value)
    yield RelationRule("DictComp:key->generator", node.key, first, last)
    yield RelationRule("DictComp:value->generator", node.value, first, last)


def _comprehension(node: ast.comprehension) -> Iterator[RelationRule]:
    yield RelationRule("comprehension:target->iter", node.target, node.iter, node.iter)


_RULES: dict[type[ast.AST], Callable[..., Iterator[RelationRule]]] = {
    ast.If: _if,
    ast.Call: _call,
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.While: _while,
    ast.For: _for,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.Try: _try,
    ast.IfExp: _conditional,
    ast.Attribute: _attribute,
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.With: _with,
    ast.ListComp: _elements,
    ast.SetComp: _elements,
    ast.GeneratorExp: _elements,
    ast.DictComp: _entries,
    ast.comprehension: _comprehension,
}
