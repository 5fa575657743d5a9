"""What Java 1.3 in Eclipse's tree of level JLS3 makes of newer constructs, as in CodeSyntax.

A lambda, method reference, switch expression or text block is a leaf, the resources of a ``try`` are
missing, and a method that holds what Java 1.3 cannot parse (``assert x > 0;``, a local enum or record,
``yield``) has an empty body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sonde.papers.codesyntax.java.nodes import (
    Frame,
    Node,
    Older,
    Shaped,
    is_switch_expression,
    several_types,
)

_NEW_NUMBER = re.compile(r"0[bB]|.*_|0[xX].*[pP]", re.DOTALL)
# What Java 1.3 cannot parse, what Eclipse's level JLS3 leaves out, and what is an empty leaf to it.
_UNKNOWN = frozenset(
    (
        *("enum_declaration", "record_declaration", "annotation_type_declaration"),
        *("template_expression", "type_pattern", "guard"),
    )
)
_NAMES_ONCE = {"assert_statement": "assert", "yield_statement": "yield"}
_LEFT_OUT = frozenset(("resource_specification",))
_EMPTY = frozenset(("lambda_expression", "method_reference"))


def old_leaf(leaf: Node, text: str) -> tuple[Node, bool]:
    """A leaf as Java 1.3 has it, and whether it can be parsed there."""
    written = text[leaf.start : leaf.end]
    if leaf.kind == "NumberLiteral":
        return leaf, not _NEW_NUMBER.match(written)
    if leaf.kind != "StringLiteral":
        return leaf, True
    if written.startswith('"""'):
        return Node("NullLiteral", leaf.start, leaf.end), True
    return leaf, "\n" not in written and "\r" not in written


def is_unknown(frame: Frame) -> bool:
    """Whether Java 1.3 cannot parse a node. There, ``assert`` and ``yield`` are names, see `_named`."""
    if frame.kind in _NAMES_ONCE:
        kinds = [node.kind for _, node in frame.parts]
        return kinds not in (["ParenthesizedExpression"], ["SimpleName"])
    return frame.kind in _UNKNOWN or (frame.kind == "pattern" and frame.around == "switch_label")


def is_left_out(frame: Frame) -> bool:
    """Whether a node of the grammar is not in the tree at all."""
    return frame.kind in _LEFT_OUT or (frame.kind == "interface_declaration" and frame.around == "block")


def is_empty(frame: Frame) -> bool:
    """Whether a node of the grammar is a leaf, whatever it holds."""
    return frame.kind in _EMPTY or is_switch_expression(frame)


def _named(frame: Frame, text: str) -> Node:
    """`assert (x);` is a call of `assert`, and `assert x;` declares a variable of that type."""
    name = Node("SimpleName", frame.start, frame.start + len(_NAMES_ONCE[frame.kind]))
    follows = frame.parts[0][1]
    if follows.kind == "SimpleName":
        frame.parts = [("type", name), ("declarator", follows)]
        return frame.node("VariableDeclarationStatement")
    inner = [("arguments", node) for _, node in follows.parts]
    call = Node("MethodInvocation", frame.start, follows.end, [("name", name), *inner])
    frame.parts = [("", call)]
    return frame.node("ExpressionStatement")


def _instanceof(frame: Frame, text: str) -> Node:
    """A pattern's name is not there, and ends nothing."""
    frame.parts = [(role, node) for role, (_, node) in zip(("left", "right"), frame.parts, strict=False)]
    node = frame.node()
    node.end = frame.parts[-1][1].end
    return node


def _record_pattern(frame: Frame, text: str) -> Node:
    return frame.parts[0][1]


def _case(frame: Frame, text: str) -> Node:
    frame.parts = frame.parts[:1]
    return frame.node()


def _rule(frame: Frame, text: str) -> Node:
    """`case 1 -> f();`: a statement, but no longer which."""
    frame.parts = [
        (role, Node("EmptyStatement", node.start, node.end) if node.kind == "ExpressionStatement" else node)
        for role, node in frame.parts
    ]
    return frame.node()


def _caught(frame: Frame, text: str) -> Node:
    joined = several_types(frame, "SimpleType")
    if joined is None:
        return frame.parts[0][1]
    joined.parts = joined.parts[:1]
    return joined


def _cast(frame: Frame, text: str) -> Node:
    joined = several_types(frame, "SimpleType")
    if joined:
        joined.parts = joined.parts[:1]
        frame.parts = [("type", joined), *(part for part in frame.parts if part[0] != "type")]
    return frame.node()


def _annotated_type(frame: Frame, text: str) -> Node:
    frame.parts = [part for part in frame.parts if part[1].kind != "Annotation"]
    return frame.node()


OLD_SHAPES: Mapping[str, Shaped] = {
    **dict.fromkeys(_NAMES_ONCE, _named),
    "instanceof_expression": _instanceof,
    "record_pattern": _record_pattern,
    "switch_label": _case,
    "switch_rule": _rule,
    "catch_type": _caught,
    "cast_expression": _cast,
    "annotated_type": _annotated_type,
}

JAVA_1_3 = Older(old_leaf, is_unknown, is_left_out, is_empty, OLD_SHAPES)
