"""Definitions, functions and calls from the matches of a folder's queries.

`definitions.scm` names, a match each:

- ``@function`` a definition that encloses others, with ``@name``;
- ``@declaration`` one without a body, with ``@name``: a definition, but not a function;
- ``@class`` with ``@name``;
- ``@scope`` what encloses methods without being a named class; a ``@name`` counts in qualified names; it may
  be the node of the method itself;
- ``@barrier`` what encloses like a function but has no name, such as a lambda;
- ``@span`` with ``@function``: where the function begins, its decorators included; each part of it stands at
  the margin where the function is taken out of its file;
- ``@doc`` with ``@function``: its documentation, marks included; ``@doc.lines`` with ``@function``: comments
  in a row before it, of which those document that stand directly above it, each on lines of its own.

`calls.scm` names ``@bare`` or ``@method`` (the called name), with ``@arguments`` where there are any;
``@unbound`` names that are called where they mean no variable, and ``@not`` those not called after all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import tree_sitter

from sonde.languages._grammar import Match
from sonde.languages._text import EncodedText
from sonde.languages._tree import Call, Definition, Function

_ROLES = ("function", "declaration", "class", "scope", "barrier")
_CALLED = ("method", "bare", "unbound")


@dataclass(slots=True)
class Site:
    """One place of `definitions.scm`, in bytes.

    ``within`` is the innermost site around it, ``heads`` where the lines of its further decorators and of its
    name begin, each with where that itself begins.
    """

    role: str
    start: int
    end: int
    name: tuple[int, int] | None = None
    span: int | None = None
    heads: tuple[tuple[int, int], ...] = ()
    doc: tuple[int, int] | None = None
    within: Site | None = None

    @property
    def in_function(self) -> bool:
        """Whether a function or a barrier is anywhere around."""
        return any(site.role in ("function", "barrier") for site in self.around())

    def around(self) -> Iterator[Site]:
        """The sites around this one, innermost first."""
        site = self.within
        while site is not None:
            yield site
            site = site.within


def sites(matches: Iterable[Match]) -> list[Site]:
    """Merge the matches about one node and nest the places, in text order."""
    found: dict[tuple[int, int, str], Site] = {}
    for match in matches:
        role = next(name for name in _ROLES if name in match)
        node = match[role][0]
        start, end = node.start_byte, node.end_byte
        site = found.setdefault((start, end, role), Site(role, start, end))
        # A name that the grammar put in where the text has none is no name.
        if "name" in match and not match["name"][0].is_missing:
            site.name = match["name"][0].byte_range
        if "span" in match:
            span = match["span"][0]
            site.span = span.start_byte
            site.heads = tuple(
                (part.start_byte - part.start_point.column, part.start_byte)
                for part in span.children[1:]
                if part.start_point.column
            )
        if "doc" in match:
            # Of several comments in a row the last one stands next to the definition.
            site.doc = max(match["doc"][-1].byte_range, site.doc or (0, 0))
        if "doc.lines" in match and (above := list(_directly_above(node, match["doc.lines"]))):
            # The query may match each end of the row of comments.
            begin = min(above[-1].start_byte, site.doc[0] if site.doc else start)
            site.doc = begin, above[0].end_byte
    ordered = sorted(found.values(), key=lambda site: (site.start, -site.end, site.role != "scope"))
    open_sites: list[Site] = []
    for site in ordered:
        while open_sites and open_sites[-1].end <= site.start:
            open_sites.pop()
        site.within = open_sites[-1] if open_sites else None
        open_sites.append(site)
    return ordered


def _directly_above(node: tree_sitter.Node, comments: list[tree_sitter.Node]) -> Iterator[tree_sitter.Node]:
    """The comments that end on the line before a node, or before another such comment, the last one first."""
    row = node.start_point.row
    for comment in reversed(comments):
        before = comment.prev_sibling
        beside = before is not None and before.end_point.row == comment.start_point.row
        if comment.end_point.row + 1 != row or beside:
            return
        yield comment
        row = comment.start_point.row


def functions(
    found: Iterable[Site], source: EncodedText, docstring: Callable[[str], str]
) -> tuple[Function, ...]:
    """Functions with no enclosing function; ``docstring`` takes the marks off documentation."""
    listed: list[Function] = []
    for site in found:
        if site.role != "function" or site.name is None or site.in_function:
            continue
        name = source.slice(*site.name)
        outer = [source.slice(*around.name) for around in site.around() if around.name is not None]
        start = site.start if site.span is None else site.span
        listed.append(
            Function(
                start=source.at(start),
                end=source.at(site.end),
                name=name,
                qualified_name=".".join([*reversed(outer), name]),
                docstring=docstring(source.slice(*site.doc)) if site.doc else "",
                margins=tuple(
                    (source.at(line), source.at(head))
                    for line, head in site.heads
                    if not source.data[line:head].strip()
                ),
            )
        )
    return tuple(listed)


def definitions(found: Iterable[Site], source: EncodedText) -> tuple[Definition, ...]:
    """All named definitions; a function directly in a class or scope is a method."""
    listed: list[Definition] = []
    for site in found:
        if site.name is None or site.role not in ("function", "declaration", "class"):
            continue
        kind = "class" if site.role == "class" else "function"
        if kind == "function" and site.within is not None and site.within.role in ("class", "scope"):
            kind = "method"
        start, end = site.name
        listed.append(Definition(source.slice(start, end), kind, source.at(start), source.at(end)))
    return tuple(sorted(listed, key=lambda definition: definition.start))


def calls(
    matches: Sequence[Match],
    errors: list[tuple[int, int]],
    source: EncodedText,
    unbound: Callable[[], Collection[int]],
) -> tuple[Call, ...]:
    """Calls by name, in text order.

    Args:
        matches: Those of `calls.scm`.
        errors: Byte spans of ERROR nodes.
        source: The text.
        unbound: Gives the first bytes of names that mean no variable.
    """
    starts = [start for start, _ in errors]
    free = unbound() if any("unbound" in match for match in matches) else ()
    left_out = {node.start_byte for match in matches for node in match.get("not", ())}
    listed: list[Call] = []
    for match in matches:
        how = next((name for name in _CALLED if name in match), None)
        if how is None:
            continue
        called = match[how][0]
        start, end = called.byte_range
        # As of definitions: a name that the grammar put in is no name.
        if called.is_missing or start in left_out or (how == "unbound" and start not in free):
            continue
        arguments = match["arguments"][0].byte_range if "arguments" in match else (end, end)
        before = bisect_right(starts, start) - 1
        listed.append(
            Call(
                name=source.slice(start, end),
                start=source.at(start),
                end=source.at(end),
                is_method=how == "method",
                arguments_start=source.at(arguments[0]),
                arguments_end=source.at(arguments[1]),
                in_error=before >= 0 and start < errors[before][1],
            )
        )
    return tuple(sorted(listed, key=lambda call: call.start))
