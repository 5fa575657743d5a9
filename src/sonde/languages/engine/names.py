"""Which identifier binds a name, where the name is seen, and which refers: one account for all that ask.

A language's `locals.scm` is in tree-sitter's own convention:

- ``@local.scope``; ``.function`` and ``.comprehension`` where only these count for some bindings, ``.class``
  where nothing inside sees the names of the class, ``.closed`` where nothing inside sees a name around. A
  block that is the body of a scope is no scope of its own, so parameters and loop variables belong to the
  block they open.
- ``@local.definition.KIND``: the name in a definition. Kinds: ``parameter``, ``variable``, ``exception``
  (caught), ``pattern`` (taken by one), ``expression`` (belongs to the nearest function), ``again`` (given a
  new value), ``assigned`` (given a value, which defines it where no variable of the name is seen before),
  ``deleted``, ``field``, ``constant``, ``function``, ``method`` (with a name space of its own), ``type``.
- ``@local.reference``: every identifier; ``.fixed`` one that is never the place of a misuse.

And what the convention has no word for:

- ``@local.member``: an identifier that is no variable, such as the name of an attribute;
- ``@local.written``: one whose variable gets a value there, which does not define it;
- ``@local.outside``: what is evaluated in the scope around the innermost one, as a parameter's default is;
- ``@local.late``: a value whose variables, which stand right before it, are seen only behind it;
- ``@local.global``, ``@local.nonlocal``: a name that its scope takes from outside.
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
"""First byte of a scope, one past its last, and its kind; ``"outside"`` is evaluated in the scope around."""


@dataclass(slots=True, eq=False)
class Scope:
    """One lexical scope.

    Attributes:
        kind: ``"module"``, ``"function"``, ``"class"``, ``"comprehension"``, ``"closed"``, or empty for other
            blocks.
        parent: The scope around it; None for the file's own.
        number: Its place among the scopes of the text.
        declared: Names that belong elsewhere, with ``"global"`` or ``"nonlocal"``.
    """

    kind: str
    parent: Scope | None
    number: int
    declared: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Region:
    """Bytes that belong to a scope, which may be the one around the node that holds them."""

    start: int
    end: int
    scope: Scope
    within: _Region | None


class Scopes:
    """The scopes of a text by position.

    Args:
        spans: Where scopes begin and end.
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
        """The scope in which the code at a byte is evaluated."""
        region = self._regions[bisect_right(self._starts, position) - 1]
        while region.within is not None and region.end <= position:
            region = region.within
        return region.scope

    def seen(self, scope: Scope, name: str = "") -> Iterator[Scope]:
        """The scopes that a name in a scope is looked up in, innermost first; without a name all that may be.

        Names of a class are seen in its own scope alone, unless its language has them seen further in.
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
        """The scope that a definition in a scope belongs to.

        Args:
            scope: Where it stands.
            name: What it binds.
            bound: Names that are bound already in a scope, which a ``nonlocal`` may mean.
            past: Whether it belongs to no comprehension.
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
    """What `locals.scm` finds in a tree; nodes in text order.

    Attributes:
        definitions: Names in definitions with their kinds; of several kinds the last in the file.
        references: Identifiers that are variables, definitions included, with empty or ``"fixed"``.
        written: First bytes of names that get a value and are no definition.
        outside: What is evaluated in the scope around.
        spans: Where scopes begin and end.
        declared: Names that a scope takes from outside: first byte, name, and ``"global"`` or ``"nonlocal"``.
        late: For definitions that are seen only behind their value, by first byte, one past the value's last.
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
        """The scopes, `outside` taken for what stands inside them."""
        return self._scopes(self.spans)

    @cached_property
    def evaluated(self) -> Scopes:
        """The scopes, `outside` where it is evaluated."""
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
    """From the first byte of each definition that is seen only behind its value to the end of that."""
    found: dict[int, int] = {}
    for value in values:
        names = value.prev_named_sibling
        if names is None or names.type != "expression_list":
            names = value.parent or value
        first, last = (bisect_left(defined, byte) for byte in (names.start_byte, value.start_byte))
        found |= dict.fromkeys(defined[first:last], value.end_byte)
    return found


def _spans(captured: Mapping[str, list[tree_sitter.Node]]) -> Iterator[Span]:
    """Where scopes begin and end, without blocks that are the body of one."""
    kinds: dict[int, str] = {}
    nodes: list[tree_sitter.Node] = []
    for kind in ("", *_SCOPES):
        found = captured.get(f"{_SCOPE}.{kind}" if kind else _SCOPE, [])
        kinds |= {node.id: kind for node in found}
        nodes += found
    listed = nested(nodes)
    for node, above in listed:
        # A comprehension, a lambda or a loop may be the body of another, and has variables of its own.
        block = node.type.endswith(("block", "_body"))
        if not block or above < 0 or listed[above][0].child_by_field_name("body") != node:
            yield (*node.byte_range, kinds[node.id])


def _enclosing(scope: Scope) -> Scope | None:
    """The function around a scope."""
    around = scope.parent
    while around is not None and around.kind == "class":
        around = around.parent
    return around


def definitions_of(found: Locals, kinds: Mapping[str, str]) -> defaultdict[int, dict[str, tuple[int, str]]]:
    """The names that each scope defines, by its number: the first byte of a first definition, and its kind.

    Args:
        found: What the query found.
        kinds: Kinds of definitions that count, and what each is. Names that a scope takes from outside are
            defined in none.
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
    """The scope whose variable a name means at a byte; None where the text declares none.

    Args:
        found: What the query found.
        names: What each scope defines, see `definitions_of`.
        name: The name.
        at: The byte.
        ordered: Whether a name means a variable only after its declaration.
    """
    scopes = found.evaluated
    for scope in scopes.seen(scopes.at(at), name):
        declared = names[scope.number].get(name)
        if declared is not None and (not ordered or is_seen(found, declared, at)):
            return scope
    return None


def is_seen(found: Locals, declared: tuple[int, str], at: int) -> bool:
    """Whether a definition is seen at a byte of its scope where names mean what is declared before them."""
    first, kind = declared
    # All of a class sees its fields.
    return kind == "field" or at == first or at >= found.late.get(first, first)


def unbound(found: Locals, *, ordered: bool) -> frozenset[int]:
    """First bytes of the references that mean nothing which the text defines; ``ordered`` as for `meant`."""
    names = definitions_of(found, {kind: kind for _, kind in found.definitions})
    return frozenset(
        node.start_byte
        for node, _ in found.references
        if meant(found, names, node_text(node), node.start_byte, ordered=ordered) is None
    )
