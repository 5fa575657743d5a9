"""Places of a function where CuBERT's bugs are put in: variables, binary operators, caught exceptions.

Where variables are defined and meant is said in a language's ``locals.scm`` (`_locals`). Its ``bugs.scm``
captures:

- ``@string`` literals in which code may stand, which are one token;
- ``@operation`` nodes with two operands and an operator between them, or several of each in a row;
- ``@caught`` names of types of exceptions in a handler;
- ``@documentation`` the statement of a definition that is nothing but its documentation.

``bugs.toml`` holds the rows of operators that replace one another, which of them may be swapped, the types of
exceptions, and what stands for a body that held documentation alone.

Kanade et al. 2020, appendix B.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import tree_sitter

from sonde.languages.engine.components import facet_of
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.names import Locals
from sonde.languages.engine.text import EncodedText, Kept
from sonde.languages.engine.tokens import ParsedText
from sonde.languages.engine.treesitter import TreeSitterLanguage

_DEFINED = frozenset(("parameter", "variable", "expression", "assigned", "again"))
"""Kinds of definitions whose names are variables here: formal arguments and targets of assignments."""


_PLACES = _DEFINED | {"deleted"}
"""Kinds of definitions that are places of a variable; every other place is a reference."""


class Spot(NamedTuple):
    """Characters of a text and what stands there."""

    start: int
    end: int
    surface: str


@dataclass(frozen=True, slots=True)
class OwnVariables:
    """Variables that a function defines itself.

    Attributes:
        names: Their names, sorted.
        uses: Where the value of one is read, in text order.
        places: Where one is read, defined or deleted, in text order; never inside a literal.
    """

    names: tuple[str, ...]
    uses: tuple[Spot, ...]
    places: tuple[Spot, ...]


class Operation(NamedTuple):
    """A binary operator with its operands; ``operator.surface`` has one blank between two words."""

    operator: Spot
    left: Spot
    right: Spot
    chained: bool

    @property
    def start(self) -> int:
        """First character of the left operand."""
        return self.left.start

    @property
    def end(self) -> int:
        """One past the last character of the right operand."""
        return self.right.end


@runtime_checkable
class Bugs(Protocol):
    """The facet ``bugs`` of a language."""

    @property
    def version(self) -> str:
        """Raised when an answer changes."""
        ...

    @property
    def rows(self) -> Mapping[str, tuple[str, ...]]:
        """For each binary operator, the others that may stand in its place."""
        ...

    @property
    def swappable(self) -> frozenset[str]:
        """Operators whose operands may not be swapped without changing the value."""
        ...

    @property
    def exceptions(self) -> tuple[str, ...]:
        """Types of exceptions that are asked for; empty where the language has no such task."""
        ...

    def variables(self, text: str) -> OwnVariables:
        """The variables that a function defines."""
        ...

    def replacements(self, text: str, use: Spot) -> tuple[str, ...]:
        """The other variables that a function defines and that may be read at a use, sorted."""
        ...

    def operations(self, text: str) -> tuple[Operation, ...]:
        """Binary operators of `rows`, in text order."""
        ...

    def caught(self, text: str) -> tuple[Spot, ...]:
        """Types of `exceptions` in handlers, in text order."""
        ...

    def undocumented(self, text: str) -> str:
        """A function without the documentation inside it."""
        ...

    def parses(self, text: str) -> bool:
        """Whether a text parses without an error."""
        ...


class QueryBugs:
    """`Bugs` by a folder's ``bugs.scm`` and ``bugs.toml``.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._raw = language.table("bugs")
        self._captured = Kept(self._capture)
        self._variables = Kept(self._find_variables)
        self._operations = Kept(self._find_operations)

    @property
    def version(self) -> str:
        """Raised when an answer changes."""
        return str(self._raw.get("version", 1))

    @cached_property
    def rows(self) -> Mapping[str, tuple[str, ...]]:
        """For each operator, the others of its row."""
        return {
            operator: tuple(other for other in row if other != operator)
            for row in self._raw.get("rows", ())
            for operator in row
        }

    @cached_property
    def swappable(self) -> frozenset[str]:
        """Operators whose operands may not be swapped."""
        return frozenset(self._raw.get("swappable", ()))

    @cached_property
    def exceptions(self) -> tuple[str, ...]:
        """Types of exceptions."""
        return tuple(self._raw.get("exceptions", ()))

    def variables(self, text: str) -> OwnVariables:
        """The variables that a function defines."""
        return self._variables(text)

    def replacements(self, text: str, use: Spot) -> tuple[str, ...]:
        """The other variables that a function defines and that may be read at a use."""
        seen = facet_of(self._language.name, "flow", Flow).visible(text, use.start)
        return tuple(name for name in self.variables(text).names if name != use.surface and name in seen)

    def operations(self, text: str) -> tuple[Operation, ...]:
        """Binary operators of `rows`."""
        return self._operations(text)

    def caught(self, text: str) -> tuple[Spot, ...]:
        """Types of `exceptions` in handlers."""
        source = self._language.syntax(text)[0]
        caught = sorted(_spot(node, source) for node in self._captured(text).get("caught", ()))
        return tuple(spot for spot in caught if spot.surface in self.exceptions)

    def undocumented(self, text: str) -> str:
        """A function without the documentation inside it, that of the first definition."""
        source = self._language.syntax(text)[0]
        found = self._captured(text).get("documentation", ())
        for node in sorted(found, key=lambda node: node.start_byte)[:1]:
            following = node.next_named_sibling
            start = source.at(node.start_byte)
            behind = following
            while behind is not None and behind.is_extra:
                behind = behind.next_named_sibling
            if following is not None and behind is not None:
                return text[:start] + text[source.at(following.start_byte) :]
            return text[:start] + self._raw["empty_body"] + text[source.at(node.end_byte) :]
        return text

    def parses(self, text: str) -> bool:
        """Whether a text parses without an error."""
        return not self._language.syntax(text)[1].root_node.has_error

    def _capture(self, text: str) -> Mapping[str, list[tree_sitter.Node]]:
        root = self._language.syntax(text)[1].root_node
        return dict(self._language.grammar.captures("bugs", root))

    def _literals(self, text: str) -> list[Spot]:
        """Literals in which code may stand, in text order."""
        source = self._language.syntax(text)[0]
        return sorted(_spot(node, source) for node in self._captured(text).get("string", ()))

    def _find_variables(self, text: str) -> OwnVariables:
        return _variables(self._language.reading(text), self._language.locals(text), self._literals(text))

    def _find_operations(self, text: str) -> tuple[Operation, ...]:
        source, literals = self._language.syntax(text)[0], self._literals(text)
        return tuple(
            sorted(
                operation
                for node in self._captured(text).get("operation", ())
                for operation in _operations(node, source)
                if operation.operator.surface in self.rows and not _inside(operation.operator, literals)
            )
        )


def _operations(node: tree_sitter.Node, source: EncodedText) -> Iterator[Operation]:
    """Each operator of a node between the operands beside it."""
    children = [child for child in node.children if not child.is_extra]
    for place in range(1, len(children) - 1, 2):
        left, operator, right = children[place - 1 : place + 2]
        sign = _spot(operator, source)
        yield Operation(
            Spot(sign.start, sign.end, " ".join(sign.surface.split())),
            _spot(left, source),
            _spot(right, source),
            chained=len(children) > 3,
        )


def _spot(node: tree_sitter.Node, source: EncodedText) -> Spot:
    start, end = source.at(node.start_byte), source.at(node.end_byte)
    return Spot(start, end, source.text[start:end])


def _variables(reading: ParsedText, held: Locals, literals: list[Spot]) -> OwnVariables:
    """The variables that the text's own definitions of some kinds name, wherever they are visible."""
    outer = {name for scope in held.scopes for name in scope.declared}
    kinds = {node.start_byte: kind for node, kind in held.definitions}
    names = {reading.text(node) for node, kind in held.definitions if kind in _DEFINED} - outer
    places: list[tuple[int, Spot]] = []
    for node, how in held.references:
        byte = node.start_byte
        if not how and kinds.get(byte, "deleted") in _PLACES and (name := reading.text(node)) in names:
            one = Spot(*reading.span(node), name)
            if not _inside(one, literals):
                places.append((byte, one))
    return OwnVariables(
        names=tuple(sorted(names)),
        uses=tuple(one for byte, one in places if byte not in kinds and byte not in held.written),
        places=tuple(one for _, one in places),
    )


def _inside(spot: Spot, literals: list[Spot]) -> bool:
    return any(literal.start < spot.start < literal.end for literal in literals)


def facet(language: TreeSitterLanguage) -> QueryBugs:
    """The facet ``bugs`` of every language with its files; ``misuse`` where variables are told."""
    return QueryBugs(language)
