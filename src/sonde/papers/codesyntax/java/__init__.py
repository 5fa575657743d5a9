"""CodeSyntax's labels of Java: Eclipse's tree of an old level, on javalang's tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

from sonde.languages.engine.relations import Delimiters, RelationGraph, Words
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.codesyntax.java.edges import (
    Span,
    WordFinder,
    find_spans,
    get_closing_tokens,
    lex_text,
    to_words,
)
from sonde.papers.codesyntax.java.tree import JAVA_1_3 as OLD_JAVA
from sonde.papers.javalang_tokens import LexerError, Word, begins_name
from sonde.papers.quirks import describe_quirks

EMPTY_BRACKETS = "codesyntax.empty_brackets"
GLUED = "codesyntax.glued"
JAVA_1_3 = "codesyntax.java_1_3"
JAVALANG_STRINGS = "codesyntax.javalang_strings"
SHIFTED_OFFSETS = "codesyntax.shifted_offsets"

QUIRKS: Mapping[str, str] = describe_quirks(__name__)

_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029\u0085]")


class PublishedJavaEdges:
    """The facet ``published_edges`` of Java.

    Args:
        language: Java.
    """

    quirks: Mapping[str, str] = QUIRKS

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    def words(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> Words:
        """The tokens of a text; none where it cannot be lexed."""
        try:
            return to_words(_lex(text, delimiters, quirks))
        except LexerError:
            return to_words([])

    def relate(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> RelationGraph:
        """The tokens of a text and the edges between them, with some quirks on."""
        try:
            words = _lex(text, delimiters, quirks)
        except LexerError as error:
            return RelationGraph(to_words([]), problem=f"no words: {error}")
        found = self._spans(text, quirks)
        if found is None:
            return RelationGraph(to_words(words), problem="does not parse")
        finder = PublishedWordFinder(
            text,
            words,
            delimiters.newlines,
            get_closing_tokens(delimiters.semicolons),
            glued=GLUED in quirks,
            drops_empty=EMPTY_BRACKETS in quirks,
        )
        return RelationGraph(to_words(words), finder.edges(found))

    def _spans(self, text: str, quirks: Set[str]) -> list[Span] | None:
        """Relations in characters, or what is taken for them; None where the text does not parse."""
        shifted = SHIFTED_OFFSETS in quirks
        parsed = _strip_blank_edges(text) if shifted else text
        older = OLD_JAVA if JAVA_1_3 in quirks else None
        # The authors read members of classes alone.
        found = find_spans(self._language, parsed, older, files=quirks != QUIRKS.keys())
        if found is None or not shifted or max(parsed, default="") <= "\uffff":
            return found
        units = [0]
        for character in parsed:
            units.append(units[-1] + (2 if character > "\uffff" else 1))
        return [Span(name, units[head], units[start], units[end]) for name, head, start, end in found]


@dataclass(slots=True)
class PublishedWordFinder(WordFinder):
    """Finds the words of spans with the oddities of the published labeller.

    Attributes:
        glued: Take a word that touches a span from the left for the span's first.
        drops_empty: Drop edges whose head or dependent is empty but for brackets, or ends in empty ones.
    """

    glued: bool = False
    drops_empty: bool = False

    def _before(self, position: int) -> int:
        count = WordFinder._before(self, position)
        touches = self.glued and count and self._ends[count - 1] == position
        return count - 1 if touches and begins_name(self.words[count - 1].value[0]) else count

    def _first(self, at: int) -> int | None:
        found = WordFinder._first(self, at)
        empty = found == at and self._behind[min(at, len(self.words))] > at
        return None if self.drops_empty and empty else found

    def _last(self, beyond: int, first: int) -> int | None:
        found = WordFinder._last(self, beyond, first)
        if not self.drops_empty or found is None or found in (beyond, beyond - 1):
            return found
        return None if self._opens(found) else found


def _strip_blank_edges(text: str) -> str:
    """A text as the authors' program reads it: without empty first lines and the last line's end."""
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    first = next((place for place, line in enumerate(lines) if line), len(lines))
    return "\n".join(lines[first:])


def _lex(text: str, delimiters: Delimiters, quirks: Set[str]) -> list[Word]:
    return lex_text(text, delimiters, text_blocks=JAVALANG_STRINGS not in quirks)


def facet(language: TreeSitterLanguage) -> PublishedJavaEdges:
    """The facet of the language."""
    return PublishedJavaEdges(language)
