"""NPath: the number of acyclic execution paths (Nejmeh 1988), bottom up over the statements that branch.

Values of statements in a row multiply; what one statement is worth is said by its language. A value of 0
stands for "nothing yet", so that a language can tell an empty row from one with a single path.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import tree_sitter

from sonde.languages._leaves import nested


@runtime_checkable
class ExecutionPaths(Protocol):
    """The facet ``npath`` of a language."""

    def count(self, text: str) -> int:
        """Number of acyclic execution paths through a function."""
        ...


class OperatorPaths:
    """Operators with what each adds to the paths of the expression around it.

    Args:
        signs: Expressions of a logical operator, one path each.
        ternaries: Conditional expressions, two paths each.
    """

    def __init__(self, signs: list[tree_sitter.Node], ternaries: list[tree_sitter.Node]) -> None:
        self._listed = sorted(
            [(node.start_byte, node.end_byte, 1) for node in signs]
            + [(node.start_byte, node.end_byte, 2) for node in ternaries]
        )

    def between(self, start: int, end: int) -> int:
        """What the operators between two bytes add."""
        first = bisect_left(self._listed, (start,))
        last = bisect_left(self._listed, (end,))
        return sum(weight for _, stop, weight in self._listed[first:last] if stop <= end)


@dataclass(slots=True, eq=False)
class Branching:
    """A statement or expression that branches.

    Attributes:
        node: Its node.
        parts: The regions directly inside, in text order.
        around: The region around it.
        value: What it is worth; the paths of the row before it are multiplied by this.
        after: What is added to the row before it first (0 in Nejmeh's rule).
    """

    node: tree_sitter.Node
    parts: list[Branching] = field(default_factory=list)
    around: Branching | None = None
    value: int = 0
    after: int = 0

    def within(self, *places: tree_sitter.Node | None) -> list[Branching]:
        """The direct parts that lie in any of the places, in text order."""
        return [
            part
            for part in self.parts
            if any(
                place is not None
                and place.start_byte <= part.node.start_byte
                and part.node.end_byte <= place.end_byte
                for place in places
            )
        ]

    def above(self) -> Iterator[Branching]:
        """The regions around this one, innermost first."""
        region = self.around
        while region is not None:
            yield region
            region = region.around


def paths(nodes: list[tree_sitter.Node], rule: Callable[[Branching], None]) -> int:
    """The number of paths through a row of statements.

    Args:
        nodes: Everything that branches.
        rule: Sets ``value`` (and ``after``) of a region whose parts are done.
    """
    regions: list[Branching] = []
    top: list[Branching] = []
    for node, above in nested(nodes):
        region = Branching(node, around=regions[above] if above >= 0 else None)
        (top if above < 0 else regions[above].parts).append(region)
        regions.append(region)
    # Inner regions stand after outer ones, so no depth of nesting costs the interpreter's stack.
    for region in reversed(regions):
        rule(region)
    return max(row(top), 1)


def row(parts: list[Branching], start: int = 0) -> int:
    """The value of statements in a row, beginning with ``start``; 0 where none counts."""
    value = start
    for part in parts:
        if part.value:
            value = part.value * (value + part.after if part.after else max(value, 1))
    return value


def branch(region: Branching, place: tree_sitter.Node | None) -> int:
    """Paths through one part of a region, at least one."""
    return max(row(region.within(place)), 1)


def ancestors(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The nodes around a node, innermost first."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent
