"""How each construct of Java's grammar stands in Eclipse's tree.

Most nodes only change their name (see `eclipse.toml`). What is here joins, splits, moves or drops: the
brackets of conditions, qualified names, array types, the operands of equal operators, and all that Eclipse's
level JLS3 did not know yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sonde.papers.codesyntax.java.nodes import (
    Frame,
    Node,
    Older,
    Part,
    is_switch_expression,
    several_types,
    tables,
)

_DECLARATIONS = frozenset(("MethodDeclaration", "FieldDeclaration", "TypeDeclaration", "Initializer"))
_BODIES = frozenset(("class_body", "interface_body", "enum_body_declarations", "annotation_type_body"))
_NAMES = frozenset(("SimpleName", "QualifiedName"))
_PLAIN_TYPES = _NAMES | {"SimpleType"}
_STRINGS = "strings"
# Equal operators in a row whose operands stay two by two.
_COMPARES = frozenset(("==", "!="))
# With a minus before it such a literal is one number to Eclipse; it would be too large without.
_SMALLEST = re.compile(r"(2147483648|9223372036854775808[lL])\Z")


def shape(frame: Frame, text: str, older: Older | None) -> list[Part] | None:
    """What a node of the grammar adds to the parts of the node around it.

    Args:
        frame: The node, whose parts have their shape already.
        text: The text that was parsed.
        older: An older Java that the tree is to be of.

    Returns:
        Parts with their roles; None where an older Java cannot parse the node.
    """
    if frame.kind == "receiver_parameter":
        return []
    if older and older.is_unknown(frame):
        return None
    if older and older.is_left_out(frame):
        return []
    if older and older.is_empty(frame):
        return [(frame.role, Node("NullLiteral", frame.start, frame.end))]
    if frame.kind in _BODIES or frame.kind == "block":
        _documented(frame, text)
    anonymous = frame.kind == "class_body" and frame.around in ("object_creation_expression", "enum_constant")
    own = older.shapes.get(frame.kind) if older else None
    if frame.kind in tables().open and not anonymous:
        if own:
            own(frame, text)
        return _opened(frame)
    special = own or _SHAPES.get(frame.kind)
    node = special(frame, text) if special else frame.node("AnonymousClassDeclaration" if anonymous else "")
    node.parts = [part for part in node.parts if part[1].kind not in ("Super", "Dimensions")]
    if node.parts and node.parts[-1][1].reach == node.reach:
        node.end = node.parts[-1][1].end
    return [(frame.role, node)]


def _opened(frame: Frame) -> list[Part]:
    if frame.kind in _BODIES:
        for _, node in frame.parts:
            if node.kind == "Block":
                node.kind = "Initializer"
    role = "finally" if frame.kind == "finally_clause" else frame.role
    return [(role or own, node) for own, node in frame.parts]


def _documented(frame: Frame, text: str) -> None:
    """Let declarations begin at the documentation comment before them."""
    reached = frame.start
    for _, node in frame.parts:
        if node.kind in _DECLARATIONS or (node.kind == "Block" and frame.kind != "block"):
            before = [start for start, end in frame.comments if reached <= start and end <= node.start]
            documenting = [start for start in before if _is_documentation(text, start)]
            if documenting:
                node.start = documenting[-1]
        reached = node.end


def _is_documentation(text: str, start: int) -> bool:
    return text.startswith("/**", start) and not text.startswith("/**/", start)


def _with_condition(frame: Frame, text: str) -> Node:
    """A statement whose condition stands in brackets, which are no node."""
    frame.parts = [
        ("condition", node.parts[-1][1])
        if node.kind == "ParenthesizedExpression" and role in ("condition", "") and node.parts
        else (role, node)
        for role, node in frame.parts
    ]
    return frame.node("SwitchExpression" if is_switch_expression(frame) else "")


def _labelled(frame: Frame, text: str) -> Node:
    frame.parts = [(role, node) for role, (_, node) in zip(("label", "body"), frame.parts, strict=False)]
    return frame.node()


def _local_variables(frame: Frame, text: str) -> Node:
    if frame.role != "init" or not frame.parts:
        return frame.node()
    # In the head of a `for` it is an expression, without the semicolon.
    frame.end = frame.parts[-1][1].end
    return frame.node("VariableDeclarationExpression")


def _enhanced_for(frame: Frame, text: str) -> Node:
    kept = [part for part in frame.parts if part[0] in ("value", "body")]
    declared = [part for part in frame.parts if part[0] not in ("value", "body")]
    if declared:
        start, end = declared[0][1].start, declared[-1][1].end
        declared = [part for part in declared if part[1].kind != "Dimensions"]
        kept.insert(0, ("variable", Node("SingleVariableDeclaration", start, end, declared)))
    frame.parts = kept
    return frame.node()


def _variable_arguments(frame: Frame, text: str) -> Node:
    frame.parts = [
        inner
        for role, node in frame.parts
        for inner in (node.parts if node.kind == "VariableDeclarationFragment" else [(role, node)])
    ]
    return frame.node()


def _resource(frame: Frame, text: str) -> Node:
    declared = [part for part in frame.parts if part[0] not in ("name", "value")]
    inner = [part for part in frame.parts if part[0] in ("name", "value")]
    if not inner:
        return frame.parts[0][1] if len(frame.parts) == 1 else frame.node()
    fragment = Node("VariableDeclarationFragment", inner[0][1].start, frame.end, inner)
    frame.parts = [*declared, ("declarator", fragment)]
    return frame.node()


def _field_access(frame: Frame, text: str) -> Node:
    """`a.b`: a name where its first part is one, else an access to a field."""
    kinds = [node.kind for _, node in frame.parts]
    if "Super" in kinds:
        return frame.node("SuperFieldAccess")
    if kinds[-1:] == ["ThisExpression"]:
        frame.parts = frame.parts[:-1]
        return frame.node("ThisExpression")
    return frame.node("QualifiedName" if kinds and kinds[0] in _NAMES else "FieldAccess")


def _scoped_type(frame: Frame, text: str) -> Node:
    plain = all(node.kind in _PLAIN_TYPES for _, node in frame.parts)
    return frame.node("QualifiedName" if plain else "QualifiedType")


def _invocation(frame: Frame, text: str) -> Node:
    is_super = any(node.kind == "Super" for _, node in frame.parts)
    return frame.node("SuperMethodInvocation" if is_super else "")


def _constructor_invocation(frame: Frame, text: str) -> Node:
    frame.parts = [part for part in frame.parts if part[0] != "constructor"]
    return frame.node()


def _array_creation(frame: Frame, text: str) -> Node:
    """`new int[a][] {..}`: the type takes in the brackets, whose sizes are parts beside it."""
    sizes = [node for role, node in frame.parts if role == "dimensions"]
    rest = [part for part in frame.parts if part[0] != "dimensions"]
    typed = [(place, part) for place, part in enumerate(rest) if part[0] == "type"]
    if typed:
        place, (_, element) = typed[0]
        end = sizes[-1].end if sizes else element.end
        rest[place] = ("type", Node("ArrayType", element.start, end, [("element", element)]))
        rest[place + 1 : place + 1] = [part for size in sizes for part in size.parts]
    frame.parts = rest
    return frame.node()


def _cast(frame: Frame, text: str) -> Node:
    joined = several_types(frame, "IntersectionType")
    if joined:
        frame.parts = [("type", joined), *(part for part in frame.parts if part[0] != "type")]
    return frame.node()


def _caught(frame: Frame, text: str) -> Node:
    return frame.parts[0][1] if len(frame.parts) == 1 else frame.node()


def _negated(frame: Frame, text: str) -> Node:
    operand = frame.parts[-1][1] if frame.parts else None
    negated = operand is not None and operand.kind == "NumberLiteral" and frame.operator == "-"
    if operand is not None and negated and _SMALLEST.match(text[operand.start : operand.end]):
        frame.parts = []
        return frame.node("NumberLiteral")
    return frame.node()


def _infix(frame: Frame, text: str) -> Node:
    """An operation; one with equal operators all along its left side has all their operands as its parts.

    That is off as soon as an operand on the way is an operation itself. String literals that follow each
    other are one node first, which is an operand like any other except directly on the left.
    """
    node = frame.node()
    operands = [part for _, part in frame.parts]
    if len(operands) != 2:
        return node
    left, right = operands
    if frame.operator == "+" and right.kind == "StringLiteral" and _is_strings(left):
        node.operator = _STRINGS
        shown = node.chain = [*(left.chain or [left]), right]
    elif left.kind != "InfixExpression" or left.operator == _STRINGS:
        node.chain = operands
        shown = [*left.chain, right] if left.operator == _STRINGS and frame.operator == "+" else operands
    else:
        if (
            left.operator == frame.operator not in _COMPARES
            and left.chain
            and not _is_operation(left.chain[-1])
        ):
            node.chain = [*left.chain, right]
        shown = node.chain or operands
    roles = ["left", "right", *["further"] * (len(shown) - 2)]
    node.parts = list(zip(roles, shown, strict=True))
    return node


def _is_strings(node: Node) -> bool:
    return node.kind == "StringLiteral" or (node.kind == "InfixExpression" and node.operator == _STRINGS)


def _is_operation(node: Node) -> bool:
    return node.kind == "InfixExpression" and node.operator != _STRINGS


_SHAPES: dict[str, Callable[[Frame, str], Node]] = {
    **dict.fromkeys(
        ("if_statement", "while_statement", "do_statement", "switch_expression"), _with_condition
    ),
    "synchronized_statement": _with_condition,
    "labeled_statement": _labelled,
    "local_variable_declaration": _local_variables,
    "enhanced_for_statement": _enhanced_for,
    "spread_parameter": _variable_arguments,
    "resource": _resource,
    "field_access": _field_access,
    "scoped_type_identifier": _scoped_type,
    "method_invocation": _invocation,
    "explicit_constructor_invocation": _constructor_invocation,
    "array_creation_expression": _array_creation,
    "cast_expression": _cast,
    "catch_type": _caught,
    "unary_expression": _negated,
    "binary_expression": _infix,
}
