"""Data flow: variables of a function, their declarations and occurrences, and which depends on which.

Names are resolved by a language's `locals.scm` (see `sonde.languages.engine.names`). Each match of its
`flow.scm` captures ``target`` with ``source``: the value of the source goes into the target; or ``parallel``
with ``source``, where each of several targets (``x, y = a, b``) gets the value at its own position.

Left out on purpose: fields reached through an object, values that calls change, the order of statements,
and control dependence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tree_sitter

from sonde.languages.engine.names import Locals, Scope, find_definitions, is_visible, resolve_name
from sonde.languages.engine.text import TextCache
from sonde.languages.engine.treesitter import TreeSitterLanguage

_ACCESS_TYPES = frozenset(
    (
        *("subscript", "attribute", "array_access", "field_access", "index_expression", "call"),
        *("selector_expression", "slice_expression", "element_reference", "subscript_expression"),
        *("member_expression", "member_access_expression", "scoped_property_access_expression"),
        *("parenthesized_expression", "unary_expression"),
    )
)
"""Targets inside the value of a variable: ``a.b``, ``a[i]``, ``*a``."""


_TARGET_LISTS = frozenset(
    (
        *("pattern_list", "tuple_pattern", "list_pattern", "as_pattern_target", "var_spec"),
        *("array_pattern", "object_pattern", "list_literal"),
        *("left_assignment_list", "destructured_left_assignment"),
    )
)


_SOURCE_LISTS = frozenset(("array", "object", "array_creation_expression", "right_assignment_list"))


_LISTS = _TARGET_LISTS | _SOURCE_LISTS | {"expression_list", "tuple", "list"}


_SPLAT_TYPES = frozenset(
    (
        *("list_splat_pattern", "list_splat", "rest_pattern", "spread_element", "rest_assignment"),
        *("splat_argument", "variadic_unpacking"),
    )
)


_DEFAULT_PATTERNS = ("assignment_pattern", "object_assignment_pattern")


_KEY_PAIRS = ("pair_pattern", "pair")


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


def find_value_flows(
    target: tree_sitter.Node, source: tree_sitter.Node, *, parallel: bool
) -> Iterator[ValueFlow]:
    """Yield every element of a target with the values that go into it.

    Args:
        target: The left side. In ``a[i]`` and ``a.b`` the written variable is ``a``.
        source: The right side.
        parallel: Whether a list on the right gives each target its own value; a list that a loop iterates
            over gives every value to all targets.
    """
    while source.type == "assignment" and (value := source.child_by_field_name("right")):
        source = value
    targets = _split_elements(target)
    if targets is None:
        yield _find_base_node(target), source
        return
    sources = _split_elements(source) if parallel else None
    pairs = None if sources is None else _pair_elements(targets, sources)
    if pairs is None:
        for element in targets:
            if element.node is not None:
                yield from find_value_flows(element.node, source, parallel=False)
        return
    for element, values in pairs:
        for value in values:
            if element.node is not None and value.node is not None:
                is_parallel = not element.splat and not value.splat
                yield from find_value_flows(element.node, value.node, parallel=is_parallel)


def _find_base_node(node: tree_sitter.Node) -> tree_sitter.Node:
    while node.type in _ACCESS_TYPES and node.named_children:
        node = node.named_children[0]
    return node


def _split_elements(node: tree_sitter.Node) -> list[Element] | None:
    """Return the elements of a list, or None if the node is no list."""
    if node.type == "var_spec":
        return [Element(name) for name in node.children_by_field_name("name")]
    if node.type in _SPLAT_TYPES:
        return [Element(child) for child in node.named_children[:1]]
    if node.type not in _LISTS:
        return None
    elements, part = list[Element](), list[tree_sitter.Node]()
    for child in node.children:
        if child.type == ",":
            elements.append(_build_element(part))
            part = []
        elif (child.is_named and "comment" not in child.type) or child.type == "=>":
            part.append(child)
    if part:
        elements.append(_build_element(part))
    # In Go a single call may give several values.
    return (
        None
        if node.type == "expression_list" and len(elements) == 1 and not _is_left_side(node)
        else elements
    )


def _is_left_side(node: tree_sitter.Node) -> bool:
    return node.parent is not None and node.parent.child_by_field_name("left") == node


def _build_element(part: Sequence[tree_sitter.Node]) -> Element:
    if not part:
        return Element(None)
    node = part[-1]
    if node.type == "array_element_initializer":
        return _build_element([child for child in node.children if child.is_named or child.type == "=>"])
    if len(part) > 1:
        return Element(node, _read_key(part[0]))
    if node.type in _SPLAT_TYPES:
        return Element(node.named_children[0] if node.named_children else None, splat=True)
    if node.type in _DEFAULT_PATTERNS:
        left = node.child_by_field_name("left")
        key = "" if node.type == "assignment_pattern" or left is None else _read_key(left)
        return Element(left, key)
    if node.type in _KEY_PAIRS:
        key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
        inner = value if value is None else _build_element([value]).node
        return Element(inner, "" if key is None else _read_key(key))
    if node.type in ("shorthand_property_identifier", "shorthand_property_identifier_pattern"):
        return Element(node, _read_key(node))
    return Element(node)


def _read_key(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode(errors="replace").strip("'\"")


def _pair_elements(
    targets: Sequence[Element], sources: Sequence[Element]
) -> list[tuple[Element, Sequence[Element]]] | None:
    """Return the values of each target, or None if they cannot be determined."""
    if any(element.key for element in (*targets, *sources)):
        return _pair_elements_by_key(targets, sources)
    source_splat = next((index for index, element in enumerate(sources) if element.splat), None)
    target_splat = next((index for index, element in enumerate(targets) if element.splat), None)
    if source_splat is not None:
        head = source_splat if target_splat is None else min(source_splat, target_splat)
        tail = [(element, sources[head:]) for element in targets[head:]]
    elif target_splat is not None:
        head, tail_length = target_splat, len(targets) - target_splat - 1
        end = max(len(sources) - tail_length, head)
        tail = [(targets[target_splat], sources[head:end])]
        tail += [
            (target, [value])
            for target, value in zip(targets[target_splat + 1 :], sources[end:], strict=False)
        ]
    else:
        head, tail = len(targets), list[tuple[Element, Sequence[Element]]]()
    return [
        *((target, [value]) for target, value in zip(targets[:head], sources[:head], strict=False)),
        *tail,
    ]


def _pair_elements_by_key(
    targets: Sequence[Element], sources: Sequence[Element]
) -> list[tuple[Element, Sequence[Element]]] | None:
    """Return the values of each target by key, or None if a key is computed or missing."""
    keys = [element.key for element in (*targets, *sources) if not (element.splat and element in targets)]
    if any(not key or key[0] in "[$" for key in keys):
        return None
    target_keys = {element.key for element in targets}
    return [
        (target, [value for value in sources if value.key == target.key])
        if not target.splat
        else (target, [value for value in sources if value.key not in target_keys])
        for target in targets
    ]


_VARIABLE_KINDS = {
    **dict.fromkeys(("variable", "exception", "pattern", "expression", "assigned"), "local"),
    **{kind: kind for kind in ("parameter", "field")},
}


class Occurrence(NamedTuple):
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
    places: tuple[Occurrence, ...]
    declaration: Occurrence


_SHADOWING_KINDS = {"function": "", "type": "", "constant": ""}
"""Kinds of definitions that are no variables but shadow variables of outer scopes."""


_OCCURRENCE_KINDS = frozenset(_VARIABLE_KINDS) | {"again", "deleted", "constant"}
"""Kinds of definitions whose name may be an occurrence of a variable, unlike functions and types."""


ScopeDefinitions = dict[str, tuple[int, str]]
"""Definitions of a scope: for each name its first byte and the kind of variable."""


@dataclass(slots=True)
class _Analysis:
    variables: tuple[Variable, ...]
    owner: list[tuple[int, int]]
    held: Locals
    names: defaultdict[int, ScopeDefinitions]
    """Definitions of each scope; a name that only shadows a variable has the kind ""."""


class Flow:
    """The facet ``flow`` of a language: variables of a text and their dependencies, by its queries.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._declared_first = language.settings.declared_first
        self._analyses = TextCache(self._analyse)
        self._bytes_by_character = TextCache(self._map_names_to_bytes)

    def variables(self, text: str) -> tuple[Variable, ...]:
        """List the variables in the order of their first occurrences."""
        return self._analyses(text).variables

    def dependencies(self, text: str) -> frozenset[tuple[int, int]]:
        """Return pairs of variables, by index, where the first is computed from the second.

        The dependency may pass through other variables.
        """
        analysis = self._analyses(text)
        direct: defaultdict[int, set[int]] = defaultdict(set)
        for match in self._language.grammar.matches("flow", self._language.reading(text).root):
            parallel = "parallel" in match
            if not parallel and "target" not in match:
                continue
            left, right = match["parallel" if parallel else "target"][0], match["source"][0]
            for target, source in find_value_flows(left, right, parallel=parallel):
                for written_variable in _find_variables(target, analysis.owner):
                    direct[written_variable].update(_find_variables(source, analysis.owner))
        pairs: set[tuple[int, int]] = set()
        for start in direct:
            reachable, stack = set[int](), [start]
            while stack:
                for dependency in direct.get(stack.pop(), ()):
                    if dependency not in reachable:
                        reachable.add(dependency)
                        stack.append(dependency)
            pairs |= {(start, dependency) for dependency in reachable if dependency != start}
        return frozenset(pairs)

    def visible_names(self, text: str, position: int) -> frozenset[str]:
        """Return the variables that may be read at an identifier's start; none at other positions."""
        byte = self._bytes_by_character(text).get(position)
        if byte is None:
            return frozenset()
        analysis = self._analyses(text)
        scopes = analysis.held.evaluation_scopes
        kinds: dict[str, str] = {}
        for scope in scopes.visible_scopes(scopes.find_scope(byte)):
            for name, definition in analysis.names[scope.number].items():
                if not self._declared_first or is_visible(analysis.held, definition, byte):
                    kinds.setdefault(name, definition[1])
        return frozenset(name for name, kind in kinds.items() if kind)

    def _analyse(self, text: str) -> _Analysis:
        parsed_text = self._language.reading(text)
        bindings = self._language.locals(text)
        names = find_definitions(bindings, _VARIABLE_KINDS)
        for number, shadows in find_definitions(bindings, _SHADOWING_KINDS).items():
            names[number] = shadows | names[number]
        ignored_starts = {
            node.start_byte for node, kind in bindings.definitions if kind not in _OCCURRENCE_KINDS
        }
        occurrences: dict[tuple[Scope, str], list[tree_sitter.Node]] = {}
        for node, _ in bindings.references:
            if node.start_byte not in ignored_starts:
                name = parsed_text.text(node)
                scope = resolve_name(
                    bindings, names, name, node.start_byte, declared_first=self._declared_first
                )
                if scope is not None and names[scope.number][name][1]:
                    occurrences.setdefault((scope, name), []).append(node)
        entries = sorted(occurrences.items(), key=lambda entry: entry[1][0].start_byte)
        variables = tuple(
            Variable(
                name,
                names[scope.number][name][1],
                scope.number,
                tuple(Occurrence(*parsed_text.span(node)) for node in nodes),
                Occurrence(*parsed_text.span(_find_declaration(nodes, names[scope.number][name][0]))),
            )
            for (scope, name), nodes in entries
        )
        owner = sorted((node.start_byte, index) for index, (_, nodes) in enumerate(entries) for node in nodes)
        return _Analysis(variables, owner, bindings, names)

    def _map_names_to_bytes(self, text: str) -> dict[int, int]:
        """Map the first character of each identifier to its first byte."""
        parsed_text = self._language.reading(text)
        return {
            parsed_text.to_character(node.start_byte): node.start_byte
            for node, _ in self._language.locals(text).references
        }


def _find_declaration(nodes: list[tree_sitter.Node], byte: int) -> tree_sitter.Node:
    """Find the occurrence that begins at the byte of the declaration, else return the first one."""
    return next((node for node in nodes if node.start_byte == byte), nodes[0])


def _find_variables(node: tree_sitter.Node, owner: list[tuple[int, int]]) -> list[int]:
    """Find the indices of the variables that occur in a node, in text order."""
    first, last = (bisect_left(owner, (byte,)) for byte in node.byte_range)
    return [variable for _, variable in owner[first:last]]


facet = Flow
