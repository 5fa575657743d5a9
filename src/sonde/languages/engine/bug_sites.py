"""Sites for CuBERT's bugs in a function: variables, binary operators and caught exceptions.

Variables are resolved by a language's ``locals.scm`` (see `sonde.languages.engine.names`). Its ``bugs.scm``
captures:

- ``@string``: literals that may contain code, each a single token;
- ``@operation``: nodes with two operands and an operator between them, or a chain of these;
- ``@caught``: names of exception types in a handler;
- ``@documentation``: the statement of a definition that is only its documentation.

``bugs.toml`` holds the rows of interchangeable operators, those whose operands may be swapped, the exception
types, and the body that replaces one of documentation only.

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
"""Kinds of definitions whose names count as variables: parameters and targets of assignments."""


_PLACES = _DEFINED | {"deleted"}
"""Kinds of definitions that are occurrences of a variable; all other occurrences are references."""


class Spot(NamedTuple):
    """A span of a text, in characters, with its surface."""

    start: int
    end: int
    surface: str


@dataclass(frozen=True, slots=True)
class OwnVariables:
    """The variables that a function defines.

    Attributes:
        names: Their names, sorted.
        uses: Occurrences that read a variable, in text order.
        places: Occurrences that read, define or delete a variable, in text order; none in a literal.
    """

    names: tuple[str, ...]
    uses: tuple[Spot, ...]
    places: tuple[Spot, ...]


class Operation(NamedTuple):
    """A binary operator with its operands; ``operator.surface`` has a single space between words."""

    operator: Spot
    left: Spot
    right: Spot
    chained: bool

    @property
    def start(self) -> int:
        """Return the first character of the left operand."""
        return self.left.start

    @property
    def end(self) -> int:
        """Return the position one past the right operand."""
        return self.right.end


@runtime_checkable
class Bugs(Protocol):
    """The facet ``bugs`` of a language: sites where bugs may be inserted."""

    @property
    def version(self) -> str:
        """Return the version, which is raised when a result changes."""
        ...

    @property
    def rows(self) -> Mapping[str, tuple[str, ...]]:
        """Return, for each binary operator, the operators that may replace it."""
        ...

    @property
    def swappable(self) -> frozenset[str]:
        """Return the operators for which swapping the operands changes the value."""
        ...

    @property
    def exceptions(self) -> tuple[str, ...]:
        """Return the exception types to predict; empty if the language has no such task."""
        ...

    def variables(self, text: str) -> OwnVariables:
        """Return the variables that a function defines."""
        ...

    def replacements(self, text: str, use: Spot) -> tuple[str, ...]:
        """Return the function's other variables that may be read at a use, sorted."""
        ...

    def operations(self, text: str) -> tuple[Operation, ...]:
        """List the binary operators of `rows` with their operands, in text order."""
        ...

    def caught(self, text: str) -> tuple[Spot, ...]:
        """List the names of `exceptions` in handlers, in text order."""
        ...

    def undocumented(self, text: str) -> str:
        """Remove the documentation inside a function."""
        ...

    def parses(self, text: str) -> bool:
        """Return whether a text parses without an error."""
        ...


class QueryBugs:
    """A `BugSites` by a folder's ``bugs.scm`` and ``bugs.toml``.

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
        """Return the version, which is raised when a result changes."""
        return str(self._raw.get("version", 1))

    @cached_property
    def rows(self) -> Mapping[str, tuple[str, ...]]:
        """Return, for each operator, the others of its row."""
        return {
            operator: tuple(other for other in row if other != operator)
            for row in self._raw.get("rows", ())
            for operator in row
        }

    @cached_property
    def swappable(self) -> frozenset[str]:
        """Return the operators for which swapping the operands changes the value."""
        return frozenset(self._raw.get("swappable", ()))

    @cached_property
    def exceptions(self) -> tuple[str, ...]:
        """Return the exception types to predict."""
        return tuple(self._raw.get("exceptions", ()))

    def variables(self, text: str) -> OwnVariables:
        """Return the variables that a function defines."""
        return self._variables(text)

    def replacements(self, text: str, use: Spot) -> tuple[str, ...]:
        """Return the function's other variables that may be read at a use."""
        seen = facet_of(self._language.name, "flow", Flow).visible(text, use.start)
        return tuple(name for name in self.variables(text).names if name != use.surface and name in seen)

    def operations(self, text: str) -> tuple[Operation, ...]:
        """List the binary operators of `rows` with their operands."""
        return self._operations(text)

    def caught(self, text: str) -> tuple[Spot, ...]:
        """List the names of `exceptions` in handlers."""
        source = self._language.syntax(text)[0]
        caught = sorted(_spot(node, source) for node in self._captured(text).get("caught", ()))
        return tuple(spot for spot in caught if spot.surface in self.exceptions)

    def undocumented(self, text: str) -> str:
        """Remove the documentation of the first definition in a function."""
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
        """Return whether a text parses without an error."""
        return not self._language.syntax(text)[1].root_node.has_error

    def _capture(self, text: str) -> Mapping[str, list[tree_sitter.Node]]:
        root = self._language.syntax(text)[1].root_node
        return dict(self._language.grammar.captures("bugs", root))

    def _literals(self, text: str) -> list[Spot]:
        """List the literals that may contain code, in text order."""
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
    """Yield each operator of a node with the operands before and after it."""
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
    """Collect the variables that the text defines, with all their occurrences, visible or not."""
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
    """Build the facet ``bugs``, or ``misuse`` for a language that has only `locals.scm`."""
    return QueryBugs(language)
