"""Java's syntactic relations: the 39 of CodeSyntax, by its authors' labeller or as that was meant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

import numpy as np

from sonde.languages._relations import AS_PUBLISHED, Delimiters, Edge, Related, Words, quirks_on, words_of
from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.java._relations_lexer import LexerError, Word, lex
from sonde.languages.java._relations_nodes import tables
from sonde.languages.java._relations_rules import Span, spans
from sonde.languages.java._relations_tree import read_tree
from sonde.languages.java._relations_words import WordFinder, closing, with_newlines

EMPTY_BRACKETS = "codesyntax.empty_brackets"
GLUED = "codesyntax.glued"
JAVA_1_3 = "codesyntax.java_1_3"
JAVALANG_STRINGS = "codesyntax.javalang_strings"
SHIFTED_OFFSETS = "codesyntax.shifted_offsets"

QUIRKS: Mapping[str, str] = {
    EMPTY_BRACKETS: "no edge whose head or dependent holds nothing but brackets, or whose dependent ends in "
    "empty ones, as a call without arguments does",
    GLUED: "what follows a name or keyword without a blank, as the block in try{f();}, begins with that word",
    JAVA_1_3: "Java 1.3 in Eclipse's tree of level JLS3: nothing inside a lambda, method reference or switch "
    "expression, no resources of a try, no body where there is an assert, a local enum or record, or a yield",
    JAVALANG_STRINGS: "a text block is three words, and a text with an escape that javalang lacks has none",
    SHIFTED_OFFSETS: "positions are counted in UTF-16 behind Java's Scanner: empty first lines, line ends of "
    "two characters and characters beyond U+FFFF shift the words after them",
}

# A piece of a class is parsed inside of one, since the grammar takes no constructor alone.
_BEFORE, _AFTER = "public class A {\n", "\n}"
_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029\u0085]")


class JavaRelations:
    """The facet ``relations`` of Java.

    A word is a token of javalang; see `_relations_tree` for the tree, `_relations_rules` for what is related
    and `_relations_words` for the way from one to the other.

    Args:
        language: Java.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    @property
    def relation_types(self) -> tuple[str, ...]:
        """All 39 relations."""
        return tables().relations

    @property
    def averaged(self) -> tuple[str, ...]:
        """The 38 relations of the paper's averages."""
        return tuple(name for name in self.relation_types if name not in tables().not_averaged)

    @property
    def keywords(self) -> tuple[str, ...]:
        """The keywords of the keyword baseline, with the semicolon that the paper's default adds."""
        return tables().keywords

    @property
    def quirks(self) -> Mapping[str, str]:
        """What the authors' labeller does besides, all of it in the mode ``paper``."""
        return QUIRKS

    def words(
        self,
        text: str,
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
        delimiters: Delimiters = AS_PUBLISHED,
    ) -> Words:
        """The tokens of a text; none where it cannot be lexed."""
        on = quirks_on(mode, quirks, QUIRKS)
        try:
            return _columns(_lex(text, on, delimiters), mode, delimiters)
        except LexerError:
            return _columns([], mode, delimiters)

    def relate(
        self,
        text: str,
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
        delimiters: Delimiters = AS_PUBLISHED,
    ) -> Related:
        """The tokens of a text and the edges between them, see `Relations.relate`."""
        on = quirks_on(mode, quirks, QUIRKS)
        try:
            words = _lex(text, on, delimiters)
        except LexerError as error:
            return Related(_columns([], mode, delimiters), problem=f"no words: {error}")
        columns = _columns(words, mode, delimiters)
        found = self._spans(text, mode, on)
        if found is None:
            return Related(columns, problem="does not parse")
        finder = WordFinder(
            text,
            words,
            newlines=delimiters.newlines,
            closing=closing(delimiters.semicolons),
            glued=GLUED in on,
            drops_empty=EMPTY_BRACKETS in on,
        )
        edges = [(span.relation, finder.find(span)) for span in found]
        return Related(columns, tuple(Edge(relation, *places) for relation, places in edges if places))

    def _spans(self, text: str, mode: str, on: frozenset[str]) -> list[Span] | None:
        """Relations in characters of the text; None where it does not parse."""
        parsed = _as_scanned(text) if SHIFTED_OFFSETS in on else text
        before = _BEFORE
        source, tree = self._language.syntax(f"{before}{parsed}{_AFTER}")
        if tree.root_node.has_error and mode != "paper":
            # A whole file is no member of a class.
            before = ""
            source, tree = self._language.syntax(parsed)
        if tree.root_node.has_error:
            return None
        found = spans(read_tree(source, tree, old=JAVA_1_3 in on))
        inside = [_moved(span, len(before)) for span in found if span.head >= len(before)]
        if SHIFTED_OFFSETS not in on or max(parsed, default="") <= "\uffff":
            return inside
        units = [0]
        for character in parsed:
            units.append(units[-1] + (2 if character > "\uffff" else 1))
        return [Span(name, units[head], units[start], units[end]) for name, head, start, end in inside]


def _moved(span: Span, by: int) -> Span:
    return Span(span.relation, span.head - by, span.start - by, span.end - by)


def _as_scanned(text: str) -> str:
    """A text as the authors' program reads it: without empty first lines and the last line's end."""
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    first = next((place for place, line in enumerate(lines) if line), len(lines))
    return "\n".join(lines[first:])


def _lex(text: str, on: frozenset[str], delimiters: Delimiters) -> list[Word]:
    words = lex(text, text_blocks=JAVALANG_STRINGS not in on)
    return with_newlines(text, words) if delimiters.newlines else words


def _columns(words: list[Word], mode: str, delimiters: Delimiters) -> Words:
    return words_of(
        tuple(word.value for word in words),
        np.array([word.start for word in words], np.int32),
        np.array([word.end for word in words], np.int32),
        mode=mode,
        delimiters=delimiters,
    )


def facet(language: TreeSitterLanguage) -> JavaRelations:
    """Java's relations."""
    return JavaRelations(language)
