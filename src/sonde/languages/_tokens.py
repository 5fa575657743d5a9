"""Code tokens: the leaves of a tree, what no leaf covers, and what each is.

Every character that is not blank lies in exactly one token. Mostly a token is a leaf. Two kinds of text
lie in no leaf: text that a node holds between its children (a string around an escape), which becomes a
literal whose ``node`` is that node; and characters that the grammar skips (a backslash before a newline,
or what it could not place inside an ERROR node), which become layout or error tokens of the innermost
node around them. An operator of two words (``not in``) is two tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import tree_sitter
from jaxtyping import Bool, Int

from sonde.languages._settings import TokenRules
from sonde.languages._text import Source, blank
from sonde.languages._tree import TOKEN_KINDS, CodeTokens, Tree

_NUMBER = {name: number for number, name in enumerate(TOKEN_KINDS)}
_WITHIN = "within."

Captures = Iterable[tuple[str, list[tree_sitter.Node]]]
Stretch = tuple[int, int, int]


def code_tokens(tree: Tree, rules: TokenRules, captures: Captures, source: Source) -> CodeTokens:
    """The code tokens of a tree.

    Args:
        tree: The columns.
        rules: From kinds of leaves to kinds of tokens.
        captures: Of `identifiers.scm`: capture names are roles, a later one takes precedence;
            ``within.ROLE`` gives a role to the names inside a node that have no other.
        source: The text that the captures' bytes are in.
    """
    visible = ~blank(tree.text)
    seen = np.concatenate([[0], np.cumsum(visible)])
    kinds = _kinds(tree, rules)
    leaves = tree.leaves
    # A grammar may spell a newline or an indent as a leaf; the blanks of a string are its content.
    written = (seen[tree.end[leaves]] > seen[tree.start[leaves]]) | (kinds[leaves] == _NUMBER["literal"])
    leaves = leaves[written]
    held = list(_held(tree, rules))
    start, end, node = _merge(tree.start[leaves], tree.end[leaves], leaves, held)
    skipped = list(_skipped(tree, start, end, visible))
    kind = kinds[node]
    if skipped:
        faulty = np.array([_in_error(tree, row) for _, _, row in skipped])
        whole = np.concatenate([kind, np.where(faulty, _NUMBER["error"], _NUMBER["layout"])])
        order = np.argsort(np.concatenate([start, [first for first, _, _ in skipped]]), kind="stable")
        kind = whole[order]
        start, end, node = _merge(start, end, node, skipped)
    roles = _roles(tree, rules, captures, source, start, kind, node)
    return CodeTokens(start=start, end=end, kind=kind.astype(np.int32), role=roles, node=node)


def _kinds(tree: Tree, rules: TokenRules) -> Int[np.ndarray, " node"]:
    """The token kind that each node has or would have as a leaf."""
    tables = (
        ("keyword", rules.keywords),
        ("identifier", rules.identifiers),
        ("operator", rules.operators),
        ("comment", rules.comments),
        ("layout", rules.layout),
        ("literal", rules.literals),
    )
    by_name = {name: _NUMBER[kind] for kind, names in tables for name in names}
    table = np.array([by_name.get(name, _NUMBER["punctuation"]) for name in tree.kinds], np.int32)
    kinds = table[tree.kind]
    above = np.where(tree.parent >= 0, tree.kind[tree.parent], -1)
    for parent, exceptions in rules.under.items():
        if parent in tree.kinds:
            inside = above == tree.kinds.index(parent)
            for name, kind in exceptions.items():
                if name in tree.kinds:
                    kinds[inside & (tree.kind == tree.kinds.index(name))] = _NUMBER[kind]
    kinds[tree.error] = _NUMBER["error"]
    return kinds


def _held(tree: Tree, rules: TokenRules) -> Iterator[Stretch]:
    """Text that a node holds between its children, with the node's row."""
    holds = [index for index, name in enumerate(tree.kinds) if name in rules.holds_text]
    for row in np.flatnonzero(np.isin(tree.kind, holds)).tolist():
        child, beyond = row + 1, int(tree.last[row])
        if child == beyond:
            continue
        position = int(tree.start[row])
        while child < beyond:
            if tree.start[child] > position:
                yield position, int(tree.start[child]), row
            position, child = int(tree.end[child]), int(tree.last[child])
        if tree.end[row] > position:
            yield position, int(tree.end[row]), row


def _merge(
    start: Int[np.ndarray, " token"],
    end: Int[np.ndarray, " token"],
    node: Int[np.ndarray, " token"],
    more: list[Stretch],
) -> tuple[Int[np.ndarray, " merged"], Int[np.ndarray, " merged"], Int[np.ndarray, " merged"]]:
    """Put stretches between tokens, in text order."""
    if not more:
        return start, end, node
    added = np.array(more, np.int32)
    order = np.argsort(np.concatenate([start, added[:, 0]]), kind="stable")
    start, end, node = (
        np.concatenate([column, added[:, place]]).astype(np.int32)[order]
        for place, column in enumerate((start, end, node))
    )
    return start, end, node


def _skipped(
    tree: Tree,
    start: Int[np.ndarray, " token"],
    end: Int[np.ndarray, " token"],
    visible: Bool[np.ndarray, " character"],
) -> Iterator[Stretch]:
    """Runs of visible characters in no token, with the innermost node around each."""
    cover = np.zeros(len(visible) + 1, np.int32)
    np.add.at(cover, start, 1)
    np.add.at(cover, end, -1)
    bare = visible & (np.cumsum(cover[:-1]) == 0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bare, [False]])))
    for first, beyond in edges.reshape(-1, 2).tolist():
        yield first, beyond, _innermost(tree, first, beyond)


def _innermost(tree: Tree, start: int, end: int) -> int:
    """The innermost node around a stretch, the root where none is."""
    after = int(np.searchsorted(tree.start[tree.leaves], start))
    best = 0
    for leaf in tree.leaves[max(after - 1, 0) : after + 1].tolist():
        for row in (leaf, *tree.ancestors(leaf)):
            if tree.start[row] <= start and end <= tree.end[row]:
                best = max(best, row)
                break
    return best


def _in_error(tree: Tree, row: int) -> bool:
    return any(bool(tree.error[above]) for above in (row, *tree.ancestors(row)))


def _roles(
    tree: Tree,
    rules: TokenRules,
    captures: Captures,
    source: Source,
    start: Int[np.ndarray, " token"],
    kind: Int[np.ndarray, " token"],
    node: Int[np.ndarray, " token"],
) -> tuple[str, ...]:
    """Roles of identifiers from the captures, of literals from the rules, else empty."""
    literal = np.array([rules.literals.get(name, "") for name in tree.kinds], object)
    roles = np.where(kind == _NUMBER["literal"], literal[tree.kind[node]], "")
    named = kind == _NUMBER["identifier"]
    inside: list[tuple[str, int, int]] = []
    for role, nodes in captures:
        spans = np.array([found.byte_range for found in nodes], np.int64)
        first, beyond = source.characters(spans[:, 0]), source.characters(spans[:, 1])
        if role.startswith(_WITHIN):
            inside += [
                (role.removeprefix(_WITHIN), *span)
                for span in zip(first.tolist(), beyond.tolist(), strict=True)
            ]
            continue
        place = np.searchsorted(start, first)
        place = place[place < len(start)]
        place = place[np.isin(start[place], first) & named[place]]
        roles[place] = role
    for role, first, beyond in inside:
        area = slice(*np.searchsorted(start, (first, beyond)))
        roles[area][named[area] & (roles[area] == "")] = role
    roles[named & (roles == "")] = "variable"
    return tuple(roles.tolist())
