"""Nodes in the shape of Eclipse's tree, and what a walk over the grammar's tree knows on its way there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from sonde.languages._settings import read_table

Part = tuple[str, "Node"]

# Where a `switch` is a statement; elsewhere it is an expression.
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
        chain: The operands that an equal operation around takes over, see `shapes`.
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

    def all(self, *roles: str) -> list[Node]:
        """The parts with one of these roles, in order."""
        return [node for role, node in self.parts if role in roles]

    def one(self, role: str) -> Node | None:
        """The first part with this role."""
        return next((node for found, node in self.parts if found == role), None)


@dataclass(slots=True, eq=False)
class Frame:
    """A node of the grammar that the walk is inside of, with what is known of it so far.

    Attributes:
        kind: The grammar's name of it.
        role: The field that it is in, or empty.
        start: First character.
        end: One past the last character.
        around: The grammar's name of the node around it.
        parts: Its parts so far.
        comments: First character and end of each comment directly in it.
        operator: Its operator, where it has one.
    """

    kind: str
    role: str
    start: int
    end: int
    around: str
    parts: list[Part] = field(default_factory=list)
    comments: list[tuple[int, int]] = field(default_factory=list)
    operator: str = ""

    def node(self, kind: str = "") -> Node:
        """The node under its name in Eclipse's tree, or under another."""
        name = kind or tables().nodes.get(self.kind, self.kind)
        return Node(name, self.start, self.end, self.parts, operator=self.operator)


Shaped = Callable[[Frame, str], Node]
"""A node's shape by its frame and the text."""


@dataclass(frozen=True, slots=True)
class Older:
    """An older Java in the same tree: what it makes of newer constructs.

    Attributes:
        leaf: A leaf as it has it, and whether it can be parsed there.
        is_unknown: Whether it cannot parse a node.
        is_left_out: Whether a node is not in the tree at all.
        is_empty: Whether a node is a leaf, whatever it holds.
        shapes: Shapes of its own by the grammar's name of a node.
    """

    leaf: Callable[[Node, str], tuple[Node, bool]]
    is_unknown: Callable[[Frame], bool]
    is_left_out: Callable[[Frame], bool]
    is_empty: Callable[[Frame], bool]
    shapes: Mapping[str, Shaped]


@dataclass(frozen=True, slots=True)
class RelationTables:
    """What `eclipse.toml` says of the grammar.

    Attributes:
        open: Grammar nodes whose children stand under the node around them.
        comments: Grammar nodes that are comments.
        leaves: Names in Eclipse's tree of grammar nodes that nothing stands under.
        nodes: The same of other nodes.
    """

    open: frozenset[str]
    comments: frozenset[str]
    leaves: dict[str, str]
    nodes: dict[str, str]


@cache
def tables() -> RelationTables:
    """The tables of `eclipse.toml`, read once."""
    data = read_table("sonde.papers.codesyntax.java", "eclipse")
    leaves: dict[str, list[str]] = data["leaves"]
    nodes: dict[str, list[str]] = data["nodes"]
    return RelationTables(
        open=frozenset(data["open"]),
        comments=frozenset(data["comments"]),
        leaves={kind: name for name, kinds in leaves.items() for kind in kinds},
        nodes={kind: name for name, kinds in nodes.items() for kind in kinds},
    )


def several_types(frame: Frame, kind: str) -> Node | None:
    """All types of a cast or of a caught exception as one node; None for a single one."""
    types = [node for role, node in frame.parts if role == "type" or frame.kind == "catch_type"]
    if len(types) < 2:
        return None
    return Node(kind, types[0].start, types[-1].end, [("type", node) for node in types])


def is_switch_expression(frame: Frame) -> bool:
    """Whether a node of the grammar is a ``switch`` that gives a value."""
    return frame.kind == "switch_expression" and frame.around not in _HOLD_STATEMENTS
