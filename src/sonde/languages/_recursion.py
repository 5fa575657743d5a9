"""Calls of a function by itself, as the captures of a language's `metrics.scm` tell them.

- ``called``: a name that is called; bare or through the object itself makes no difference (Java, Ruby);
- ``called.bare``: a bare one, where methods are not reached so (Python, Go, JavaScript, PHP);
- ``called.own``: one that is called through the object itself (``self.f()``);
- ``called.receiver``: one that is called through a variable, which has to be the method's ``receiver``;
- ``called.unbound``: a name that is a call where it means no variable;
- ``method``: a function that stands in a class, where no bare call reaches it;
- ``function.bare``, ``function.member``: names of a function, where they may stand beside it, by the calls
  that reach them. Without these a function has the name of its ``name`` field.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import tree_sitter

from sonde.languages._leaves import ParsedText
from sonde.languages._treesitter import TreeSitterLanguage

Captured = Mapping[str, list[tree_sitter.Node]]

_OTHER_KINDS = ("method", "again", "deleted")
"""Kinds of definitions that give no variable a meaning which a bare call could have."""


class _Names(NamedTuple):
    """Names of one function: those that a bare call reaches and those that one through the object does."""

    bare: frozenset[str]
    member: frozenset[str]


def count_recursion(
    language: TreeSitterLanguage,
    text: str,
    captured: Captured,
    functions: Sequence[tree_sitter.Node],
    *,
    method: bool = False,
    ignore_case: bool = False,
) -> int:
    """Count the calls of functions by themselves.

    Args:
        language: The language.
        text: The text.
        captured: What its `metrics.scm` captures.
        functions: The outermost functions, in text order.
        method: Whether a text that is one function was taken out of a class.
        ignore_case: Whether names are the same in whatever case.
    """
    reading = language.reading(text)
    method = method and len(functions) == 1
    names = [_names(reading, captured, function, functions, method=method) for function in functions]
    starts = [function.start_byte for function in functions]
    inner = [node for node in captured.get("function", []) if node.id not in {one.id for one in functions}]
    count = 0
    for capture, called in _calls(captured):
        index = bisect_right(starts, called.start_byte) - 1
        if index < 0 or called.end_byte > functions[index].end_byte:
            continue
        name, own = reading.text(called), names[index]
        if ignore_case:
            name, own = name.lower(), _Names(*(frozenset(map(str.lower, some)) for some in own))
        if capture == "called.bare":
            reached = name in own.bare and not _is_bound_inside(language, text, functions[index], called)
        elif capture == "called.unbound":
            reached = name in own.member and called.start_byte in language.unbound(text)
        elif capture == "called.receiver":
            reached = name in own.member and _receives(reading, captured, functions[index], called)
        else:
            reached = name in (own.bare | own.member if capture == "called" else own.member)
        count += reached and not _has_namesake(reading, inner, called, name)
    return count


def _calls(captured: Captured) -> Iterator[tuple[str, tree_sitter.Node]]:
    for capture in ("called", "called.bare", "called.own", "called.receiver", "called.unbound"):
        for node in captured.get(capture, []):
            yield capture, node


def _names(
    reading: ParsedText,
    captured: Captured,
    function: tree_sitter.Node,
    functions: Sequence[tree_sitter.Node],
    *,
    method: bool,
) -> _Names:
    """Return the names of one of the outermost functions."""
    if "function.bare" not in captured and "function.member" not in captured:
        node = function.child_by_field_name("name")
        named = frozenset[str]() if node is None else frozenset({reading.text(node)})
        method = method or any(node.id == function.id for node in captured.get("method", []))
        return _Names(frozenset() if method else named, named)
    ends = [one.end_byte for one in functions]
    body = function.child_by_field_name("body")
    beyond = function.end_byte if body is None else body.start_byte
    bare, member = set[str](), set[str]()
    for capture, found in (("function.bare", bare), ("function.member", member)):
        for node in captured.get(capture, []):
            # A name stands in the head of its function or before it.
            index = bisect_right(ends, node.start_byte)
            if index == len(functions) or functions[index].id != function.id or node.start_byte >= beyond:
                continue
            # What is given to a field is no variable, although it looks like one outside of its class.
            (member if method and node.start_byte < function.start_byte else found).add(reading.text(node))
    return _Names(frozenset(bare), frozenset(member))


def _is_bound_inside(
    language: TreeSitterLanguage, text: str, function: tree_sitter.Node, called: tree_sitter.Node
) -> bool:
    """Return whether a name means a parameter, a variable or a function inside a function."""
    found, reading = language.locals(text), language.reading(text)
    scopes, name, own = found.evaluated, reading.text(called), function.child_by_field_name("name")
    seen = {scope.number for scope in scopes.seen(scopes.at(called.start_byte), name)}
    last = called.start_byte if language.settings.declared_first else function.end_byte
    return any(
        kind not in _OTHER_KINDS
        and function.start_byte <= node.start_byte <= last
        and node != own
        and reading.text(node) == name
        and scopes.at(node.start_byte).number in seen
        for node, kind in found.definitions
    )


def _receives(
    reading: ParsedText, captured: Captured, function: tree_sitter.Node, called: tree_sitter.Node
) -> bool:
    """Return whether a name is called through the receiver of its method."""
    through = called.parent.named_children[0] if called.parent else None
    return through is not None and any(
        reading.text(node) == reading.text(through)
        for node in captured.get("receiver", [])
        if function.start_byte <= node.start_byte < function.end_byte
    )


def _has_namesake(
    reading: ParsedText, inner: Sequence[tree_sitter.Node], called: tree_sitter.Node, name: str
) -> bool:
    """Return whether a call stands in a class inside the function that has a method of the name itself."""
    for function in inner:
        node, around = function.child_by_field_name("name"), function.parent
        if node is None or around is None or reading.text(node) != name:
            continue
        if around.start_byte <= called.start_byte and called.end_byte <= around.end_byte:
            return True
    return False
