"""The leaves of a function as a lexer would list them, and a tree that also reads what is no file of its own.

A metric asks about one function. A grammar reads files, and some functions (a constructor of Java) are no
file: such a text is read again inside a wrapper, and positions are those of the text itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import tree_sitter

from sonde.languages._text import EncodedText
from sonde.languages._treesitter import TreeSitterLanguage


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
        root: The grammar's root node.
        before: Characters of the wrapper before the text.
        length: Characters of the text.
    """

    source: EncodedText
    root: tree_sitter.Node
    before: int
    length: int

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


def read(language: TreeSitterLanguage, text: str, wrappers: tuple[tuple[str, str], ...]) -> ParsedText:
    """Parse a text; where it does not parse, the first wrapper in which it does is kept around it."""
    source, tree = language.syntax(text)
    if tree.root_node.has_error:
        for before, after in wrappers:
            wrapped, inside = language.syntax(before + text + after)
            if not inside.root_node.has_error:
                return ParsedText(wrapped, inside.root_node, len(before), len(text))
    return ParsedText(source, tree.root_node, 0, len(text))


def leaves(reading: ParsedText, whole: frozenset[str], skipped: frozenset[str]) -> tuple[Leaf, ...]:
    """The tokens of a text, in order.

    Args:
        reading: The parsed text.
        whole: Kinds of nodes that are one token with everything in them, such as strings.
        skipped: Kinds of leaves that are no token: comments and layout.

    Returns:
        Every leaf that shows a character; runs of characters that the grammar skipped are tokens of kind
        ``"ERROR"``.
    """
    found: list[Leaf] = []
    covered = reading.before
    end_of_text = reading.before + reading.length
    source = reading.source
    before, characters = reading.before, source.text
    for node, kind, parent in _walk(reading.root, whole | skipped):
        start, end = source.at(node.start_byte), source.at(node.end_byte)
        # What the grammar could not place at all may be several words.
        if end <= before or start >= end_of_text or node.is_error:
            continue
        if covered < start and not characters[covered:start].isspace():
            found += _gap(characters, covered, start, before, skipped)
        covered = max(covered, end)
        text = characters[start:end]
        if kind not in skipped and text.strip():
            found.append(Leaf(kind, parent, start - before, end - before, text))
    found += _gap(characters, covered, end_of_text, before, skipped)
    return tuple(found)


def _walk(root: tree_sitter.Node, stop: frozenset[str]) -> Iterator[tuple[tree_sitter.Node, str, str]]:
    """Nodes without children, or of a kind to stop at, with their kind and that of the node above."""
    cursor = root.walk()
    above = [""]
    while True:
        node = cursor.node
        assert node is not None
        kind = node.type
        if kind not in stop and cursor.goto_first_child():
            above.append(kind)
            continue
        if node.end_byte > node.start_byte:
            yield node, kind, above[-1]
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            above.pop()


def _gap(text: str, start: int, end: int, before: int, skipped: frozenset[str]) -> Iterator[Leaf]:
    position = start
    for run in text[start:end].split():
        position = text.index(run, position)
        if run not in skipped:
            yield Leaf("ERROR", "ERROR", position - before, position - before + len(run), run)
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
