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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import tree_sitter

from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.language import get_facet
from sonde.languages.engine.names import Locals
from sonde.languages.engine.text import EncodedText, TextCache
from sonde.languages.engine.tokens import ParsedText
from sonde.languages.engine.treesitter import TreeSitterLanguage

_DEFINITION_KINDS = frozenset(("parameter", "variable", "expression", "assigned", "again"))
"""Kinds of definitions whose names count as variables: parameters and targets of assignments."""


_OCCURRENCE_KINDS = _DEFINITION_KINDS | {"deleted"}
"""Kinds of definitions that are occurrences of a variable; all other occurrences are references."""


class Spot(NamedTuple):
    """A span of a text, in characters, with its surface.

    Random choices hash its ``repr``, so that its name and those of its fields decide which bugs are drawn.
    """

    start: int
    end: int
    surface: str


@dataclass(frozen=True, slots=True)
class FunctionVariables:
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


class BugSites:
    """The facet ``bugs`` of a language: sites where bugs may be inserted, by ``bugs.scm`` and ``bugs.toml``.

    A language that has only `locals.scm` has the facet ``misuse``, which is the same without its query.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._table = language.table("bugs")
        self.rows: Mapping[str, tuple[str, ...]] = {
            operator: tuple(candidate for candidate in row if candidate != operator)
            for row in self._table.get("rows", ())
            for operator in row
        }
        """For each binary operator, the operators that may replace it."""
        self.swappable = frozenset[str](self._table.get("swappable", ()))
        """Operators for which swapping the operands changes the value."""
        self.exceptions: tuple[str, ...] = tuple(self._table.get("exceptions", ()))
        """Exception types to predict; empty if the language has no such task."""
        self._captured = TextCache(partial(language.captures, "bugs"))
        self.variables: Callable[[str], FunctionVariables] = TextCache(
            lambda text: _collect_variables(
                language.reading(text), language.locals(text), self._literals(text)
            )
        )
        """Return the variables that a function defines."""
        self.operations: Callable[[str], tuple[Operation, ...]] = TextCache(self._find_operations)
        """List the binary operators of `rows` with their operands, in text order."""

    def replacements(self, text: str, use: Spot) -> tuple[str, ...]:
        """Return the function's other variables that may be read at a use, sorted."""
        visible_names = get_facet(self._language.name, "flow", Flow).visible_names(text, use.start)
        return tuple(
            name for name in self.variables(text).names if name != use.surface and name in visible_names
        )

    def caught_exceptions(self, text: str) -> tuple[Spot, ...]:
        """List the names of `exceptions` in handlers, in text order."""
        source = self._language.syntax(text)[0]
        spans = sorted(_build_span(node, source) for node in self._captured(text).get("caught", ()))
        return tuple(span for span in spans if span.surface in self.exceptions)

    def remove_documentation(self, text: str) -> str:
        """Remove the documentation of the first definition in a function."""
        source = self._language.syntax(text)[0]
        nodes = self._captured(text).get("documentation", ())
        for node in sorted(nodes, key=lambda node: node.start_byte)[:1]:
            next_node = node.next_named_sibling
            start = source.to_character(node.start_byte)
            next_statement = next_node
            while next_statement is not None and next_statement.is_extra:
                next_statement = next_statement.next_named_sibling
            if next_node is not None and next_statement is not None:
                return text[:start] + text[source.to_character(next_node.start_byte) :]
            return text[:start] + self._table["empty_body"] + text[source.to_character(node.end_byte) :]
        return text

    def parses(self, text: str) -> bool:
        """Return whether a text parses without an error."""
        return not self._language.syntax(text)[1].has_error

    def _literals(self, text: str) -> list[Spot]:
        """List the literals that may contain code, in text order."""
        source = self._language.syntax(text)[0]
        return sorted(_build_span(node, source) for node in self._captured(text).get("string", ()))

    def _find_operations(self, text: str) -> tuple[Operation, ...]:
        source, literals = self._language.syntax(text)[0], self._literals(text)
        return tuple(
            sorted(
                operation
                for node in self._captured(text).get("operation", ())
                for operation in _split_operations(node, source)
                if operation.operator.surface in self.rows
                and not _is_in_literal(operation.operator, literals)
            )
        )


def _split_operations(node: tree_sitter.Node, source: EncodedText) -> Iterator[Operation]:
    """Yield each operator of a node with the operands before and after it."""
    children = [child for child in node.children if not child.is_extra]
    for index in range(1, len(children) - 1, 2):
        left, operator, right = children[index - 1 : index + 2]
        symbol = _build_span(operator, source)
        yield Operation(
            Spot(symbol.start, symbol.end, " ".join(symbol.surface.split())),
            _build_span(left, source),
            _build_span(right, source),
            chained=len(children) > 3,
        )


def _build_span(node: tree_sitter.Node, source: EncodedText) -> Spot:
    start, end = source.to_span(node.byte_range)
    return Spot(start, end, source.text[start:end])


def _collect_variables(parsed_text: ParsedText, bindings: Locals, literals: list[Spot]) -> FunctionVariables:
    """Collect the variables that the text defines, with all their occurrences, visible or not."""
    outer_names = {name for scope in bindings.scopes for name in scope.outer_names}
    kinds = {node.start_byte: kind for node, kind in bindings.definitions}
    names = {
        parsed_text.text(node) for node, kind in bindings.definitions if kind in _DEFINITION_KINDS
    } - outer_names
    occurrences: list[tuple[int, Spot]] = []
    for node, reference_kind in bindings.references:
        byte = node.start_byte
        if (
            not reference_kind
            and kinds.get(byte, "deleted") in _OCCURRENCE_KINDS
            and (name := parsed_text.text(node)) in names
        ):
            span = Spot(*parsed_text.span(node), name)
            if not _is_in_literal(span, literals):
                occurrences.append((byte, span))
    return FunctionVariables(
        names=tuple(sorted(names)),
        uses=tuple(span for byte, span in occurrences if byte not in kinds and byte not in bindings.written),
        places=tuple(span for _, span in occurrences),
    )


def _is_in_literal(span: Spot, literals: list[Spot]) -> bool:
    return any(literal.start < span.start < literal.end for literal in literals)


facet = BugSites
