"""Scopes, definitions and references of names, from a language's `locals.scm`.

The query follows tree-sitter's convention:

- ``@local.scope``; ``.function`` and ``.comprehension`` if only these count for some bindings, ``.class`` if
  inner scopes do not see its names, ``.closed`` if inner scopes see no outer name. A block that is the body
  of a scope is no separate scope, so parameters and loop variables belong to the block that they open.
- ``@local.definition.KIND``: the name in a definition. Kinds: ``parameter``, ``variable``, ``exception``
  (caught), ``pattern`` (bound by one), ``expression`` (belongs to the nearest function), ``again``
  (reassigned), ``assigned`` (assigned, which defines it unless a variable of that name is visible already),
  ``deleted``, ``field``, ``constant``, ``function``, ``method`` (in a separate namespace), ``type``.
- ``@local.reference``: every identifier; ``.fixed`` one that is never the site of a variable misuse.

Sonde's additions to the convention:

- ``@local.member``: an identifier that is no variable, such as the name of an attribute;
- ``@local.written``: an identifier whose variable is assigned there but not defined;
- ``@local.outside``: code evaluated in the parent of the innermost scope, such as a parameter's default;
- ``@local.late``: a value; the variables defined directly before it are visible only after it;
- ``@local.global``, ``@local.nonlocal``: a name that its scope declares to be an outer one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import tree_sitter

from sonde.languages.engine.language import Grammar, node_text
from sonde.languages.engine.tokens import nest_nodes

_SCOPE_KINDS = ("function", "class", "comprehension", "closed")


_DEFINITION, _SCOPE = "local.definition.", "local.scope"


ScopeSpan = tuple[int, int, str]
"""First byte of a scope, one past its last, and its kind; ``"outside"``: evaluated in the parent scope."""


@dataclass(slots=True, eq=False)
class Scope:
    """A lexical scope.

    Attributes:
        kind: ``"module"``, ``"function"``, ``"class"``, ``"comprehension"``, ``"closed"``, or "" for other
            blocks.
        parent: The enclosing scope; None for the module.
        number: Index among the scopes of the text.
        outer_names: Names that the scope declares to be outer ones, with ``"global"`` or ``"nonlocal"``.
    """

    kind: str
    parent: Scope | None
    number: int
    outer_names: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Region:
    """A byte span evaluated in a scope, which may be the parent of the innermost one."""

    start: int
    end: int
    scope: Scope
    within: _Region | None


class Scopes:
    """The scopes of a text by position.

    Args:
        spans: Spans of the scopes.
        end: Length of the text in bytes.
    """

    def __init__(self, spans: Iterable[ScopeSpan], end: int) -> None:
        self.module = Scope("module", None, 0)
        self._regions = [_Region(-1, end + 1, self.module, None)]
        count = 1
        region = self._regions[0]
        for start, stop, kind in sorted(
            set(spans), key=lambda span: (span[0], -span[1], span[2] != "outside")
        ):
            while region.within is not None and region.end <= start:
                region = region.within
            outer = region.scope.parent or region.scope
            if kind == "outside":
                scope = outer
            else:
                scope = Scope(kind, region.scope, count)
                count += 1
            region = _Region(start, stop, scope, region)
            self._regions.append(region)
        self._starts = [region.start for region in self._regions]

    def __iter__(self) -> Iterator[Scope]:
        return iter({region.scope.number: region.scope for region in self._regions}.values())

    def find_scope(self, position: int) -> Scope:
        """Return the scope in which the code at a byte position is evaluated."""
        region = self._regions[bisect_right(self._starts, position) - 1]
        while region.within is not None and region.end <= position:
            region = region.within
        return region.scope

    def visible_scopes(self, scope: Scope, name: str = "") -> Iterator[Scope]:
        """Yield the scopes in which a name is looked up, innermost first; without a name all visible ones.

        Names of a ``"class"`` scope are visible only directly in it.
        """
        origin, current = scope, scope
        while True:
            declaration = current.outer_names.get(name)
            if declaration is not None and current is not self.module:
                origin = current = (
                    self.module if declaration == "global" else _find_outer_scope(current) or self.module
                )
                continue
            if current.kind != "class" or current is origin:
                yield current
            if current.parent is None or current.kind == "closed":
                return
            current = current.parent

    def owner(
        self,
        scope: Scope,
        name: str,
        get_bound_names: Callable[[Scope], Collection[str]],
        *,
        skip_comprehensions: bool = False,
    ) -> Scope:
        """Return the scope that a definition belongs to.

        Args:
            scope: The innermost scope around the definition.
            name: The defined name.
            get_bound_names: Returns the names already bound in a scope, to which a ``nonlocal`` may refer.
            skip_comprehensions: Whether the definition never belongs to a comprehension.
        """
        while skip_comprehensions and scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        declaration = scope.outer_names.get(name)
        if declaration == "global":
            return self.module
        outer = _find_outer_scope(scope) if declaration == "nonlocal" else None
        while outer is not None and outer.kind != "module":
            if name in get_bound_names(outer):
                return outer
            outer = _find_outer_scope(outer)
        return scope


@dataclass(frozen=True, eq=False)
class Locals:
    """The matches of `locals.scm` in a tree; nodes in text order.

    Attributes:
        definitions: Names in definitions with their kind, the last in the query file if it gives several.
        references: Identifiers of variables, definitions included, each with "" or ``"fixed"``.
        written: First bytes of names that are assigned but not defined.
        outside: Byte spans evaluated in the parent scope.
        spans: Spans of the scopes.
        outer_names: Names that a scope declares to be outer ones: first byte, name, and ``"global"`` or
            ``"nonlocal"``.
        late: For definitions visible only after their value, by first byte, the end of the value.
        end: Length of the text in bytes.
    """

    definitions: tuple[tuple[tree_sitter.Node, str], ...]
    references: tuple[tuple[tree_sitter.Node, str], ...]
    written: frozenset[int]
    outside: tuple[tuple[int, int], ...]
    spans: tuple[ScopeSpan, ...]
    outer_names: tuple[tuple[int, str, str], ...]
    late: Mapping[int, int]
    end: int

    @cached_property
    def scopes(self) -> Scopes:
        """Build the scopes by text position, with `outside` spans in the scope that contains them."""
        return self._scopes(self.spans)

    @cached_property
    def evaluation_scopes(self) -> Scopes:
        """Build the scopes by evaluation, with `outside` spans in the parent scope."""
        outside_spans = ((start, end, "outside") for start, end in self.outside)
        return self._scopes([*self.spans, *outside_spans]) if self.outside else self.scopes

    def _scopes(self, spans: Iterable[ScopeSpan]) -> Scopes:
        scopes = Scopes(spans, self.end)
        for byte, name, declaration in self.outer_names:
            scopes.find_scope(byte).outer_names[name] = declaration
        return scopes


def find_locals(grammar: Grammar, root: tree_sitter.Node) -> Locals:
    """Run a language's `locals.scm` over a tree."""
    captures = dict(grammar.captures("locals", root))
    definitions: dict[int, tuple[tree_sitter.Node, str]] = {}
    for capture, nodes in captures.items():
        if capture.startswith(_DEFINITION):
            kind = capture.removeprefix(_DEFINITION)
            definitions |= {node.start_byte: (node, kind) for node in nodes}
    member_starts = {node.start_byte for node in captures.get("local.member", ())}
    fixed_starts = {node.start_byte for node in captures.get("local.reference.fixed", ())}
    return Locals(
        definitions=tuple(definition for _, definition in sorted(definitions.items())),
        references=tuple(
            (node, "fixed" if node.start_byte in fixed_starts else "")
            for node in sorted(captures.get("local.reference", ()), key=lambda node: node.start_byte)
            if node.start_byte not in member_starts
        ),
        written=frozenset(node.start_byte for node in captures.get("local.written", ())),
        outside=tuple(node.byte_range for node in captures.get("local.outside", ())),
        spans=tuple(_find_scope_spans(captures)),
        outer_names=tuple(
            (node.start_byte, node_text(node), declaration)
            for declaration in ("global", "nonlocal")
            for node in captures.get(f"local.{declaration}", ())
        ),
        late=_find_late_values(captures.get("local.late", ()), sorted(definitions)),
        end=root.end_byte,
    )


def _find_late_values(values: Iterable[tree_sitter.Node], starts: list[int]) -> dict[int, int]:
    """Map the first byte of each definition that is visible only after its value to the end of the value."""
    ends: dict[int, int] = {}
    for value in values:
        names = value.prev_named_sibling
        if names is None or names.type != "expression_list":
            names = value.parent or value
        first, last = (bisect_left(starts, byte) for byte in (names.start_byte, value.start_byte))
        ends |= dict.fromkeys(starts[first:last], value.end_byte)
    return ends


def _find_scope_spans(captures: Mapping[str, list[tree_sitter.Node]]) -> Iterator[ScopeSpan]:
    """Yield the spans of scopes, without blocks that are the body of one."""
    kinds: dict[int, str] = {}
    nodes: list[tree_sitter.Node] = []
    for kind in ("", *_SCOPE_KINDS):
        scope_nodes = captures.get(f"{_SCOPE}.{kind}" if kind else _SCOPE, [])
        kinds |= {node.id: kind for node in scope_nodes}
        nodes += scope_nodes
    nested_nodes = nest_nodes(nodes)
    for node, parent in nested_nodes:
        # A comprehension, a lambda or a loop may be the body of another, but has its own variables.
        block = node.type.endswith(("block", "_body"))
        if not block or parent < 0 or nested_nodes[parent][0].child_by_field_name("body") != node:
            yield (*node.byte_range, kinds[node.id])


def _find_outer_scope(scope: Scope) -> Scope | None:
    """Return the nearest enclosing scope that is no class, or None."""
    outer = scope.parent
    while outer is not None and outer.kind == "class":
        outer = outer.parent
    return outer


def find_definitions(
    bindings: Locals, kinds: Mapping[str, str]
) -> defaultdict[int, dict[str, tuple[int, str]]]:
    """Find the names that each scope defines, by its number: first byte and kind of the first definition.

    Names that a scope declares to be outer ones are defined in no scope.

    Args:
        bindings: Matches of the query.
        kinds: Variable kind of each definition kind that counts.
    """
    names: defaultdict[int, dict[str, tuple[int, str]]] = defaultdict(dict)
    for node, kind in bindings.definitions:
        variable_kind = kinds.get(kind)
        if variable_kind is None:
            continue
        scope, name = bindings.scopes.find_scope(node.start_byte), node_text(node)
        while kind == "expression" and scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        if kind == "assigned" and any(
            name in names[candidate.number] for candidate in bindings.scopes.visible_scopes(scope, name)
        ):
            continue
        if name not in scope.outer_names and name not in names[scope.number]:
            names[scope.number][name] = (node.start_byte, variable_kind)
    return names


def resolve_name(
    bindings: Locals,
    names: Mapping[int, Mapping[str, tuple[int, str]]],
    name: str,
    position: int,
    *,
    declared_first: bool,
) -> Scope | None:
    """Resolve a name to the scope that defines its variable; None if the text defines none.

    Args:
        bindings: Matches of the query.
        names: Definitions of each scope, see `find_definitions`.
        name: The name.
        position: Byte position of the reference.
        declared_first: Whether a name refers to a variable only after its declaration.
    """
    scopes = bindings.evaluation_scopes
    for scope in scopes.visible_scopes(scopes.find_scope(position), name):
        definition = names[scope.number].get(name)
        if definition is not None and (not declared_first or is_visible(bindings, definition, position)):
            return scope
    return None


def is_visible(bindings: Locals, definition: tuple[int, str], position: int) -> bool:
    """Return whether a definition is visible at a byte of its scope, for languages that declare first."""
    first, kind = definition
    # Fields are visible in all of their class.
    return kind == "field" or position == first or position >= bindings.late.get(first, first)


def find_unbound(bindings: Locals, *, declared_first: bool) -> frozenset[int]:
    """Find the first bytes of references that resolve to no definition; see `resolve_name`."""
    names = find_definitions(bindings, {kind: kind for _, kind in bindings.definitions})
    return frozenset(
        node.start_byte
        for node, _ in bindings.references
        if resolve_name(bindings, names, node_text(node), node.start_byte, declared_first=declared_first)
        is None
    )
