"""Eclipse's tree of a Java method by plain recursion, to compare with; nothing of `sonde` is in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tree_sitter
import tree_sitter_java

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_java.language()))
Position = tuple[str, int, int, int]


class UnknownError(Exception):
    """Java 1.3 cannot parse this."""


@dataclass
class N:
    """A node of Eclipse's tree: what stands under it, and by name what relations join."""

    start: int
    end: int
    kids: list[N] = field(default_factory=list)
    construct: str = ""
    ends: dict[str, N | None] = field(default_factory=dict)


def over(nodes: list[N]) -> N | None:
    return N(nodes[0].start, nodes[-1].end) if nodes else None


class Eclipse:
    """Eclipse's tree at its level JLS3 for Java 1.3, by recursion; for methods of plain ASCII."""

    def __init__(self, code: str) -> None:
        self.data = b"public class A {\n" + code.encode("ascii") + b"\n}"
        self.empty: Any = None
        self.known: dict[int, list[N]] = {}
        self.body = PARSER.parse(self.data).root_node.children[0].child_by_field_name("body")

    def positions(self) -> list[Position]:
        found: list[Position] = []
        for member in real(self.body):
            try:
                (node,) = self.read(member)
            except UnknownError:
                self.empty = member.child_by_field_name("body")
                self.known.clear()
                (node,) = self.read(member)
            walk(node, found)
        return found

    def text(self, node: Any) -> bytes:
        return self.data[node.start_byte : node.end_byte]

    def all(self, node: Any, *names: str) -> list[N]:
        nodes = [child for name in names for child in node.children_by_field_name(name)]
        return [found for child in nodes for found in self.read(child)]

    def kids(self, node: Any) -> list[N]:
        return [found for child in real(node) for found in self.read(child)]

    def read(self, node: Any) -> list[N]:
        """Usually one node; none for what Eclipse leaves out, several for what it has no node around."""
        if node.id not in self.known:
            self.known[node.id] = self.found(node)
        return self.known[node.id]

    def found(self, node: Any) -> list[N]:
        kind = node.type
        if kind in UNKNOWN or (
            kind.endswith("_literal") and "string" not in kind and b"_" in self.text(node)
        ):
            raise UnknownError
        if (
            kind in ABSENT
            or kind.endswith("_comment")
            or (kind == "interface_declaration" and in_block(node))
        ):
            return []
        if kind == "modifiers":
            words = [c for c in node.children if not c.type.endswith("_comment")]
            return [self.read(c)[0] if c.is_named else N(c.start_byte, c.end_byte) for c in words]
        if kind in SPLICED and not (
            kind == "class_body" and node.parent.type == "object_creation_expression"
        ):
            return self.kids(node)
        made = N(self.begin(node), node.end_byte)
        if kind in LEAVES or (kind == "switch_expression" and node.parent.type not in HOLDERS):
            if kind == "string_literal" and b"\n" in self.text(node) and self.text(node)[:3] != b'"""':
                raise UnknownError
            # What is inside is not there, but has to parse.
            self.kids(node)
            return [made]
        if node == self.empty:
            return [made]
        getattr(self, kind, self.plain)(node, made)
        return [made]

    def begin(self, node: Any) -> int:
        """A declaration begins with its documentation."""
        documented = node.type.endswith("_declaration") and not node.type.startswith("local")
        before = node.prev_sibling if documented else None
        while before is not None and before.type.endswith("_comment"):
            if self.text(before).startswith(b"/**") and len(self.text(before)) > 4:
                return before.start_byte
            before = before.prev_sibling
        return node.start_byte

    def plain(self, node: Any, made: N) -> None:
        made.kids = self.kids(node)

    def test(self, node: Any) -> list[N]:
        """A condition without its brackets."""
        brackets = node.child_by_field_name("condition") or real(node)[0]
        return self.kids(brackets)

    def if_statement(self, node: Any, made: N) -> None:
        test, body, orelse = self.test(node), self.all(node, "consequence"), self.all(node, "alternative")
        word = next((N(c.start_byte, c.end_byte) for c in node.children if c.type == "else"), None)
        made.kids, made.construct = [*test, *body, *orelse], "If"
        made.ends = {"if": made, "else": word, "test": over(test), "body": over(body), "orelse": over(orelse)}

    def while_statement(self, node: Any, made: N) -> None:
        test, body = self.test(node), self.all(node, "body")
        made.kids, made.construct = [*test, *body], "While"
        made.ends = {"while": made, "test": over(test), "body": over(body)}

    def do_statement(self, node: Any, made: N) -> None:
        test, body = self.test(node), self.all(node, "body")
        made.kids, made.construct = [*body, *test], "Do"
        made.ends = {"do": made, "body": over(body), "test": over(test)}

    def for_statement(self, node: Any, made: N) -> None:
        parts = [self.all(node, name) for name in ("init", "condition", "update", "body")]
        if parts[0] and node.child_by_field_name("init").type == "local_variable_declaration":
            parts[0][0].end = parts[0][0].kids[-1].end
        made.kids, made.construct = [node for part in parts for node in part], "For"
        names = ("initializers", "test", "updaters", "body")
        made.ends = {"for": made, **dict(zip(names, map(over, parts), strict=True))}

    def enhanced_for_statement(self, node: Any, made: N) -> None:
        nodes = [c for c in real(node) if c not in (node.child_by_field_name(n) for n in ("value", "body"))]
        declared = [found for child in nodes for found in self.read(child)]
        variable = N(declared[0].start, declared[-1].end, declared)
        made.kids = [variable, *self.all(node, "value", "body")]

    def synchronized_statement(self, node: Any, made: N) -> None:
        made.kids = [*self.test(node), *self.all(node, "body")]

    def labeled_statement(self, node: Any, made: N) -> None:
        made.kids = [found for child in solid(node) for found in self.read(child)]
        made.construct, made.ends = "LabeledStatement", {"label": made.kids[0], "body": made.kids[-1]}

    def try_statement(self, node: Any, made: N) -> None:
        made.kids = self.kids(node)
        handlers = [f for c in real(node) if c.type == "catch_clause" for f in self.read(c)]
        final = [f for c in real(node) if c.type == "finally_clause" for f in self.read(c)]
        ends = {"body": over(self.all(node, "body")), "handler": over(handlers), "finalbody": over(final)}
        made.construct, made.ends = "Try", ends

    try_with_resources_statement = try_statement

    def switch_expression(self, node: Any, made: N) -> None:
        inside: list[N] = []
        for group in real(node.child_by_field_name("body")):
            for child in solid(group):
                if child.type == "switch_label":
                    inside.append(N(child.start_byte, child.next_sibling.end_byte, self.kids(child)[:1]))
                elif group.type == "switch_rule" and child.type == "expression_statement":
                    inside.append(N(child.start_byte, child.end_byte))
                else:
                    inside += self.read(child)
        test = self.test(node)
        made.kids = [*test, *inside]
        if inside:
            made.construct = "Switch"
            made.ends = {"switch": made, "expr": over(test), "statement": over(inside)}

    def block(self, node: Any, made: N) -> None:
        made.kids = [found for child in solid(node) for found in self.read(child)]

    constructor_body = block

    def assert_statement(self, node: Any, made: N) -> None:
        """To Java 1.3 `assert` is a name: of a method, or of a type; and `yield` is."""
        asserted = real(node)
        if [c.type for c in asserted] == ["parenthesized_expression"]:
            inner = self.kids(asserted[0])
            call = N(made.start, asserted[0].end_byte, inner, "Call")
            call.ends = {"func": N(made.start, made.start + 5), "args": over(inner)}
            made.kids = [call]
        elif [c.type for c in asserted] == ["identifier"]:
            made.kids = self.kids(node)
        else:
            raise UnknownError

    yield_statement = assert_statement

    def method_invocation(self, node: Any, made: N) -> None:
        made.kids = self.kids(node)
        if all(child.type != "super" for child in node.children):
            made.construct = "Call"
            arguments = self.kids(node.child_by_field_name("arguments"))
            name = over(self.all(node, "name"))
            made.ends = {
                "func": name,
                "args": over(arguments),
                "value": over(self.all(node, "object")),
                "attr": name,
            }

    def explicit_constructor_invocation(self, node: Any, made: N) -> None:
        made.kids = [*self.all(node, "object", "type_arguments", "arguments")]

    def assignment_expression(self, node: Any, made: N) -> None:
        made.kids, made.construct = self.kids(node), "Assign"
        made.ends = {"target": made.kids[0], "value": made.kids[1]}

    def array_access(self, node: Any, made: N) -> None:
        made.kids, made.construct = self.kids(node), "Subscript"
        made.ends = {"value": made.kids[0], "slice": made.kids[1]}

    def ternary_expression(self, node: Any, made: N) -> None:
        made.kids, made.construct = self.kids(node), "IfExp"
        made.ends = dict(zip(("test", "body", "orelse"), made.kids, strict=True))

    def instanceof_expression(self, node: Any, made: N) -> None:
        made.kids, made.construct = self.kids(node)[:2], "InstanceofExpr"
        made.ends, made.end = dict(zip(("expr", "type"), made.kids, strict=True)), made.kids[1].end

    def unary_expression(self, node: Any, made: N) -> None:
        smallest = (b"2147483648", b"9223372036854775808L", b"9223372036854775808l")
        negative = self.text(node).startswith(b"-") and self.text(real(node)[0]) in smallest
        made.kids = [] if negative else self.kids(node)

    def binary_expression(self, node: Any, made: N) -> None:
        joined = self.joined(node)
        if joined:
            made.kids = [self.read(child)[0] for child in joined]
        else:
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            made.kids = [found for child in (*self.flat(node, left), right) for found in self.read(child)]
        made.construct, made.end = "InfixExpr", made.kids[-1].end
        made.ends = {"left": made.kids[0], "right": made.kids[1]}

    def sign(self, node: Any) -> bytes:
        return self.text(node.child_by_field_name("operator"))

    def joined(self, node: Any) -> list[Any]:
        """The string literals that are all there is; empty where there is more."""
        if node.type == "string_literal":
            return [node]
        if node.type != "binary_expression" or self.sign(node) != b"+":
            return []
        left, right = (self.joined(node.child_by_field_name(name)) for name in ("left", "right"))
        return left + right if left and len(right) == 1 else []

    def flat(self, node: Any, left: Any) -> list[Any]:
        """The operands on the left."""
        if len(self.joined(left)) > 1 and self.sign(node) == b"+":
            return self.joined(left)
        found: list[Any] = []
        spine = left
        while spine.type == "binary_expression" and not self.joined(spine):
            inner = spine.child_by_field_name("right")
            split = inner.type == "binary_expression" and not self.joined(inner)
            if self.sign(spine) != self.sign(node) or self.sign(node) in (b"==", b"!=") or split:
                return [left]
            found.insert(0, inner)
            spine = spine.child_by_field_name("left")
        return [spine, *found]

    def field_access(self, node: Any, made: N) -> None:
        made.kids = self.kids(node)[: 1 if node.child_by_field_name("field").type == "this" else None]

    def array_creation_expression(self, node: Any, made: N) -> None:
        element = self.all(node, "type")[0]
        sizes = node.children_by_field_name("dimensions")
        kind = N(element.start, sizes[-1].end_byte if sizes else element.end, [element])
        inside = [found for size in sizes if size.type == "dimensions_expr" for found in self.kids(size)]
        made.kids = [kind, *inside, *self.all(node, "value")]

    def catch_type(self, node: Any, made: N) -> None:
        made.kids = self.kids(node)[:1]
        if len(real(node)) == 1:
            made.kids = made.kids[0].kids

    def spread_parameter(self, node: Any, made: N) -> None:
        made.kids = [k for f in self.kids(node) for k in (f.kids if f.end == made.end and f.kids else [f])]


def walk(node: N, found: list[Position]) -> None:
    def add(relation: str, head: N | None, dependent: N | None) -> None:
        if head and dependent and 17 < head.start < dependent.start:
            found.append((relation, head.start - 17, dependent.start - 17, dependent.end - 17))

    for relation in RELATIONS:
        construct, joined = relation.split(":")
        head, dependent = joined.split("->")
        of = "Call" if construct == "Attribute" else construct
        if node.construct == of and head in node.ends and dependent in node.ends:
            add(relation, node.ends[head], node.ends[dependent])
    for kid in node.kids:
        add("children:parent->child", node, kid)
        walk(kid, found)


def real(node: Any) -> list[Any]:
    return [child for child in node.named_children if not child.type.endswith("_comment")]


def solid(node: Any) -> list[Any]:
    """Statements, the empty ones included."""
    return [c for c in node.children if c.type == ";" or (c.is_named and not c.type.endswith("_comment"))]


def in_block(node: Any) -> bool:
    return node.parent.type == "block"


LEAVES = {
    *("lambda_expression", "method_reference", "string_literal", "character_literal", "identifier", ";"),
    *("type_identifier", "this", "integral_type", "floating_point_type", "boolean_type"),
}
UNKNOWN = {"enum_declaration", "record_declaration", "binary_integer_literal", "hex_floating_point_literal"}
ABSENT = {"resource_specification", "receiver_parameter", "super", "dimensions"}
SPLICED = {
    *("formal_parameters", "argument_list", "type_arguments", "type_parameters", "type_bound", "class_body"),
    *("throws", "superclass", "super_interfaces", "extends_interfaces", "type_list", "finally_clause"),
    *("annotation_argument_list", "interface_body"),
}
HOLDERS = {
    *("block", "constructor_body", "switch_block_statement_group", "switch_rule", "if_statement"),
    *("labeled_statement", "while_statement", "for_statement", "enhanced_for_statement", "do_statement"),
}
RELATIONS = (
    *("If:if->else", "If:if->test", "If:if->body", "If:test->body", "If:test->orelse", "If:body->orelse"),
    *("While:while->test", "While:while->body", "While:test->body", "Do:do->body", "Do:do->test"),
    *("Do:body->test", "For:for->body", "For:for->test", "For:for->initializers", "For:for->updaters"),
    *("For:initializers->test", "For:initializers->updaters", "For:initializers->body"),
    *("For:test->updaters", "For:test->body", "For:updaters->body", "Try:body->handler"),
    *("Try:body->finalbody", "Try:handler->finalbody", "IfExp:test->body", "IfExp:test->orelse"),
    *("IfExp:body->orelse", "Switch:switch->expr", "Switch:switch->statement", "Switch:expr->statement"),
    *("Call:func->args", "Attribute:value->attr", "Assign:target->value", "Subscript:value->slice"),
    *("InstanceofExpr:expr->type", "InfixExpr:left->right", "LabeledStatement:label->body"),
)
