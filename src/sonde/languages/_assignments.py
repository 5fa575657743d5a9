"""Which value goes into which target of an assignment, several at once (``x, y = a, b``) included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tree_sitter

_PLACES = frozenset(
    (
        *("subscript", "attribute", "array_access", "field_access", "index_expression", "call"),
        *("selector_expression", "slice_expression", "element_reference", "subscript_expression"),
        *("member_expression", "member_access_expression", "scoped_property_access_expression"),
        *("parenthesized_expression", "unary_expression"),
    )
)
"""Targets that lead to a place inside the value of a variable: ``a.b``, ``a[i]``, ``*a``."""

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
    """A part of a list of targets or values.

    Attributes:
        node: The target or the value; None for a hole.
        key: By what name it is taken, where that is not its position.
        splat: Whether it takes or gives any number.
    """

    node: tree_sitter.Node | None
    key: str = ""
    splat: bool = False


Flow = tuple[tree_sitter.Node, tree_sitter.Node]
"""What is written, and a value that goes into it."""


def assigned(target: tree_sitter.Node, source: tree_sitter.Node, *, parallel: bool) -> Iterator[Flow]:
    """Yield every part of a target with the values that go into it.

    Args:
        target: The left side. Of ``a[i]`` and ``a.b`` what is written is ``a``.
        source: The right side.
        parallel: Whether a list on the right gives each target a value of its own; a list that a loop goes
            through gives all of them every value.
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
    """Return the parts of a list; None for what is no list."""
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
    """Return the values of each target; None where it cannot be told."""
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
    """Return the values of each target by key; None where a key is computed or a value has none."""
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
