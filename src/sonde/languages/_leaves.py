"""The leaves of a function as a lexer would list them, and a tree that also reads what is no file of its own.

A metric asks about one function. A grammar reads files, and some functions (a constructor of Java) are no
file: such a text is read again inside a wrapper, and positions are those of the text itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tree_sitter

from sonde.languages._grammar import Parsed
from sonde.languages._parse import named_kinds, names_of_kinds, node_rows
from sonde.languages._settings import TokenRules
from sonde.languages._text import EncodedText
from sonde.languages._tree import ERROR


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
        if not self.before and self.length == len(self.source.text):
            return self.source.at(byte)
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


def leaves(
    reading: ParsedText,
    rules: TokenRules,
    grammar: tree_sitter.Language,
    *,
    without: Set[str],
) -> tuple[Leaf, ...]:
    """The tokens of a text, in order.

    Args:
        reading: The parsed text.
        rules: Which kinds are one token with everything in them, such as strings, and which are comments.
        grammar: Where kind numbers get their names.
        without: Kinds that are not listed, such as comments.

    Returns:
        Every leaf that shows a character; runs of characters that the grammar skipped are
        tokens of kind ``"ERROR"``, but for those that only join lines.
    """
    before, characters = reading.before, reading.source.text
    end_of_text = before + reading.length
    names, whole = names_of_kinds(grammar), named_kinds(grammar, rules.whole | rules.comments)
    found: list[Leaf] = []
    # A named tuple made by its name takes three times as long, and a corpus has hundreds a function.
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
        # What the grammar could not place at all may be several words.
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
    """What the word of an identifier tells that its kind does not; empty where it is one."""
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
