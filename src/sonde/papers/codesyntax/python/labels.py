"""Relations on the nodes of `ast`, as CodeSyntax's labeller finds them, one quirk at a time.

`ast` is the running interpreter's: a text in syntax that it does not know does not parse. What it makes of a
text that parses is the same on every Python that sonde runs on; the inside of f-strings, where it is not, is
not looked at. On Python 3.9, which the README of the published code names, the names of an import had no
position and so were nobody's children; here they are.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Set

from sonde.languages._relations import CHILDREN, Edge
from sonde.papers.codesyntax.python.brackets import margin_begin
from sonde.papers.codesyntax.python.places import Places
from sonde.papers.codesyntax.python.quirks import HANDLER_ORELSE, MARGIN, NEWLINE_ALONE, UNFILTERED_ELSE
from sonde.papers.codesyntax.python.rules import (
    IF_ELSE,
    RelationRule,
    is_function,
    parts,
    relations_of,
)


def parsed(text: str, quirks: Set[str]) -> ast.Module | None:
    """The syntax tree, or None for a text that does not parse.

    A decorated method cut out of its class begins in another column than its other lines; it is parsed with
    its margin put back.
    """
    tree = _parsed(text)
    begin = margin_begin(text)
    if tree is None and begin and MARGIN not in quirks:
        margin = text[text.rfind("\n", 0, begin) + 1 : begin]
        around = _parsed(f"if 1:\n{margin}{text}")
        if around is not None:
            ast.increment_lineno(around, -1)
            assert isinstance(around.body[0], ast.If)
            # Nobody looks at the decorators, the only nodes on the line that was moved.
            return ast.Module(around.body[0].body + around.body[1:], [])
    return tree


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def edges(tree: ast.Module, places: Places, quirks: Set[str]) -> Iterator[Edge]:
    """The edges of a tree, each node's own before its children's."""
    waiting: list[tuple[ast.AST | None, ast.AST]] = [(None, tree)]
    while waiting:
        parent, node = waiting.pop()
        placed = hasattr(node, "lineno") and not is_function(node)
        if parent is not None and placed:
            head, first = places.first(parent), places.first(node)
            if 0 < head < first <= (last := places.last(node)):
                yield Edge(CHILDREN, head, first, last)
        if isinstance(node, ast.If) and node.orelse:
            yield from _else(node, places, quirks)
        for relation in relations_of(node):
            edge = _edge(relation, places, quirks)
            if 0 < edge.head < edge.first <= edge.last:
                yield edge
        above = node if placed else None
        waiting.extend((above, child) for child in reversed(list(parts(node))))


def _edge(relation: RelationRule, places: Places, quirks: Set[str]) -> Edge:
    final = relation.last
    if relation.name == "Try:handler->orelse" and HANDLER_ORELSE in quirks:
        final = relation.first
    head = places.last(relation.head) if relation.head_end else places.first(relation.head)
    last = places.last(final)
    if not relation.end_only:
        first = places.first(relation.first)
    else:
        first = last if NEWLINE_ALONE in quirks else places.last_itself(final)
    return Edge(relation.name, head, first, last)


def _else(node: ast.If, places: Places, quirks: Set[str]) -> Iterator[Edge]:
    """From ``if`` to the first ``else`` or ``elif`` between the body and what follows it."""
    head = places.first(node)
    for place in range(places.last(node.body[-1]) + 1, places.first(node.orelse[0]) + 1):
        if places.word(place) in ("else", "elif"):
            if head > 0 or UNFILTERED_ELSE in quirks:
                yield Edge(IF_ELSE, head, place, place)
            return
