"""A Java syntax tree in the shape of Eclipse's (org.eclipse.jdt.core.dom), built from tree-sitter's.

CodeSyntax reads Eclipse's tree at its level JLS3, with the parser left at its default, Java 1.3. What a node
is, where it begins and ends and what is directly under it follow that tree; a node that would begin where its
only child begins is left out, because no relation can tell the two apart.

Most nodes only change their name (see `eclipse.toml`). The functions here join, split, move or drop nodes:
the brackets of conditions, qualified names, array types, the operands of equal operators, and everything that
Eclipse's level JLS3 did not know yet.

Newer constructs are read like older ones, unless the tree is to be that of Java 1.3. There, as CodeSyntax has
it, a lambda, method reference, switch expression or text block is a leaf, the resources of a ``try`` are
missing, and a method that holds what cannot be parsed (``assert x > 0;``, a local enum or record, ``yield``)
has an empty body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import tree_sitter

from sonde.languages.engine.language import read_table
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.tokens import invert_table

Part = tuple[str, "Node"]


# Where a ``switch`` is a statement; elsewhere it is an expression.
_HOLD_STATEMENTS = frozenset(
    (
        *("block", "constructor_body", "switch_block_statement_group", "switch_rule", "labeled_statement"),
        *("if_statement", "while_statement", "do_statement", "for_statement", "enhanced_for_statement"),
    )
)


@dataclass(slots=True, eq=False)
class Node:
    """A node of the tree.

    Attributes:
        kind: Its class in Eclipse's tree.
        start: First character.
        end: One past the last character.
        parts: What stands directly under it, in order, each with its role (mostly a field of the grammar).
        reach: One past the last character in the grammar's tree, which may reach farther.
        operator: The operator of an operation, else empty.
        chain: The operands that an equal operation around takes over, see `_infix`.
    """

    kind: str
    start: int
    end: int
    parts: list[Part] = field(default_factory=list)
    reach: int = -1
    operator: str = ""
    chain: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.reach < 0:
            self.reach = self.end

    def find_parts(self, role: str) -> list[Node]:
        """Return the parts with a role or kind, in order; the node itself for an empty role."""
        return [node for part_role, node in self.parts if role in (part_role, node.kind)] if role else [self]


@dataclass(slots=True, eq=False)
class Frame:
    """A node of the grammar that the walk is inside of, with what is known of it so far.

    Attributes:
        kind: The grammar's name of it.
        role: The field that it is in, or empty.
        start: First character.
        end: One past the last character.
        parent_kind: The grammar's name of the node around it.
        parts: Its parts so far.
        comments: First character and end of each comment directly in it.
        operator: Its operator, where it has one.
    """

    kind: str
    role: str
    start: int
    end: int
    parent_kind: str
    parts: list[Part] = field(default_factory=list)
    comments: list[tuple[int, int]] = field(default_factory=list)
    operator: str = ""

    def node(self, kind: str = "") -> Node:
        """Build the node under its name in Eclipse's tree, or under another."""
        name = kind or load_eclipse_names()["nodes"].get(self.kind, self.kind)
        return Node(name, self.start, self.end, self.parts, operator=self.operator)


ShapeRule = Callable[[Frame, str], Node]
"""A node's shape by its frame and the text."""


@cache
def load_eclipse_names() -> dict[str, dict[str, str]]:
    """Read `eclipse.toml`: by the grammar's names, names in Eclipse's tree or "".

    - ``open``: nodes whose children stand under the node around them;
    - ``comments``: comments;
    - ``leaves``: nodes that nothing stands under;
    - ``nodes``: all others.
    """
    data = read_table("sonde.papers.codesyntax.java", "eclipse")
    lists = {name: dict.fromkeys(data[name], "") for name in ("open", "comments")}
    return lists | {name: invert_table(data[name]) for name in ("leaves", "nodes")}


def merge_types(frame: Frame, kind: str, maximum: int | None = None) -> Node | None:
    """Merge all types of a cast or a caught exception into one node; None for a single type.

    Args:
        frame: The cast, or the caught exception.
        kind: What the node is.
        maximum: How many of the types are its parts, None for all.
    """
    types = [node for role, node in frame.parts if role == "type" or frame.kind == "catch_type"]
    if len(types) < 2:
        return None
    return Node(kind, types[0].start, types[-1].end, [("type", node) for node in types[:maximum]])


def is_switch_expression(frame: Frame) -> bool:
    """Return whether a node of the grammar is a ``switch`` that gives a value."""
    return frame.kind == "switch_expression" and frame.parent_kind not in _HOLD_STATEMENTS


_DECLARATIONS = frozenset(("MethodDeclaration", "FieldDeclaration", "TypeDeclaration", "Initializer"))


_BODIES = frozenset(("class_body", "interface_body", "enum_body_declarations", "annotation_type_body"))


_NAMES = frozenset(("SimpleName", "QualifiedName"))


_PLAIN_TYPES = _NAMES | {"SimpleType"}


_STRINGS = "strings"


# Equal operators in a row whose operands stay two by two.
_COMPARES = frozenset(("==", "!="))


# With a minus before it such a literal is one number to Eclipse; it would be too large without.
_SMALLEST = re.compile(r"(2147483648|9223372036854775808[lL])\Z")


def build_parts(frame: Frame, text: str, old: bool) -> list[Part] | None:
    """Return the parts that a node of the grammar adds to the node around it.

    Args:
        frame: The node, whose parts have their shape already.
        text: The text that was parsed.
        old: Whether the tree is to be that of Java 1.3.

    Returns:
        Parts with their roles; None where Java 1.3 cannot parse the node.
    """
    if old and is_unknown(frame):
        return None
    if frame.kind == "receiver_parameter" or (old and is_absent(frame)):
        return []
    if old and is_empty(frame):
        return [(frame.role, Node("NullLiteral", frame.start, frame.end))]
    if frame.kind in _BODIES or frame.kind == "block":
        _include_documentation(frame, text)
    anonymous = frame.kind == "class_body" and frame.parent_kind in (
        "object_creation_expression",
        "enum_constant",
    )
    old_shape = _OLD_SHAPES.get(frame.kind) if old else None
    if frame.kind in load_eclipse_names()["open"] and not anonymous:
        if old_shape:
            old_shape(frame, text)
        return _unwrap_parts(frame)
    special = old_shape or _SHAPES.get(frame.kind)
    node = special(frame, text) if special else frame.node("AnonymousClassDeclaration" if anonymous else "")
    node.parts = [part for part in node.parts if part[1].kind not in ("Super", "Dimensions")]
    if node.parts and node.parts[-1][1].reach == node.reach:
        node.end = node.parts[-1][1].end
    return [(frame.role, node)]


def _unwrap_parts(frame: Frame) -> list[Part]:
    if frame.kind in _BODIES:
        for _, node in frame.parts:
            if node.kind == "Block":
                node.kind = "Initializer"
    role = "finally" if frame.kind == "finally_clause" else frame.role
    return [(role or part_role, node) for part_role, node in frame.parts]


def _include_documentation(frame: Frame, text: str) -> None:
    """Let declarations begin at the documentation comment before them."""
    position = frame.start
    for _, node in frame.parts:
        if node.kind in _DECLARATIONS or (node.kind == "Block" and frame.kind != "block"):
            comment_starts = [
                start for start, end in frame.comments if position <= start and end <= node.start
            ]
            documentation_starts = [start for start in comment_starts if _is_documentation(text, start)]
            if documentation_starts:
                node.start = documentation_starts[-1]
        position = node.end


def _is_documentation(text: str, start: int) -> bool:
    return text.startswith("/**", start) and not text.startswith("/**/", start)


def _bracketed_condition(frame: Frame, text: str) -> Node:
    """Unwrap the condition of a statement, whose brackets are no node."""
    frame.parts = [
        ("condition", node.parts[-1][1])
        if node.kind == "ParenthesizedExpression" and role in ("condition", "") and node.parts
        else (role, node)
        for role, node in frame.parts
    ]
    return frame.node("SwitchExpression" if is_switch_expression(frame) else "")


def _with_parts(select: Callable[[list[Part]], list[Part]]) -> ShapeRule:
    """Build the rule of a node that only takes other parts."""

    def build_node(frame: Frame, text: str) -> Node:
        frame.parts = select(frame.parts)
        return frame.node()

    return build_node


def _local_variables(frame: Frame, text: str) -> Node:
    if frame.role != "init" or not frame.parts:
        return frame.node()
    # In the head of a `for` it is an expression, without the semicolon.
    frame.end = frame.parts[-1][1].end
    return frame.node("VariableDeclarationExpression")


def _enhanced_for_statement(frame: Frame, text: str) -> Node:
    parts = [part for part in frame.parts if part[0] in ("value", "body")]
    declaration_parts = [part for part in frame.parts if part[0] not in ("value", "body")]
    if declaration_parts:
        start, end = declaration_parts[0][1].start, declaration_parts[-1][1].end
        declaration_parts = [part for part in declaration_parts if part[1].kind != "Dimensions"]
        parts.insert(0, ("variable", Node("SingleVariableDeclaration", start, end, declaration_parts)))
    frame.parts = parts
    return frame.node()


def _resource(frame: Frame, text: str) -> Node:
    declaration_parts = [part for part in frame.parts if part[0] not in ("name", "value")]
    inner = [part for part in frame.parts if part[0] in ("name", "value")]
    if not inner:
        return frame.parts[0][1] if len(frame.parts) == 1 else frame.node()
    fragment = Node("VariableDeclarationFragment", inner[0][1].start, frame.end, inner)
    frame.parts = [*declaration_parts, ("declarator", fragment)]
    return frame.node()


def _field_access(frame: Frame, text: str) -> Node:
    """Build ``a.b``: a name if its first part is one, else a field access."""
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


def _array_creation(frame: Frame, text: str) -> Node:
    """Build ``new int[a][] {..}``: the type includes the brackets, whose sizes are parts beside it."""
    sizes = [node for role, node in frame.parts if role == "dimensions"]
    rest = [part for part in frame.parts if part[0] != "dimensions"]
    type_parts = [(index, part) for index, part in enumerate(rest) if part[0] == "type"]
    if type_parts:
        index, (_, element) = type_parts[0]
        end = sizes[-1].end if sizes else element.end
        rest[index] = ("type", Node("ArrayType", element.start, end, [("element", element)]))
        rest[index + 1 : index + 1] = [part for size in sizes for part in size.parts]
    frame.parts = rest
    return frame.node()


def _cast(frame: Frame, text: str) -> Node:
    return _build_cast(frame, merge_types(frame, "IntersectionType"))


def _build_cast(frame: Frame, merged_type: Node | None) -> Node:
    if merged_type:
        frame.parts = [("type", merged_type), *(part for part in frame.parts if part[0] != "type")]
    return frame.node()


def _caught_type(frame: Frame, text: str) -> Node:
    return frame.parts[0][1] if len(frame.parts) == 1 else frame.node()


def _negative_number(frame: Frame, text: str) -> Node:
    operand = frame.parts[-1][1] if frame.parts else None
    is_negative_literal = operand is not None and operand.kind == "NumberLiteral" and frame.operator == "-"
    if operand is not None and is_negative_literal and _SMALLEST.match(text[operand.start : operand.end]):
        frame.parts = []
        return frame.node("NumberLiteral")
    return frame.node()


def _infix(frame: Frame, text: str) -> Node:
    """Build an operation; equal operators all along the left side give it all of their operands.

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
        visible_operands = node.chain = [*(left.chain or [left]), right]
    elif left.kind != "InfixExpression" or left.operator == _STRINGS:
        node.chain = operands
        visible_operands = (
            [*left.chain, right] if left.operator == _STRINGS and frame.operator == "+" else operands
        )
    else:
        if (
            left.operator == frame.operator not in _COMPARES
            and left.chain
            and not _is_operation(left.chain[-1])
        ):
            node.chain = [*left.chain, right]
        visible_operands = node.chain or operands
    roles = ["left", "right", *["further"] * (len(visible_operands) - 2)]
    node.parts = list(zip(roles, visible_operands, strict=True))
    return node


def _is_strings(node: Node) -> bool:
    return node.kind == "StringLiteral" or (node.kind == "InfixExpression" and node.operator == _STRINGS)


def _is_operation(node: Node) -> bool:
    return node.kind == "InfixExpression" and node.operator != _STRINGS


_SHAPES: Mapping[str, ShapeRule] = {
    **dict.fromkeys(
        ("if_statement", "while_statement", "do_statement", "switch_expression"), _bracketed_condition
    ),
    "synchronized_statement": _bracketed_condition,
    "labeled_statement": _with_parts(
        lambda parts: [(role, node) for role, (_, node) in zip(("label", "body"), parts, strict=False)]
    ),
    "local_variable_declaration": _local_variables,
    "enhanced_for_statement": _enhanced_for_statement,
    "spread_parameter": _with_parts(
        lambda parts: [
            inner
            for role, node in parts
            for inner in (node.parts if node.kind == "VariableDeclarationFragment" else [(role, node)])
        ]
    ),
    "resource": _resource,
    "field_access": _field_access,
    "scoped_type_identifier": _scoped_type,
    "method_invocation": _invocation,
    "explicit_constructor_invocation": _with_parts(
        lambda parts: [part for part in parts if part[0] != "constructor"]
    ),
    "array_creation_expression": _array_creation,
    "cast_expression": _cast,
    "catch_type": _caught_type,
    "unary_expression": _negative_number,
    "binary_expression": _infix,
}


_STATEMENTS = frozenset(("block", "constructor_body", "switch_block_statement_group", "labeled_statement"))


_STATEMENT_ROLES = frozenset(("body", "consequence", "alternative"))


def read_tree(source: EncodedText, root: tree_sitter.Node, *, old: bool = False) -> Node:
    """Read the tree of a parsed text; the walk keeps its own stack, so depth costs only memory.

    Args:
        source: The text that was parsed, with the way from its bytes to characters.
        root: What tree-sitter made of it; it should hold no errors.
        old: Whether the tree is to be that of Java 1.3.
    """
    return _Walk(source, old).run(root)


class _Walk:
    def __init__(self, source: EncodedText, old: bool) -> None:
        self._source = source
        self._old = old
        self._names = load_eclipse_names()
        self._frames = [Frame("", "", 0, len(source.text), "")]
        self._methods = 0
        # Whether the outermost method at hand holds what Java 1.3 cannot parse.
        self._lost = False

    def run(self, syntax_root: tree_sitter.Node) -> Node:
        cursor = syntax_root.walk()
        while True:
            node = cursor.node
            assert node is not None
            if self._enter(node, cursor.field_name or ""):
                if cursor.goto_first_child():
                    continue
                self._leave()
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    root = self._frames[0]
                    return Node("CompilationUnit", root.start, root.end, root.parts)
                self._leave()

    def _is_method(self, frame: Frame) -> bool:
        return self._names["nodes"].get(frame.kind) == "MethodDeclaration"

    def _enter(self, node: tree_sitter.Node, role: str) -> bool:
        parent = self._frames[-1]
        kind = node.type
        start, end = self._source.to_character(node.start_byte), self._source.to_character(node.end_byte)
        if kind in self._names["comments"]:
            parent.comments.append((start, end))
            return False
        if not node.is_named:
            _add_token(kind, role, start, end, parent)
            return False
        leaf = self._names["leaves"].get(kind)
        if leaf is not None:
            leaf_node = Node(leaf, start, end)
            if self._old:
                leaf_node, fits = to_older_leaf(leaf_node, self._source.text)
                self._lost = self._lost or not fits
            parent.parts.append((role, leaf_node))
            return False
        frame = Frame(kind, role, start, end, parent.kind)
        if self._is_method(frame):
            self._lost = self._lost and self._methods > 0
            self._methods += 1
        self._frames.append(frame)
        return True

    def _leave(self) -> None:
        frame = self._frames.pop()
        parent = self._frames[-1]
        parts = build_parts(frame, self._source.text, self._old)
        self._lost = self._lost or parts is None
        if self._is_method(frame):
            self._methods -= 1
            if self._lost and self._methods == 0 and parts:
                _remove_body(parts[0][1])
        parent.parts.extend(parts or ())


def _add_token(kind: str, role: str, start: int, end: int, parent: Frame) -> None:
    """Take what the words between nodes say: modifiers, operators, `else`, lone semicolons."""
    if parent.kind == "modifiers":
        parent.parts.append(("modifier", Node("Modifier", start, end)))
    elif role == "operator":
        parent.operator = kind
    elif kind == "else":
        parent.parts.append(("else", Node("Else", start, end)))
    elif kind == ";" and (parent.kind in _STATEMENTS or role in _STATEMENT_ROLES):
        parent.parts.append((role, Node("EmptyStatement", start, end)))
    elif kind in (":", "->") and parent.parts and parent.parts[-1][1].kind == "SwitchCase":
        parent.parts[-1][1].end = end


def _remove_body(method: Node) -> None:
    for role, node in method.parts:
        if role == "body":
            node.parts.clear()


_NEW_NUMBER = re.compile(r"0[bB]|.*_|0[xX].*[pP]", re.DOTALL)


# What Java 1.3 cannot parse, what Eclipse's level JLS3 leaves out, and what is an empty leaf to it.
_UNKNOWN = frozenset(
    (
        *("enum_declaration", "record_declaration", "annotation_type_declaration"),
        *("template_expression", "type_pattern", "guard"),
    )
)


_NAMES_ONCE = {"assert_statement": "assert", "yield_statement": "yield"}


_EMPTY = frozenset(("lambda_expression", "method_reference"))


def to_older_leaf(leaf: Node, text: str) -> tuple[Node, bool]:
    """Convert a leaf to Java 1.3, and tell whether it can be parsed there."""
    leaf_text = text[leaf.start : leaf.end]
    if leaf.kind == "NumberLiteral":
        return leaf, not _NEW_NUMBER.match(leaf_text)
    if leaf.kind != "StringLiteral":
        return leaf, True
    if leaf_text.startswith('"""'):
        return Node("NullLiteral", leaf.start, leaf.end), True
    return leaf, "\n" not in leaf_text and "\r" not in leaf_text


def is_unknown(frame: Frame) -> bool:
    """Return whether Java 1.3 cannot parse a node.

    There, ``assert`` and ``yield`` are names, see `_statement_as_name`.
    """
    if frame.kind in _NAMES_ONCE:
        kinds = [node.kind for _, node in frame.parts]
        return kinds not in (["ParenthesizedExpression"], ["SimpleName"])
    return frame.kind in _UNKNOWN or (frame.kind == "pattern" and frame.parent_kind == "switch_label")


def is_absent(frame: Frame) -> bool:
    """Return whether a node of the grammar is missing in the tree."""
    return frame.kind == "resource_specification" or (
        frame.kind == "interface_declaration" and frame.parent_kind == "block"
    )


def is_empty(frame: Frame) -> bool:
    """Return whether a node of the grammar is a leaf, whatever it contains."""
    return frame.kind in _EMPTY or is_switch_expression(frame)


def _statement_as_name(frame: Frame, text: str) -> Node:
    """Read ``assert (x);`` as a call of ``assert``, and ``assert x;`` as a declaration of that type."""
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
    """Drop a pattern's name, which ends nothing."""
    frame.parts = [(role, node) for role, (_, node) in zip(("left", "right"), frame.parts, strict=False)]
    node = frame.node()
    node.end = frame.parts[-1][1].end
    return node


def _record_pattern(frame: Frame, text: str) -> Node:
    return frame.parts[0][1]


def _caught_before_java_7(frame: Frame, text: str) -> Node:
    return merge_types(frame, "SimpleType", 1) or frame.parts[0][1]


def _cast_before_java_8(frame: Frame, text: str) -> Node:
    return _build_cast(frame, merge_types(frame, "SimpleType", 1))


_OLD_SHAPES: Mapping[str, ShapeRule] = {
    **dict.fromkeys(_NAMES_ONCE, _statement_as_name),
    "instanceof_expression": _instanceof,
    "record_pattern": _record_pattern,
    "switch_label": _with_parts(lambda parts: parts[:1]),
    # Of the statement in `case 1 -> f();` only the position is left.
    "switch_rule": _with_parts(
        lambda parts: [
            (
                role,
                Node("EmptyStatement", node.start, node.end) if node.kind == "ExpressionStatement" else node,
            )
            for role, node in parts
        ]
    ),
    "catch_type": _caught_before_java_7,
    "cast_expression": _cast_before_java_8,
    "annotated_type": _with_parts(lambda parts: [part for part in parts if part[1].kind != "Annotation"]),
}
