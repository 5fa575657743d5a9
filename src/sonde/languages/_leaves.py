"""The leaves of a function as a lexer would list them, and a tree that also reads what is no file of its own.

A metric asks about one function. A grammar reads files, and some functions (a constructor of Java) are no
file: such a text is read again inside a wrapper, and positions are those of the text itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tree_sitter
from jaxtyping import Int

from sonde.languages._grammar import Parsed
from sonde.languages._settings import TokenRules
from sonde.languages._text import EncodedText
from sonde.languages._tree import Tree

ERROR = "ERROR"
"""The kind of nodes and characters that the grammar could not place."""


class Leaf(NamedTuple):
    """One token of the text: a tuple, since a corpus has hundreds of them a function.

    Attributes:
        kind: The grammar's name of the node, ``"ERROR"`` for what no node covers.
        parent: Name of the node around it.
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
    """A parsed text, perhaps inside a wrapper.

    Attributes:
        source: What was parsed, with its way from bytes to characters.
        parsed: The grammar's own tree.
        before: Characters of the wrapper before the text.
        length: Characters of the text.
    """

    source: EncodedText
    parsed: Parsed
    before: int
    length: int

    @property
    def root(self) -> tree_sitter.Node:
        """The grammar's root node."""
        return self.parsed.root_node

    def at(self, byte: int) -> int:
        """The character of the text at a byte of the source, kept inside the text."""
        return min(max(self.source.at(byte) - self.before, 0), self.length)

    def span(self, node: tree_sitter.Node) -> tuple[int, int]:
        """First character of a node and one past its last."""
        return self.at(node.start_byte), self.at(node.end_byte)

    def text(self, node: tree_sitter.Node) -> str:
        """The characters of a node."""
        return self.source.slice(node.start_byte, node.end_byte)

    def inside(self, node: tree_sitter.Node) -> bool:
        """Whether a node lies in the text and not in the wrapper."""
        start = self.source.at(node.start_byte) - self.before
        return start >= 0 and self.source.at(node.end_byte) - self.before <= self.length


def read(
    syntax: Callable[[str], tuple[EncodedText, Parsed]],
    text: str,
    wrappers: tuple[tuple[str, str], ...],
) -> ParsedText:
    """Parse a text; where it does not parse, the first wrapper in which it does is kept around it."""
    source, tree = syntax(text)
    if tree.root_node.has_error:
        for before, after in wrappers:
            wrapped, inside = syntax(before + text + after)
            if not inside.root_node.has_error:
                return ParsedText(wrapped, inside, len(before), len(text))
    return ParsedText(source, tree, 0, len(text))


def leaves(reading: ParsedText, tree: Tree, rules: TokenRules, *, comments: bool = False) -> tuple[Leaf, ...]:
    """The tokens of a text, in order.

    Args:
        reading: The parsed text.
        tree: Its tree as columns.
        rules: Which kinds are one token with everything in them, such as strings, and which are comments.
        comments: Whether comments are listed.

    Returns:
        Every leaf that shows a character; runs of characters that the grammar skipped are
        tokens of kind ``"ERROR"``, but for those that only join lines.
    """
    before, characters = reading.before, tree.text
    end_of_text = before + reading.length
    found: list[Leaf] = []
    covered = before
    above = tree.parent
    rows = rows_of(tree, rules.whole | rules.comments)
    spans = zip(
        tree.start[rows].tolist(),
        tree.end[rows].tolist(),
        tree.kind[rows].tolist(),
        tree.kind[above[rows]].tolist(),
        strict=True,
    )
    for start, end, kind, parent in spans:
        if end <= before or start >= end_of_text:
            continue
        name = tree.kinds[kind]
        # What the grammar could not place at all may be several words.
        if name == ERROR:
            continue
        if covered < start and not characters[covered:start].isspace():
            found += _skipped(characters, covered, start, before, rules.layout)
        covered = max(covered, end)
        text = characters[start:end]
        if (comments or name not in rules.comments) and text.strip():
            found.append(Leaf(name, tree.kinds[parent], start - before, end - before, text))
    found += _skipped(characters, covered, end_of_text, before, rules.layout)
    return tuple(found)


def rows_of(tree: Tree, whole: frozenset[str]) -> Int[np.ndarray, " row"]:
    """The leaves of a tree, and the outermost nodes of some kinds in place of what they hold."""
    kinds = np.array([name in whole for name in tree.kinds], np.bool_)
    held = np.flatnonzero(kinds[tree.kind] & tree.named)
    if not len(held):
        return tree.leaves
    depth = np.zeros(len(tree) + 1, np.int32)
    np.add.at(depth, held, 1)
    np.add.at(depth, tree.last[held], -1)
    inside = np.cumsum(depth)[:-1]
    # A node of its own is inside itself once.
    outermost = held[(inside[held] == 1) & (tree.end[held] > tree.start[held])]
    free = tree.leaves[inside[tree.leaves] == 0]
    return np.sort(np.concatenate([free, outermost]))


def _skipped(text: str, start: int, end: int, before: int, layout: frozenset[str]) -> Iterator[Leaf]:
    position = start
    for run in text[start:end].split():
        position = text.index(run, position)
        if run not in layout:
            yield Leaf(ERROR, ERROR, position - before, position - before + len(run), run)
        position += len(run)


def nested(nodes: list[tree_sitter.Node]) -> list[tuple[tree_sitter.Node, int]]:
    """Nodes in text order, outer ones first, each once, with the index of the innermost around it (or -1)."""
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
    """A table of classes turned round: from each surface to its class."""
    return {surface: name for name, listed in table.items() for surface in listed}
