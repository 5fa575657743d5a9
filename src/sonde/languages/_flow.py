"""Variables of a function: where they are declared, where they occur, and which is computed from which.

A language's `flow.scm` names, a match each:

- ``scope``: what a declaration in it belongs to; ``scope.function`` where it is a function, ``scope.class``
  where functions inside do not see its names. A block that is the body of a scope is no scope of its own,
  so parameters and loop variables belong to the block they open.
- ``declare.parameter``, ``declare.local``, ``declare.field``: the name in a declaration;
  ``declare.function``: one that belongs to the nearest function and not to what it stands in.
- ``elsewhere``: a name that its function takes from outside.
- ``before``: what stands in a scope and is read before it opens, such as the default of a parameter.
- ``name``: every identifier; ``never``: one that is no variable.
- ``target`` with ``source``: the value of the source goes into the target.

What is left out, on purpose: fields reached through an object, values that calls change, the order of
statements, and control dependence.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import tree_sitter

from sonde.languages._grammar import Match
from sonde.languages._leaves import ParsedText, nested, read
from sonde.languages._metrics import read_table
from sonde.languages._treesitter import TreeSitterLanguage

_KEPT = 4
_LED = frozenset({"subscript", "attribute", "array_access", "field_access"})


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
        places: Where it occurs, in text order; the first is its declaration.
    """

    name: str
    kind: str
    scope: int
    places: tuple[VariablePlace, ...]


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


@dataclass(slots=True)
class _Scope:
    kind: str
    above: int
    start: int
    end: int
    names: dict[str, tuple[int, str]] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Found:
    variables: tuple[Variable, ...]
    owner: list[tuple[int, int]]
    flows: list[tuple[tree_sitter.Node, tree_sitter.Node]]
    scopes: list[_Scope]
    within: dict[int, tuple[int, int]]
    before: list[tuple[int, int, int]]


class FlowOf:
    """The `Flow` of a language by its query.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._wrappers = read_table(language).wrappers
        self._ordered = language.settings.declared_first
        self._found = lru_cache(maxsize=_KEPT)(self._find)

    def variables(self, text: str) -> tuple[Variable, ...]:
        """The variables in the order of their first places."""
        return self._found(text).variables

    def dependencies(self, text: str) -> frozenset[tuple[int, int]]:
        """Pairs of variables, the first computed from the second, through others included."""
        found = self._found(text)
        direct: defaultdict[int, set[int]] = defaultdict(set)
        for target, source in found.flows:
            for into in _targets(target, found.owner):
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
        found = self._found(text)
        byte, scope = found.within.get(at, (0, -1))
        closed = {number for start, end, number in found.before if start <= byte < end}
        names: set[str] = set()
        inner = False
        while scope >= 0:
            here = found.scopes[scope]
            if scope in closed:
                scope = here.above
                continue
            if not (inner and here.kind == "scope.class"):
                names |= {
                    name for name, (first, _) in here.names.items() if not self._ordered or first <= byte
                }
            inner = inner or here.kind != "scope.class"
            scope = here.above
        return frozenset(names)

    def _find(self, text: str) -> _Found:
        reading = read(self._language, text, self._wrappers)
        matches = self._language.grammar.matches("flow", reading.root)
        flows = [(match["target"][0], match["source"][0]) for match in matches if "target" in match]
        captured = _captured(matches)
        names = sorted(captured.pop("name", []), key=lambda node: node.start_byte)
        never = {node.start_byte for node in captured.pop("never", [])}
        before = [node.byte_range for node in captured.pop("before", [])]
        scopes, within = _scopes(captured, names)
        self._declare(scopes, within, captured, reading)
        places: dict[tuple[int, str], list[tree_sitter.Node]] = {}
        for node in names:
            if node.start_byte not in never:
                key = self._resolve(scopes, within[node.start_byte], reading.text(node), node.start_byte)
                if key is not None:
                    places.setdefault(key, []).append(node)
        listed = sorted(places.items(), key=lambda entry: entry[1][0].start_byte)
        variables = tuple(
            Variable(
                name,
                scopes[scope].names[name][1],
                scope,
                tuple(VariablePlace(*reading.span(node)) for node in nodes),
            )
            for (scope, name), nodes in listed
        )
        owner = sorted((node.start_byte, place) for place, (_, nodes) in enumerate(listed) for node in nodes)
        at = {reading.at(byte): (byte, scope) for byte, scope in within.items()}
        closed = [(*part, _around(scopes, *part)) for part in before]
        return _Found(variables, owner, flows, scopes, at, closed)

    def _declare(
        self,
        scopes: list[_Scope],
        within: dict[int, int],
        captured: dict[str, list[tree_sitter.Node]],
        reading: ParsedText,
    ) -> None:
        for node in captured.get("elsewhere", []):
            scopes[within[node.start_byte]].elsewhere.add(reading.text(node))
        for capture, nodes in captured.items():
            if not capture.startswith("declare."):
                continue
            kind = capture.removeprefix("declare.")
            for node in nodes:
                scope, name = within[node.start_byte], reading.text(node)
                while kind == "function" and scopes[scope].kind == "scope" and scopes[scope].above >= 0:
                    scope = scopes[scope].above
                if name not in scopes[scope].elsewhere:
                    known = scopes[scope].names.get(name)
                    if known is None or node.start_byte < known[0]:
                        scopes[scope].names[name] = (node.start_byte, "local" if kind == "function" else kind)

    def _resolve(self, scopes: list[_Scope], scope: int, name: str, at: int) -> tuple[int, str] | None:
        """The scope whose variable a name means at a byte; None where the text declares none."""
        crossed = False
        while scope >= 0:
            here = scopes[scope]
            declared = here.names.get(name)
            visible = not (crossed and here.kind == "scope.class")
            if declared is not None and visible and (not self._ordered or declared[0] <= at):
                return scope, name
            crossed = crossed or here.kind == "scope.function"
            scope = here.above
        return None


def _captured(matches: Iterable[Match]) -> dict[str, list[tree_sitter.Node]]:
    found: defaultdict[str, dict[int, tree_sitter.Node]] = defaultdict(dict)
    for match in matches:
        for name, nodes in match.items():
            if not name.startswith("_"):
                found[name].update({node.id: node for node in nodes})
    return {name: list(nodes.values()) for name, nodes in found.items()}


def _scopes(
    captured: dict[str, list[tree_sitter.Node]], names: list[tree_sitter.Node]
) -> tuple[list[_Scope], dict[int, int]]:
    """The scopes, the whole text first, and the scope that each name stands in by its first byte."""
    kinds = {
        node.id: kind
        for kind in ("scope", "scope.class", "scope.function")
        for node in captured.get(kind, [])
    }
    nodes = [node for kind in ("scope", "scope.class", "scope.function") for node in captured.pop(kind, [])]
    scopes, number = [_Scope("scope", -1, -1, sys.maxsize)], [0]
    opened: list[tuple[int, int, int]] = []
    listed = nested(nodes)
    number = [0] * len(listed)
    for place, (node, above) in enumerate(listed):
        outer = number[above] if above >= 0 else 0
        around = listed[above][0] if above >= 0 else None
        if around is not None and around.child_by_field_name("body") == node:
            number[place] = outer
            continue
        scopes.append(_Scope(kinds[node.id], outer, *node.byte_range))
        number[place] = len(scopes) - 1
        opened.append((node.start_byte, node.end_byte, number[place]))
    within: dict[int, int] = {}
    stack: list[tuple[int, int]] = []
    place = 0
    for name in names:
        while place < len(opened) and opened[place][0] <= name.start_byte:
            stack.append(opened[place][1:])
            place += 1
        # Scopes nest, but one that ended may lie under one that has not.
        stack = [entry for entry in stack if entry[0] > name.start_byte]
        within[name.start_byte] = stack[-1][1] if stack else 0
    return scopes, within


def _around(scopes: list[_Scope], start: int, end: int) -> int:
    """The innermost scope that begins before some bytes and holds them."""
    holding = (number for number, one in enumerate(scopes) if one.start < start and end <= one.end)
    return max(holding, key=lambda number: scopes[number].start)


def _owned(node: tree_sitter.Node, owner: list[tuple[int, int]]) -> list[int]:
    """Variables that occur in a node, in text order."""
    first, last = (bisect_left(owner, (byte,)) for byte in node.byte_range)
    return [variable for _, variable in owner[first:last]]


def _targets(node: tree_sitter.Node, owner: list[tuple[int, int]]) -> list[int]:
    """Variables that a left side writes: every name of a pattern, the leading one of ``a.b`` and ``a[i]``."""
    return _owned(node, owner)[:1] if node.type in _LED else _owned(node, owner)


def facet(language: TreeSitterLanguage) -> FlowOf:
    """The facet ``flow`` of every language whose folder has the query."""
    return FlowOf(language)
