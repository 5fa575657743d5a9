"""Syntactic relations between the words of a program: words, edges, and the protocols of a language.

A relation joins a head word to a dependent, a span of words: in ``If:if->test`` the word ``if`` to those of
the condition ("Benchmarking Language Models for Code Syntax Understanding", section 2 and table 8). Words are
the tokens that the paper counts in, blank ones included, so that an edge is three numbers; their characters
lead back to the text.

The name of a relation gives the construct, the part with the head, and the part that is the dependent.

Words are tokens of the grammar, in some languages newlines and indents too. A language whose blocks are
marked by indentation (``layout`` in `relations.toml`) has the words of Python's `tokenize`: every newline and
comment, each indent, and empty words at the end of blocks, of a last line without a newline, and of the text.
In other languages newlines are words only on request, one for each line that ends between two tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int

from sonde.base.errors import UsageError
from sonde.base.registry import check_published_group
from sonde.languages.engine.language import ENTRY_POINT_GROUP, get_facet, has_facet
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage

MODES = ("corrected", "paper")


CHILD_RELATION = "children:parent->child"
"""The relation from the first word of a node to each node directly under it."""


class Edge(NamedTuple):
    """A relation between words; all numbers are indices of words, the last one inclusive.

    Attributes:
        relation: One of the language's ``relation_types``.
        head: The head word.
        first: First word of the dependent.
        last: Last word of the dependent, at least ``first``.
    """

    relation: str
    head: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RelationOptions:
    """What is on in words and relations: the mode, the paper's quirks, and its ablations (section 4.2).

    Attributes:
        mode: ``"corrected"``, or ``"paper"`` for the edges of the authors' labeller.
        quirks: Quirks that are on in addition to those of the mode; those of other languages are passed over.
        newlines: Whether a newline directly after a dependent is its last word.
        semicolons: Whether a dependent may end in ``;``, as the statements of some languages do.
        masked: Whether newlines and semicolons that no dependent can end in, by the two options above, are
            excluded from the candidates: stated by the paper, but not done by its code.
    """

    mode: str = "corrected"
    quirks: Set[str] = frozenset()
    newlines: bool = False
    semicolons: bool = True
    masked: bool = False


PUBLISHED_OPTIONS = RelationOptions()
"""The setting of the main results: no newlines, semicolons, and every word a candidate."""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a text in order, as columns.

    Attributes:
        surface: The words. A word may be empty (the end of a block or of the text), or blank (an indent, a
            newline).
        start: First character.
        end: One past the last character; ``start`` for an empty word.
        candidate: Whether a head may point to the word. Empty words are candidates in the mode ``paper``
            only, since no model sees them.
    """

    surface: tuple[str, ...]
    start: Int[np.ndarray, " word"]
    end: Int[np.ndarray, " word"]
    candidate: Bool[np.ndarray, " word"]

    def __len__(self) -> int:
        return len(self.surface)


@dataclass(frozen=True, slots=True, eq=False)
class RelationGraph:
    """The words of a text and the edges between them.

    Attributes:
        words: The words; none if the text has no words in this language.
        edges: The edges; in the mode ``paper`` those of a relation are in the published labeller's order.
        problem: The reason why nothing is labelled, in words that can be grouped by; empty without a problem.
    """

    words: Words
    edges: tuple[Edge, ...] = field(default=())
    problem: str = ""


@runtime_checkable
class EdgeLabeller(Protocol):
    """The facet ``edges`` of a language, or ``published_edges``, which is a paper's own labeller.

    `Relations` decides which of the words are candidates.
    """

    @property
    def quirks(self) -> Mapping[str, str]:
        """Return the deviations of a published labeller by name."""
        ...

    def words(self, text: str, options: RelationOptions) -> Words:
        """Return the words of a text."""
        ...

    def relate(self, text: str, options: RelationOptions) -> RelationGraph:
        """Return the words of a text and the relations between them."""
        ...


class Relations:
    """The facet ``relations`` of a language: its own edges, and the published ones if quirks are on.

    Args:
        language: The language.

    Attributes:
        relation_types: Every relation of the language, as ``Construct:head->dependent``.
        averaged_relations: The relations over which the paper averages.
        keywords: The language's keywords, which a baseline may look for after the head.
        quirks: The quirks ``codesyntax.*`` of the language by name, all on in the mode ``paper``.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        table = language.table("relations")
        self.relation_types: tuple[str, ...] = tuple(table["relations"])
        excluded_names = frozenset(table.get("not_averaged", ()))
        self.averaged_relations = tuple(name for name in self.relation_types if name not in excluded_names)
        self.keywords: tuple[str, ...] = tuple(table["keywords"])
        self._edges = get_facet(language.name, "edges", EdgeLabeller)
        is_published = has_facet(language.name, "published_edges")
        self._published = (
            get_facet(language.name, "published_edges", EdgeLabeller) if is_published else self._edges
        )
        self.quirks = self._published.quirks

    def words(self, text: str, options: RelationOptions = PUBLISHED_OPTIONS) -> Words:
        """Return the words of a text, to which `relate` refers; none if it cannot be split into words."""
        labeller, active_options = self._select_labeller(options)
        return _mark_candidates(labeller.words(text, active_options), options)

    def relate(self, text: str, options: RelationOptions = PUBLISHED_OPTIONS) -> RelationGraph:
        """Return the words of a text and the relations between them.

        A text that does not parse has a ``problem`` and no edges; nothing is raised.

        Args:
            text: A function, or any other text that the language's grammar parses.
            options: Mode, quirks, and the treatment of newlines and semicolons.

        Raises:
            UsageError: There is no such mode.
        """
        labeller, active_options = self._select_labeller(options)
        graph = labeller.relate(text, active_options)
        return replace(graph, words=_mark_candidates(graph.words, options))

    def _select_labeller(self, options: RelationOptions) -> tuple[EdgeLabeller, RelationOptions]:
        """Return the labeller, and its options with the quirks that are on, those of the mode included."""
        if options.mode not in MODES:
            raise UsageError(f"mode {options.mode!r} of syntax relations; known: {', '.join(MODES)}")
        quirks = options.quirks & self.quirks.keys()
        if options.mode == "paper":
            check_published_group(ENTRY_POINT_GROUP)
            quirks = frozenset(self.quirks)
        return (self._published if quirks else self._edges), replace(options, quirks=quirks)


LONE_RETURN = "carriage return without a newline"
"""Problem of a text in which words and nodes disagree: some parsers end a line there, no tokenizer does."""


def has_lone_returns(text: str) -> bool:
    """Return whether a text has a carriage return without a newline."""
    return text.count("\r") != text.count("\r\n")


def build_words(words: Iterable[tuple[str, int, int]]) -> Words:
    """Build the columns of words, all of them candidates."""
    surface, start, end = tuple(zip(*words, strict=True)) or ((), (), ())
    return Words(surface, np.array(start, np.int32), np.array(end, np.int32), np.ones(len(start), np.bool_))


def _mark_candidates(words: Words, options: RelationOptions) -> Words:
    """Mark the candidates among words, by the rules of `Words` and `RelationOptions`.

    Newlines are candidates unless masked; so are semicolons. Empty words are in the mode ``paper`` only.
    """
    excluded_words: set[str] = set()
    if options.mode != "paper":
        excluded_words.add("")
    if options.masked and not options.newlines:
        excluded_words.update(("\n", "\r\n"))
    if options.masked and not options.semicolons:
        excluded_words.add(";")
    return replace(
        words, candidate=np.array([word not in excluded_words for word in words.surface], np.bool_)
    )


facet = Relations


OPENING_BRACKETS, CLOSING_BRACKETS = frozenset("([{"), frozenset(")]}")


class Word(NamedTuple):
    """A word with its first character and one past its last."""

    surface: str
    start: int
    end: int


def split_characters(leaves: Sequence[Leaf], split_signs: frozenset[str]) -> Sequence[Leaf]:
    """Split the tokens in ``split_signs`` (``several`` in `relations.toml`) into one token per character."""
    if not split_signs or split_signs.isdisjoint(leaf.text for leaf in leaves):
        return leaves
    split_leaves: list[Leaf] = []
    for leaf in leaves:
        if leaf.text not in split_signs:
            split_leaves.append(leaf)
        else:
            signs = enumerate(leaf.text, leaf.start)
            split_leaves += (
                leaf._replace(start=position, end=position + 1, text=sign) for position, sign in signs
            )
    return split_leaves


def to_words(leaves: Sequence[Leaf]) -> list[Word]:
    """Convert tokens to words."""
    return [Word(text, start, end) for _, _, start, end, text in leaves]


def add_newlines(text: str, words: Iterable[Word]) -> list[Word]:
    r"""Add a ``\n`` for each line that ends between two words, including those in comments."""
    all_words: list[Word] = []
    previous_end = len(text)
    for word in words:
        line_ends = _iterate_line_ends(text, previous_end, word.start)
        all_words += (Word("\n", position, position + 1) for position in line_ends)
        all_words.append(word)
        previous_end = word.end
    return all_words


def trim_brackets(
    words: Sequence[str], code_indices: Sequence[int], closing_words: Set[str]
) -> tuple[list[int], list[int]]:
    """Return for each word the first word of nodes that begin there, and the last of those that end there.

    Nested brackets begin and end together: what is found for one serves those around it.

    Args:
        words: The words.
        code_indices: Indices of those that are not passed over.
        closing_words: Words that end no node.
    """
    first_words, last_words = list(range(len(words))), list(range(len(words)))
    for index, inner in zip(code_indices[-2::-1], code_indices[:0:-1], strict=True):
        if words[index] in OPENING_BRACKETS and words[inner] not in CLOSING_BRACKETS:
            first_words[index] = first_words[inner]
    for inner, index in pairwise(code_indices):
        if words[index] in closing_words:
            last_words[index] = last_words[inner]
    return first_words, last_words


def add_layout(text: str, leaves: Sequence[Leaf]) -> list[Word]:
    """Convert tokens, including comments, to words, with the layout between them.

    Args:
        text: The text.
        leaves: Its tokens and comments, which begin with ``#``.
    """
    words: list[Word] = []
    indents = [0]
    depth, is_line_start, previous_end = 0, True, 0
    for _, _, start, stop, word in leaves:
        if text.find("\n", previous_end, start) >= 0:
            for begin, end in _find_newlines(text, previous_end, start):
                words.append(Word(text[begin:end], begin, end))
                is_line_start = is_line_start or depth == 0
        previous_end = stop
        if is_line_start and word[0] != "#":
            is_line_start = False
            words += _read_margin(text, start, indents)
        words.append(Word(word, start, stop))
        if word in OPENING_BRACKETS:
            depth += 1
        elif word in CLOSING_BRACKETS:
            depth -= 1
    words += (
        Word(text[begin:end], begin, end) for begin, end in _find_newlines(text, previous_end, len(text))
    )
    last = text[text.rfind("\n") + 1 :].strip(" \f\t")
    # `tokenize` mistakes a last line of a string that looks like a comment for one.
    ends_in_comment = bool(last) and last[0] == "#" and leaves[-1].text[0] != "#"
    lacks_newline = bool(last) and last[-1] != "\r" and not ends_in_comment
    return words + [Word("", len(text), len(text))] * (lacks_newline + len(indents))


def is_layout(word: str, *, comments: bool = True) -> bool:
    """Return whether a word is layout: empty, an indent, a newline, or a comment if these are words."""
    return not word or word.isspace() or (comments and word[0] == "#")


def _iterate_line_ends(text: str, start: int, end: int) -> Iterator[int]:
    position = text.find("\n", start, end)
    while position >= 0:
        yield position
        position = text.find("\n", position + 1, end)


def _find_newlines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the line ends between two tokens, except those that a backslash continues."""
    for position in _iterate_line_ends(text, start, end):
        begin = position - 1 if position > start and text[position - 1] == "\r" else position
        if begin == start or text[begin - 1] != "\\":
            yield begin, position + 1


def _read_margin(text: str, start: int, indents: list[int]) -> Iterator[Word]:
    """Yield the words at the start of a line: one for a block it opens, an empty one per block it closes."""
    margin = text[text.rfind("\n", 0, start) + 1 : start]
    column = measure_column(margin)
    if column > indents[-1]:
        indents.append(column)
        yield Word(margin, start - len(margin), start)
    while column < indents[-1]:
        indents.pop()
        yield Word("", start, start)


def measure_column(margin: str) -> int:
    """Return the width of a margin: tabs go to the next multiple of eight, form feeds back to zero."""
    column = 0
    for character in margin:
        column = {" ": column + 1, "\t": (column // 8 + 1) * 8}.get(character, 0)
    return column
