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

from sonde.languages.engine.grammar import Grammar, node_text
from sonde.languages.engine.tokens import nested

_SCOPES = ("function", "class", "comprehension", "closed")


_DEFINITION, _SCOPE = "local.definition.", "local.scope"


Span = tuple[int, int, str]
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
    declared: dict[str, str] = field(default_factory=dict[str, str])


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

    def __init__(self, spans: Iterable[Span], end: int) -> None:
        self.module = Scope("module", None, 0)
        self._regions = [_Region(-1, end + 1, self.module, None)]
        count = 1
        region = self._regions[0]
        for start, stop, kind in sorted(set(spans), key=lambda one: (one[0], -one[1], one[2] != "outside")):
            while region.within is not None and region.end <= start:
                region = region.within
            around = region.scope.parent or region.scope
            if kind == "outside":
                scope = around
            else:
                scope = Scope(kind, region.scope, count)
                count += 1
            region = _Region(start, stop, scope, region)
            self._regions.append(region)
        self._starts = [region.start for region in self._regions]

    def __iter__(self) -> Iterator[Scope]:
        return iter({region.scope.number: region.scope for region in self._regions}.values())

    def at(self, position: int) -> Scope:
        """Return the scope in which the code at a byte position is evaluated."""
        region = self._regions[bisect_right(self._starts, position) - 1]
        while region.within is not None and region.end <= position:
            region = region.within
        return region.scope

    def seen(self, scope: Scope, name: str = "") -> Iterator[Scope]:
        """Yield the scopes in which a name is looked up, innermost first; without a name all visible ones.

        Names of a ``"class"`` scope are visible only directly in it.
        """
        here, found = scope, scope
        while True:
            where = found.declared.get(name)
            if where is not None and found is not self.module:
                here = found = self.module if where == "global" else _enclosing(found) or self.module
                continue
            if found.kind != "class" or found is here:
                yield found
            if found.parent is None or found.kind == "closed":
                return
            found = found.parent

    def owner(
        self, scope: Scope, name: str, bound: Callable[[Scope], Collection[str]], *, past: bool = False
    ) -> Scope:
        """Return the scope that a definition belongs to.

        Args:
            scope: The innermost scope around the definition.
            name: The defined name.
            get_bound_names: Returns the names already bound in a scope, to which a ``nonlocal`` may refer.
            skip_comprehensions: Whether the definition never belongs to a comprehension.
        """
        while past and scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        where = scope.declared.get(name)
        if where == "global":
            return self.module
        around = _enclosing(scope) if where == "nonlocal" else None
        while around is not None and around.kind != "module":
            if name in bound(around):
                return around
            around = _enclosing(around)
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
    spans: tuple[Span, ...]
    declared: tuple[tuple[int, str, str], ...]
    late: Mapping[int, int]
    end: int

    @cached_property
    def scopes(self) -> Scopes:
        """Build the scopes by text position, with `outside` spans in the scope that contains them."""
        return self._scopes(self.spans)

    @cached_property
    def evaluated(self) -> Scopes:
        """Build the scopes by evaluation, with `outside` spans in the parent scope."""
        outside = ((start, end, "outside") for start, end in self.outside)
        return self._scopes([*self.spans, *outside]) if self.outside else self.scopes

    def _scopes(self, spans: Iterable[Span]) -> Scopes:
        found = Scopes(spans, self.end)
        for byte, name, where in self.declared:
            found.at(byte).declared[name] = where
        return found


def locals_of(grammar: Grammar, root: tree_sitter.Node) -> Locals:
    """Run a language's `locals.scm` over a tree."""
    captured = dict(grammar.captures("locals", root))
    defined: dict[int, tuple[tree_sitter.Node, str]] = {}
    for capture, nodes in captured.items():
        if capture.startswith(_DEFINITION):
            kind = capture.removeprefix(_DEFINITION)
            defined |= {node.start_byte: (node, kind) for node in nodes}
    members = {node.start_byte for node in captured.get("local.member", ())}
    fixed = {node.start_byte for node in captured.get("local.reference.fixed", ())}
    return Locals(
        definitions=tuple(one for _, one in sorted(defined.items())),
        references=tuple(
            (node, "fixed" if node.start_byte in fixed else "")
            for node in sorted(captured.get("local.reference", ()), key=lambda node: node.start_byte)
            if node.start_byte not in members
        ),
        written=frozenset(node.start_byte for node in captured.get("local.written", ())),
        outside=tuple(node.byte_range for node in captured.get("local.outside", ())),
        spans=tuple(_spans(captured)),
        declared=tuple(
            (node.start_byte, node_text(node), where)
            for where in ("global", "nonlocal")
            for node in captured.get(f"local.{where}", ())
        ),
        late=_late(captured.get("local.late", ()), sorted(defined)),
        end=root.end_byte,
    )


def _late(values: Iterable[tree_sitter.Node], defined: list[int]) -> dict[int, int]:
    """Map the first byte of each definition that is visible only after its value to the end of the value."""
    found: dict[int, int] = {}
    for value in values:
        names = value.prev_named_sibling
        if names is None or names.type != "expression_list":
            names = value.parent or value
        first, last = (bisect_left(defined, byte) for byte in (names.start_byte, value.start_byte))
        found |= dict.fromkeys(defined[first:last], value.end_byte)
    return found


def _spans(captured: Mapping[str, list[tree_sitter.Node]]) -> Iterator[Span]:
    """Yield the spans of scopes, without blocks that are the body of one."""
    kinds: dict[int, str] = {}
    nodes: list[tree_sitter.Node] = []
    for kind in ("", *_SCOPES):
        found = captured.get(f"{_SCOPE}.{kind}" if kind else _SCOPE, [])
        kinds |= {node.id: kind for node in found}
        nodes += found
    listed = nested(nodes)
    for node, above in listed:
        # A comprehension, a lambda or a loop may be the body of another, but has its own variables.
        block = node.type.endswith(("block", "_body"))
        if not block or above < 0 or listed[above][0].child_by_field_name("body") != node:
            yield (*node.byte_range, kinds[node.id])


def _enclosing(scope: Scope) -> Scope | None:
    """Return the nearest enclosing scope that is no class, or None."""
    around = scope.parent
    while around is not None and around.kind == "class":
        around = around.parent
    return around


def definitions_of(found: Locals, kinds: Mapping[str, str]) -> defaultdict[int, dict[str, tuple[int, str]]]:
    """Find the names that each scope defines, by its number: first byte and kind of the first definition.

    Names that a scope declares to be outer ones are defined in no scope.

    Args:
        bindings: Matches of the query.
        kinds: Variable kind of each definition kind that counts.
    """
    names: defaultdict[int, dict[str, tuple[int, str]]] = defaultdict(dict)
    for node, kind in found.definitions:
        what = kinds.get(kind)
        if what is None:
            continue
        scope, name = found.scopes.at(node.start_byte), node_text(node)
        while kind == "expression" and scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        if kind == "assigned" and any(name in names[seen.number] for seen in found.scopes.seen(scope, name)):
            continue
        if name not in scope.declared and name not in names[scope.number]:
            names[scope.number][name] = (node.start_byte, what)
    return names


def meant(
    found: Locals, names: Mapping[int, Mapping[str, tuple[int, str]]], name: str, at: int, *, ordered: bool
) -> Scope | None:
    """Resolve a name to the scope that defines its variable; None if the text defines none.

    Args:
        bindings: Matches of the query.
        names: Definitions of each scope, see `find_definitions`.
        name: The name.
        position: Byte position of the reference.
        declared_first: Whether a name refers to a variable only after its declaration.
    """
    scopes = found.evaluated
    for scope in scopes.seen(scopes.at(at), name):
        declared = names[scope.number].get(name)
        if declared is not None and (not ordered or is_seen(found, declared, at)):
            return scope
    return None


def is_seen(found: Locals, declared: tuple[int, str], at: int) -> bool:
    """Return whether a definition is visible at a byte of its scope, for languages that declare first."""
    first, kind = declared
    # Fields are visible in all of their class.
    return kind == "field" or at == first or at >= found.late.get(first, first)


def unbound(found: Locals, *, ordered: bool) -> frozenset[int]:
    """Find the first bytes of references that resolve to no definition; see `resolve_name`."""
    names = definitions_of(found, {kind: kind for _, kind in found.definitions})
    return frozenset(
        node.start_byte
        for node, _ in found.references
        if meant(found, names, node_text(node), node.start_byte, ordered=ordered) is None
    )
