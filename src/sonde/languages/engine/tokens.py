"""Code tokens with their kind and role, from the leaves of a tree and the text that no leaf covers.

Every character that is not whitespace lies in exactly one token. Most tokens are leaves. Two kinds of text
lie in no leaf: text that a node holds between its children (a string around an escape), which becomes a
literal whose ``node`` is that node; and characters that the grammar skips (a backslash before a newline,
or text that it could not parse inside an ERROR node), which become layout or error tokens of the innermost
node around them. An operator of two words (``not in``) is two tokens; a name with children (``$`` and the
name after it) is one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tree_sitter
from jaxtyping import Bool, Int

from sonde.languages.engine.grammar import Parsed, TokenRules, named_kinds, names_of_kinds, node_rows
from sonde.languages.engine.text import EncodedText, blank
from sonde.languages.engine.tree import ERROR, TOKEN_KINDS, CodeTokens, Tree

_NUMBER = {name: number for number, name in enumerate(TOKEN_KINDS)}


_WITHIN = "within."


Captures = Iterable[tuple[str, list[tree_sitter.Node]]]


Stretch = tuple[int, int, int]


def code_tokens(tree: Tree, rules: TokenRules, captures: Captures, source: EncodedText) -> CodeTokens:
    """Build the code tokens of a tree.

    Args:
        tree: The syntax tree.
        rules: Rules from kinds of leaves to kinds of tokens.
        captures: Captures of `identifiers.scm`: names are roles, a later one takes precedence;
            ``within.ROLE`` gives a role to the names inside a node that have no other role.
        source: The text, for the captures' byte positions.
    """
    visible = ~blank(tree.text)
    seen = np.zeros(len(visible) + 1, np.int32)
    np.cumsum(visible, out=seen[1:])
    kinds = _kinds(tree, rules)
    leaves = _rows(tree, rules.whole & rules.identifiers)
    # A grammar may have leaves for newlines and indents; whitespace in a string is its content.
    written = (seen[tree.end[leaves]] > seen[tree.start[leaves]]) | (kinds[leaves] == _NUMBER["literal"])
    leaves = leaves[written]
    held = list(_held(tree, rules))
    start, end, node = _merge(tree.start[leaves], tree.end[leaves], leaves, held)
    kind = kinds[node]
    # Tokens never overlap: if they hold as many visible characters as the text, none is uncovered.
    if int((seen[end] - seen[start]).sum()) != seen[-1]:
        skipped = list(_uncovered_runs(tree, start, end, visible))
        faulty = np.array([_in_error(tree, row) for _, _, row in skipped], np.bool_)
        whole = np.concatenate([kind, np.where(faulty, _NUMBER["error"], _NUMBER["layout"])])
        order = np.argsort(np.concatenate([start, [first for first, _, _ in skipped]]), kind="stable")
        kind = whole[order]
        start, end, node = _merge(start, end, node, skipped)
    roles = _roles(tree, rules, captures, source, start, kind, node)
    return CodeTokens(start=start, end=end, kind=kind.astype(np.int32), role=roles, node=node)


def _rows(tree: Tree, whole: frozenset[str]) -> Int[np.ndarray, " row"]:
    """Return the rows of all leaves, with the outermost nodes of ``kind_names`` in place of their leaves."""
    kinds = np.array([name in whole for name in tree.kinds], np.bool_)
    held = np.flatnonzero(kinds[tree.kind] & (tree.end > tree.start))
    if not len(held):
        return tree.leaves
    depth = np.zeros(len(tree) + 1, np.int32)
    np.add.at(depth, held, 1)
    np.add.at(depth, tree.last[held], -1)
    inside = np.cumsum(depth)[:-1]
    # A node counts as inside itself.
    outermost = held[inside[held] == 1]
    free = tree.leaves[inside[tree.leaves] == 0]
    return np.sort(np.concatenate([free, outermost]))


def _kinds(tree: Tree, rules: TokenRules) -> Int[np.ndarray, " node"]:
    """Return the token kind that each node has as a leaf."""
    kinds = np.array([_kind(name, rules) for name in tree.kinds], np.int32)[tree.kind]
    for parent in rules.under.keys() & set(tree.kinds):
        inside = np.flatnonzero(tree.kind[tree.parent] == tree.kinds.index(parent))
        # The root has no parent: its index -1 would select the last row.
        inside = inside[tree.parent[inside] >= 0]
        for name, kind in rules.under[parent].items():
            if name in tree.kinds:
                kinds[inside[tree.kind[inside] == tree.kinds.index(name)]] = _NUMBER[kind]
    kinds[tree.error] = _NUMBER["error"]
    return kinds


def _kind(name: str, rules: TokenRules) -> int:
    """Return the index of a leaf kind's token kind; the lists tested first take precedence."""
    if name in rules.literals:
        kind = "literal"
    elif name in rules.layout:
        kind = "layout"
    elif name in rules.comments:
        kind = "comment"
    elif name in rules.operators:
        kind = "operator"
    elif name in rules.identifiers:
        kind = "identifier"
    else:
        kind = "keyword" if name in rules.keywords else "punctuation"
    return _NUMBER[kind]


def _held(tree: Tree, rules: TokenRules) -> Iterator[Stretch]:
    """Yield the text that nodes hold between their children, with the node's row."""
    holds = np.array([name in rules.holds_text for name in tree.kinds], np.bool_)
    if not holds.any():
        return
    inner = tree.last > np.arange(1, len(tree) + 1)
    for row in np.flatnonzero(holds[tree.kind] & inner).tolist():
        child, beyond = row + 1, int(tree.last[row])
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
    """Merge runs into the tokens, in text order."""
    if not more:
        return start, end, node
    added = np.array(more, np.int32)
    order = np.argsort(np.concatenate([start, added[:, 0]]), kind="stable")
    start, end, node = (
        np.concatenate([column, added[:, place]]).astype(np.int32)[order]
        for place, column in enumerate((start, end, node))
    )
    return start, end, node


def _uncovered_runs(
    tree: Tree,
    start: Int[np.ndarray, " token"],
    end: Int[np.ndarray, " token"],
    visible: Bool[np.ndarray, " character"],
) -> Iterator[Stretch]:
    """Yield the runs of visible characters in no token, with the innermost node around each."""
    cover = np.zeros(len(visible) + 1, np.int32)
    np.add.at(cover, start, 1)
    np.add.at(cover, end, -1)
    bare = visible & (np.cumsum(cover[:-1]) == 0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bare, [False]])))
    for first, beyond in edges.reshape(-1, 2).tolist():
        yield first, beyond, _innermost(tree, first, beyond)


def _innermost(tree: Tree, start: int, end: int) -> int:
    """Find the innermost node around a span, the root if there is none."""
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
    source: EncodedText,
    start: Int[np.ndarray, " token"],
    kind: Int[np.ndarray, " token"],
    node: Int[np.ndarray, " token"],
) -> tuple[str, ...]:
    """Assign roles: to identifiers from the captures, to literals from the rules, to others ""."""
    literal = [rules.literals.get(name, "") for name in tree.kinds]
    roles = [
        literal[name] if number == _NUMBER["literal"] else ""
        for number, name in zip(kind.tolist(), tree.kind[node].tolist(), strict=True)
    ]
    named = np.flatnonzero(kind == _NUMBER["identifier"])
    begins = start[named].tolist()
    places = dict(zip(begins, named.tolist(), strict=True))
    inside: list[tuple[str, int, int]] = []
    for role, nodes in captures:
        if role.startswith(_WITHIN):
            name = role.removeprefix(_WITHIN)
            inside += [(name, source.at(found.start_byte), source.at(found.end_byte)) for found in nodes]
            continue
        for found in nodes:
            place = places.get(source.at(found.start_byte))
            if place is not None:
                roles[place] = role
    rest = ("", -1, -1)
    for role, first, beyond in inside:
        if role == rest[0] and rest[1] <= first and beyond <= rest[2]:
            continue
        rest = (role, first, beyond)
        for place in named[bisect_left(begins, first) : bisect_left(begins, beyond)].tolist():
            roles[place] = roles[place] or role
    for place in named.tolist():
        roles[place] = roles[place] or "variable"
    return tuple(roles)


class Leaf(NamedTuple):
    """A leaf of the text, as a tuple because a corpus has hundreds per function.

    Attributes:
        kind: The grammar's name of the node, ``"ERROR"`` for text in no node.
        parent: Kind of its parent.
        start: First character in the text.
        end: One past the last character.
        text: The characters.
    """

    kind: str
    parent: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class ParsedText:
    """A parsed text, possibly inside a wrapper.

    Attributes:
        source: The text, with its wrapper, that was parsed.
        parsed: Its syntax tree.
        before: Number of characters of the wrapper before the text.
        length: Number of characters of the text.
    """

    source: EncodedText
    parsed: Parsed
    before: int
    length: int

    @property
    def root(self) -> tree_sitter.Node:
        """Return the root node of the syntax tree."""
        return self.parsed.root_node

    def at(self, byte: int) -> int:
        """Convert a byte position in the source to a character position, clipped to the text."""
        if not self.before and self.length == len(self.source.text):
            return self.source.at(byte)
        return min(max(self.source.at(byte) - self.before, 0), self.length)

    def span(self, node: tree_sitter.Node) -> tuple[int, int]:
        """Return the first character of a node and one past its last."""
        return self.at(node.start_byte), self.at(node.end_byte)

    def text(self, node: tree_sitter.Node) -> str:
        """Return the text of a node."""
        return self.source.slice(node.start_byte, node.end_byte)

    def inside(self, node: tree_sitter.Node) -> bool:
        """Return whether a node lies in the text, not in the wrapper."""
        start = self.source.at(node.start_byte) - self.before
        return start >= 0 and self.source.at(node.end_byte) - self.before <= self.length


def read(
    syntax: Callable[[str], tuple[EncodedText, Parsed]],
    text: str,
    wrappers: tuple[tuple[str, str], ...],
) -> ParsedText:
    """Parse a text; if it has errors, inside the first wrapper in which it parses without."""
    source, tree = syntax(text)
    if tree.root_node.has_error:
        for before, after in wrappers:
            wrapped, inside = syntax(before + text + after)
            if not inside.root_node.has_error:
                return ParsedText(wrapped, inside, len(before), len(text))
    return ParsedText(source, tree, 0, len(text))


def leaves(
    reading: ParsedText,
    rules: TokenRules,
    grammar: tree_sitter.Language,
    *,
    without: Set[str],
) -> tuple[Leaf, ...]:
    """Extract the leaves of a parsed text, in order.

    Args:
        parsed_text: The parsed text.
        rules: Rules that list the kinds to extract whole, such as strings, and the comments.
        grammar: The grammar, for the names of kind ids.
        exclude: Kinds to omit, such as comments.

    Returns:
        Every leaf with a visible character. Words that the grammar skipped are leaves of kind ``"ERROR"``,
        except those that only join lines.
    """
    before, characters = reading.before, reading.source.text
    end_of_text = before + reading.length
    names, whole = names_of_kinds(grammar), named_kinds(grammar, rules.whole | rules.comments)
    found: list[Leaf] = []
    # Calling the named tuple's class takes three times as long, and a corpus has hundreds per function.
    new = tuple.__new__
    covered, outside = before, 0
    rows = node_rows(reading.parsed)
    kinds, parents = rows.kind, rows.parent
    starts, ends = _characters(reading.source, rows.start), _characters(reading.source, rows.end)
    for row, (kind, start, end, last) in enumerate(zip(kinds, starts, ends, rows.last, strict=True)):
        if last > row + 1:
            if row < outside or kind not in whole:
                continue
            outside = last
        elif row < outside:
            continue
        if start == end or end <= before or start >= end_of_text:
            continue
        name = names[kind]
        # Text that the grammar could not parse may be several words.
        if name == ERROR:
            continue
        if covered < start and not characters[covered:start].isspace():
            found += _skipped(characters, covered, start, before, rules.layout)
        if end > covered:
            covered = end
        text = characters[start:end]
        if name not in without and not text.isspace():
            found.append(new(Leaf, (name, names[kinds[parents[row]]], start - before, end - before, text)))
    found += _skipped(characters, covered, end_of_text, before, rules.layout)
    return tuple(found)


def told_by_word(leaf: Leaf, rules: TokenRules) -> str:
    """Return the token kind of an identifier that is really another word; "" if it is an identifier."""
    if leaf.kind not in rules.identifiers or not rules.words:
        return ""
    return rules.words.get(leaf.parent, {}).get(leaf.text) or rules.words.get("", {}).get(leaf.text, "")


def _characters(source: EncodedText, offsets: list[int]) -> list[int]:
    if source.character is None:
        return offsets
    return source.character[np.array(offsets, np.int32)].tolist()


def _skipped(text: str, start: int, end: int, before: int, layout: frozenset[str]) -> Iterator[Leaf]:
    position = start
    for run in text[start:end].split():
        position = text.index(run, position)
        if run not in layout:
            yield Leaf(ERROR, ERROR, position - before, position - before + len(run), run)
        position += len(run)


def nested(nodes: list[tree_sitter.Node]) -> list[tuple[tree_sitter.Node, int]]:
    """Sort distinct nodes, outer ones first, each with the index of the innermost node around it or -1."""
    ordered = sorted(
        {(node.start_byte, -node.end_byte, node.id): node for node in nodes}.items(),
        key=lambda pair: pair[0][:2],
    )
    listed: list[tuple[tree_sitter.Node, int]] = []
    stack: list[int] = []
    for _, node in ordered:
        while stack and listed[stack[-1]][0].end_byte <= node.start_byte:
            stack.pop()
        listed.append((node, stack[-1] if stack else -1))
        stack.append(len(listed) - 1)
    return listed


def surfaces(table: Mapping[str, list[str]]) -> dict[str, str]:
    """Invert a table of classes: map each surface to its class."""
    return {surface: name for name, listed in table.items() for surface in listed}
