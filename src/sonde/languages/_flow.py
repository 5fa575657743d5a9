"""Variables of a function: where they are declared, where they occur, and which is computed from which.

Where names are defined, seen and meant is said in a language's `locals.scm` (`_locals`). Its `flow.scm`
names, a match each, ``target`` with ``source``: the value of the source goes into the target; or ``parallel``
with ``source``, where each of several targets gets the value at its own place.

What is left out, on purpose: fields reached through an object, values that calls change, the order of
statements, and control dependence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import tree_sitter

from sonde.languages._assignments import assigned
from sonde.languages._kept import Kept
from sonde.languages._locals import Locals, Scope, definitions_of, is_seen, meant
from sonde.languages._treesitter import TreeSitterLanguage

_KINDS = {
    **dict.fromkeys(("variable", "exception", "pattern", "expression", "assigned"), "local"),
    **{kind: kind for kind in ("parameter", "field")},
}


class VariablePlace(NamedTuple):
    """Characters of the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the text declares.

    Attributes:
        name: Its name.
        kind: ``"parameter"``, ``"local"`` or ``"field"`` (of a class inside the function).
        scope: Number of the scope that it belongs to.
        places: Where it occurs, in text order.
        declaration: The place of its first declaration; a comprehension uses a variable before it.
    """

    name: str
    kind: str
    scope: int
    places: tuple[VariablePlace, ...]
    declaration: VariablePlace


@runtime_checkable
class Flow(Protocol):
    """What a language says of the variables of a text."""

    def variables(self, text: str) -> tuple[Variable, ...]:
        """The variables in the order of their first places."""
        ...

    def dependencies(self, text: str) -> frozenset[tuple[int, int]]:
        """Pairs of variables, by index: the value of the first is computed from the second.

        One assignment, or several through other variables.
        """
        ...

    def visible(self, text: str, at: int) -> frozenset[str]:
        """Names of the variables that may be read where an identifier begins; elsewhere none."""
        ...


_HIDING = {"function": "", "type": "", "constant": ""}
"""Kinds of definitions that give no variable, and hide one of their name in the scopes around."""

_KNOWN = frozenset(_KINDS) | {"again", "deleted", "constant"}
"""Kinds of definitions whose name may be a variable's place; names of functions and types are none."""

Defined = dict[str, tuple[int, str]]
"""What a scope defines: for each name the first byte of its definition, and the kind of variable."""


@dataclass(slots=True)
class _Found:
    variables: tuple[Variable, ...]
    owner: list[tuple[int, int]]
    held: Locals
    names: defaultdict[int, Defined]
    """What each scope defines; what is no variable and hides one is of no kind."""


class FlowOf:
    """The `Flow` of a language by its query.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._ordered = language.settings.declared_first
        self._found = Kept(self._find)
        self._bytes = Kept(self._places_of_names)

    def variables(self, text: str) -> tuple[Variable, ...]:
        """The variables in the order of their first places."""
        return self._found(text).variables

    def dependencies(self, text: str) -> frozenset[tuple[int, int]]:
        """Pairs of variables, the first computed from the second, through others included."""
        found = self._found(text)
        direct: defaultdict[int, set[int]] = defaultdict(set)
        for match in self._language.grammar.matches("flow", self._language.reading(text).root):
            parallel = "parallel" in match
            if not parallel and "target" not in match:
                continue
            left, right = match["parallel" if parallel else "target"][0], match["source"][0]
            for target, source in assigned(left, right, parallel=parallel):
                for into in _owned(target, found.owner):
                    direct[into].update(_owned(source, found.owner))
        pairs: set[tuple[int, int]] = set()
        for start in direct:
            reached, waiting = set[int](), [start]
            while waiting:
                for other in direct.get(waiting.pop(), ()):
                    if other not in reached:
                        reached.add(other)
                        waiting.append(other)
            pairs |= {(start, other) for other in reached if other != start}
        return frozenset(pairs)

    def visible(self, text: str, at: int) -> frozenset[str]:
        """Names of the variables that may be read where an identifier begins; elsewhere none."""
        byte = self._bytes(text).get(at)
        if byte is None:
            return frozenset()
        found = self._found(text)
        scopes = found.held.evaluated
        kinds: dict[str, str] = {}
        for scope in scopes.seen(scopes.at(byte)):
            for name, declared in found.names[scope.number].items():
                if not self._ordered or is_seen(found.held, declared, byte):
                    kinds.setdefault(name, declared[1])
        return frozenset(name for name, kind in kinds.items() if kind)

    def _find(self, text: str) -> _Found:
        reading = self._language.reading(text)
        held = self._language.locals(text)
        names = definitions_of(held, _KINDS)
        for number, hiding in definitions_of(held, _HIDING).items():
            names[number] = hiding | names[number]
        ignored = {node.start_byte for node, kind in held.definitions if kind not in _KNOWN}
        places: dict[tuple[Scope, str], list[tree_sitter.Node]] = {}
        for node, _ in held.references:
            if node.start_byte not in ignored:
                name = reading.text(node)
                scope = meant(held, names, name, node.start_byte, ordered=self._ordered)
                if scope is not None and names[scope.number][name][1]:
                    places.setdefault((scope, name), []).append(node)
        listed = sorted(places.items(), key=lambda entry: entry[1][0].start_byte)
        variables = tuple(
            Variable(
                name,
                names[scope.number][name][1],
                scope.number,
                tuple(VariablePlace(*reading.span(node)) for node in nodes),
                VariablePlace(*reading.span(_declared(nodes, names[scope.number][name][0]))),
            )
            for (scope, name), nodes in listed
        )
        owner = sorted((node.start_byte, place) for place, (_, nodes) in enumerate(listed) for node in nodes)
        return _Found(variables, owner, held, names)

    def _places_of_names(self, text: str) -> dict[int, int]:
        """From the first character of each identifier to its first byte."""
        reading = self._language.reading(text)
        return {
            reading.at(node.start_byte): node.start_byte for node, _ in self._language.locals(text).references
        }


def _declared(nodes: list[tree_sitter.Node], byte: int) -> tree_sitter.Node:
    """The node of a variable's declaration, which begins at a byte; the first where none does."""
    return next((node for node in nodes if node.start_byte == byte), nodes[0])


def _owned(node: tree_sitter.Node, owner: list[tuple[int, int]]) -> list[int]:
    """Variables that occur in a node, in text order."""
    first, last = (bisect_left(owner, (byte,)) for byte in node.byte_range)
    return [variable for _, variable in owner[first:last]]


def facet(language: TreeSitterLanguage) -> FlowOf:
    """The facet ``flow`` of every language whose folder has the query."""
    return FlowOf(language)
