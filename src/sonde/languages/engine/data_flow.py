"""Data flow: variables of a function, where they occur, and which is computed from which.

Names are resolved by a language's `locals.scm` (see `sonde.languages.engine.names`). Each match of its
`flow.scm` captures ``target`` with ``source``: the value of the source goes into the target; or ``parallel``
with ``source``, where each of several targets gets the value at its own position.

Left out on purpose: fields reached through an object, values that calls change, the order of statements,
and control dependence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import tree_sitter

from sonde.languages.engine.names import Locals, Scope, definitions_of, is_seen, meant
from sonde.languages.engine.text import Kept
from sonde.languages.engine.treesitter import TreeSitterLanguage

_PLACES = frozenset(
    (
        *("subscript", "attribute", "array_access", "field_access", "index_expression", "call"),
        *("selector_expression", "slice_expression", "element_reference", "subscript_expression"),
        *("member_expression", "member_access_expression", "scoped_property_access_expression"),
        *("parenthesized_expression", "unary_expression"),
    )
)
"""Targets inside the value of a variable: ``a.b``, ``a[i]``, ``*a``."""


_TARGETS = frozenset(
    (
        *("pattern_list", "tuple_pattern", "list_pattern", "as_pattern_target", "var_spec"),
        *("array_pattern", "object_pattern", "list_literal"),
        *("left_assignment_list", "destructured_left_assignment"),
    )
)


_SOURCES = frozenset(("array", "object", "array_creation_expression", "right_assignment_list"))


_LISTS = _TARGETS | _SOURCES | {"expression_list", "tuple", "list"}


_SPLATS = frozenset(
    (
        *("list_splat_pattern", "list_splat", "rest_pattern", "spread_element", "rest_assignment"),
        *("splat_argument", "variadic_unpacking"),
    )
)


_DEFAULTED = ("assignment_pattern", "object_assignment_pattern")


_KEYED = ("pair_pattern", "pair")


class Element(NamedTuple):
    """An element of a list of targets or values.

    Attributes:
        node: The target or the value; None for a hole.
        key: Key by which it is matched; "" if it is matched by position.
        splat: Whether it takes or yields any number of values.
    """

    node: tree_sitter.Node | None
    key: str = ""
    splat: bool = False


ValueFlow = tuple[tree_sitter.Node, tree_sitter.Node]
"""The node that is written, and a value that goes into it."""


def assigned(target: tree_sitter.Node, source: tree_sitter.Node, *, parallel: bool) -> Iterator[ValueFlow]:
    """Yield every element of a target with the values that go into it.

    Args:
        target: The left side. In ``a[i]`` and ``a.b`` the written variable is ``a``.
        source: The right side.
        parallel: Whether a list on the right gives each target its own value; a list that a loop iterates
            over gives every value to all targets.
    """
    while source.type == "assignment" and (value := source.child_by_field_name("right")):
        source = value
    targets = _elements(target)
    if targets is None:
        yield _leading(target), source
        return
    sources = _elements(source) if parallel else None
    pairs = None if sources is None else _pairs(targets, sources)
    if pairs is None:
        for element in targets:
            if element.node is not None:
                yield from assigned(element.node, source, parallel=False)
        return
    for element, values in pairs:
        for value in values:
            if element.node is not None and value.node is not None:
                alone = not element.splat and not value.splat
                yield from assigned(element.node, value.node, parallel=alone)


def _leading(node: tree_sitter.Node) -> tree_sitter.Node:
    while node.type in _PLACES and node.named_children:
        node = node.named_children[0]
    return node


def _elements(node: tree_sitter.Node) -> list[Element] | None:
    """Return the elements of a list, or None if the node is no list."""
    if node.type == "var_spec":
        return [Element(name) for name in node.children_by_field_name("name")]
    if node.type in _SPLATS:
        return [Element(child) for child in node.named_children[:1]]
    if node.type not in _LISTS:
        return None
    listed, part = list[Element](), list[tree_sitter.Node]()
    for child in node.children:
        if child.type == ",":
            listed.append(_element(part))
            part = []
        elif (child.is_named and "comment" not in child.type) or child.type == "=>":
            part.append(child)
    if part:
        listed.append(_element(part))
    # In Go a single call may give several values.
    return None if node.type == "expression_list" and len(listed) == 1 and not _is_left(node) else listed


def _is_left(node: tree_sitter.Node) -> bool:
    return node.parent is not None and node.parent.child_by_field_name("left") == node


def _element(part: Sequence[tree_sitter.Node]) -> Element:
    if not part:
        return Element(None)
    node = part[-1]
    if node.type == "array_element_initializer":
        return _element([child for child in node.children if child.is_named or child.type == "=>"])
    if len(part) > 1:
        return Element(node, _key(part[0]))
    if node.type in _SPLATS:
        return Element(node.named_children[0] if node.named_children else None, splat=True)
    if node.type in _DEFAULTED:
        left = node.child_by_field_name("left")
        key = "" if node.type == "assignment_pattern" or left is None else _key(left)
        return Element(left, key)
    if node.type in _KEYED:
        key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
        inner = value if value is None else _element([value]).node
        return Element(inner, "" if key is None else _key(key))
    if node.type in ("shorthand_property_identifier", "shorthand_property_identifier_pattern"):
        return Element(node, _key(node))
    return Element(node)


def _key(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode(errors="replace").strip("'\"")


def _pairs(
    targets: Sequence[Element], sources: Sequence[Element]
) -> list[tuple[Element, Sequence[Element]]] | None:
    """Return the values of each target, or None if they cannot be determined."""
    if any(element.key for element in (*targets, *sources)):
        return _pairs_by_key(targets, sources)
    spread = next((index for index, element in enumerate(sources) if element.splat), None)
    rest = next((index for index, element in enumerate(targets) if element.splat), None)
    if spread is not None:
        head = spread if rest is None else min(spread, rest)
        tail = [(element, sources[head:]) for element in targets[head:]]
    elif rest is not None:
        head, behind = rest, len(targets) - rest - 1
        end = max(len(sources) - behind, head)
        tail = [(targets[rest], sources[head:end])]
        tail += [(one, [value]) for one, value in zip(targets[rest + 1 :], sources[end:], strict=False)]
    else:
        head, tail = len(targets), list[tuple[Element, Sequence[Element]]]()
    return [*((one, [value]) for one, value in zip(targets[:head], sources[:head], strict=False)), *tail]


def _pairs_by_key(
    targets: Sequence[Element], sources: Sequence[Element]
) -> list[tuple[Element, Sequence[Element]]] | None:
    """Return the values of each target by key, or None if a key is computed or missing."""
    keys = [element.key for element in (*targets, *sources) if not (element.splat and element in targets)]
    if any(not key or key[0] in "[$" for key in keys):
        return None
    taken = {element.key for element in targets}
    return [
        (target, [value for value in sources if value.key == target.key])
        if not target.splat
        else (target, [value for value in sources if value.key not in taken])
        for target in targets
    ]


_KINDS = {
    **dict.fromkeys(("variable", "exception", "pattern", "expression", "assigned"), "local"),
    **{kind: kind for kind in ("parameter", "field")},
}


class VariablePlace(NamedTuple):
    """The span of an occurrence of a variable, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the text declares.

    Attributes:
        name: Its name.
        kind: ``"parameter"``, ``"local"`` or ``"field"`` (of a class inside the function).
        scope: Number of the scope that it belongs to.
        places: Its occurrences, in text order.
        declaration: Its first declaration; in a comprehension, uses precede it.
    """

    name: str
    kind: str
    scope: int
    places: tuple[VariablePlace, ...]
    declaration: VariablePlace


@runtime_checkable
class Flow(Protocol):
    """The facet ``flow`` of a language: variables of a text and their dependencies."""

    def variables(self, text: str) -> tuple[Variable, ...]:
        """List the variables in the order of their first occurrences."""
        ...

    def dependencies(self, text: str) -> frozenset[tuple[int, int]]:
        """Return pairs of variables, by index, where the first is computed from the second.

        The dependency may pass through other variables.
        """
        ...

    def visible(self, text: str, at: int) -> frozenset[str]:
        """Return the variables that may be read at an identifier's start; none at other positions."""
        ...


_HIDING = {"function": "", "type": "", "constant": ""}
"""Kinds of definitions that are no variables but shadow variables of outer scopes."""


_KNOWN = frozenset(_KINDS) | {"again", "deleted", "constant"}
"""Kinds of definitions whose name may be an occurrence of a variable, unlike functions and types."""


Defined = dict[str, tuple[int, str]]
"""Definitions of a scope: for each name its first byte and the kind of variable."""


@dataclass(slots=True)
class _Found:
    variables: tuple[Variable, ...]
    owner: list[tuple[int, int]]
    held: Locals
    names: defaultdict[int, Defined]
    """Definitions of each scope; a name that only shadows a variable has the kind ""."""


class FlowOf:
    """A `Flow` by the queries of a language's folder.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._ordered = language.settings.declared_first
        self._found = Kept(self._find)
        self._bytes = Kept(self._places_of_names)

    def variables(self, text: str) -> tuple[Variable, ...]:
        """List the variables in the order of their first occurrences."""
        return self._found(text).variables

    def dependencies(self, text: str) -> frozenset[tuple[int, int]]:
        """Return pairs of variables, the first computed from the second, directly or through others."""
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
        """Return the variables that may be read at an identifier's start; none at other positions."""
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
        """Map the first character of each identifier to its first byte."""
        reading = self._language.reading(text)
        return {
            reading.at(node.start_byte): node.start_byte for node, _ in self._language.locals(text).references
        }


def _declared(nodes: list[tree_sitter.Node], byte: int) -> tree_sitter.Node:
    """Find the occurrence that begins at the byte of the declaration, else return the first one."""
    return next((node for node in nodes if node.start_byte == byte), nodes[0])


def _owned(node: tree_sitter.Node, owner: list[tuple[int, int]]) -> list[int]:
    """Find the indices of the variables that occur in a node, in text order."""
    first, last = (bisect_left(owner, (byte,)) for byte in node.byte_range)
    return [variable for _, variable in owner[first:last]]


def facet(language: TreeSitterLanguage) -> FlowOf:
    """Build the facet ``flow`` of a language whose folder has the query."""
    return FlowOf(language)
