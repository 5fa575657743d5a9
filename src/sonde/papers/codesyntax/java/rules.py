"""The edges of a Java syntax tree: which node is related to which, in characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sonde.papers.codesyntax.java.nodes import Node


class Span(NamedTuple):
    """A relation before its words are known: characters, ends exclusive.

    Attributes:
        relation: Its name.
        head: First character of the head.
        start: First character of the dependent.
        end: One past its last character.
    """

    relation: str
    head: int
    start: int
    end: int


def spans(root: Node) -> Iterator[Span]:
    """Every relation of a tree, the dependent after the head, in the order of a walk from the root."""
    waiting: list[tuple[Node, Node | None]] = [(root, None)]
    while waiting:
        node, parent = waiting.pop()
        if parent is not None:
            yield from _related("children:parent->child", parent.start, (node.start, node.end))
        of = _RULES.get(node.kind)
        if of is not None:
            for relation, head, dependent in of(node):
                if head is not None and dependent is not None:
                    yield from _related(relation, head, dependent)
        waiting.extend((child, node) for _, child in reversed(node.parts) if child.kind != "Else")


Range = tuple[int, int]
Found = Iterator[tuple[str, int | None, Range | None]]


def _related(relation: str, head: int, dependent: Range) -> Iterator[Span]:
    if head < dependent[0]:
        yield Span(relation, head, *dependent)


def _range(nodes: list[Node]) -> Range | None:
    return (nodes[0].start, nodes[-1].end) if nodes else None


def _start(found: Range | None) -> int | None:
    return found[0] if found else None


def _if(node: Node) -> Found:
    test, body = _range(node.all("condition")), _range(node.all("consequence"))
    orelse = _range(node.all("alternative"))
    yield "If:if->else", node.start, _range(node.all("else"))
    yield "If:if->test", node.start, test
    yield "If:if->body", node.start, body
    yield "If:test->body", _start(test), body
    yield "If:test->orelse", _start(test), orelse
    yield "If:body->orelse", _start(body), orelse


def _call(node: Node) -> Found:
    name = _range(node.all("name"))
    yield "Call:func->args", _start(name), _range(node.all("arguments"))
    yield "Attribute:value->attr", _start(_range(node.all("object"))), name


def _assign(node: Node) -> Found:
    yield "Assign:target->value", _start(_range(node.all("left"))), _range(node.all("right"))


def _while(node: Node) -> Found:
    test, body = _range(node.all("condition")), _range(node.all("body"))
    yield "While:while->test", node.start, test
    yield "While:while->body", node.start, body
    yield "While:test->body", _start(test), body


def _for(node: Node) -> Found:
    initializers, test = _range(node.all("init")), _range(node.all("condition"))
    updaters, body = _range(node.all("update")), _range(node.all("body"))
    yield "For:for->body", node.start, body
    yield "For:for->test", node.start, test
    yield "For:for->initializers", node.start, initializers
    yield "For:for->updaters", node.start, updaters
    yield "For:initializers->test", _start(initializers), test
    yield "For:test->updaters", _start(test), updaters
    yield "For:test->body", _start(test), body
    yield "For:initializers->updaters", _start(initializers), updaters
    yield "For:initializers->body", _start(initializers), body
    yield "For:updaters->body", _start(updaters), body


def _try(node: Node) -> Found:
    body, final = _range(node.all("body")), _range(node.all("finally"))
    handlers = _range([part for _, part in node.parts if part.kind == "CatchClause"])
    yield "Try:body->finalbody", _start(body), final
    yield "Try:handler->finalbody", _start(handlers), final
    yield "Try:body->handler", _start(body), handlers


def _conditional(node: Node) -> Found:
    test, body = _range(node.all("condition")), _range(node.all("consequence"))
    orelse = _range(node.all("alternative"))
    yield "IfExp:test->body", _start(test), body
    yield "IfExp:test->orelse", _start(test), orelse
    yield "IfExp:body->orelse", _start(body), orelse


def _do(node: Node) -> Found:
    body, test = _range(node.all("body")), _range(node.all("condition"))
    yield "Do:body->test", _start(body), test
    yield "Do:do->body", node.start, body
    yield "Do:do->test", node.start, test


def _switch(node: Node) -> Found:
    expression, statements = _range(node.all("condition")), _range(node.all("body"))
    # A switch without cases aborted the authors' run.
    if statements is not None:
        yield "Switch:expr->statement", _start(expression), statements
        yield "Switch:switch->expr", node.start, expression
        yield "Switch:switch->statement", node.start, statements


def _subscript(node: Node) -> Found:
    yield "Subscript:value->slice", _start(_range(node.all("array"))), _range(node.all("index"))


def _label(node: Node) -> Found:
    yield "LabeledStatement:label->body", node.start, _range(node.all("body"))


def _instance(node: Node) -> Found:
    kind = node.parts[1][1] if len(node.parts) > 1 else None
    yield "InstanceofExpr:expr->type", node.start, (kind.start, kind.end) if kind else None


def _infix(node: Node) -> Found:
    yield "InfixExpr:left->right", _start(_range(node.all("left"))), _range(node.all("right"))


_RULES = {
    "IfStatement": _if,
    "MethodInvocation": _call,
    "Assignment": _assign,
    "WhileStatement": _while,
    "ForStatement": _for,
    "TryStatement": _try,
    "ConditionalExpression": _conditional,
    "DoStatement": _do,
    "SwitchStatement": _switch,
    "SwitchExpression": _switch,
    "ArrayAccess": _subscript,
    "LabeledStatement": _label,
    "InstanceofExpression": _instance,
    "InfixExpression": _infix,
}
