"""Relations between the words of Python code."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from sonde.languages._relations import AS_PUBLISHED, Delimiters, Edge, Related, Words, quirks_on, words_of
from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.python import _relations_paper
from sonde.languages.python._relations_places import Places, margin_begin
from sonde.languages.python._relations_quirks import QUIRKS
from sonde.languages.python._relations_rules import AVERAGED, KEYWORDS, RELATION_TYPES
from sonde.languages.python._relations_tree import Spans, edges
from sonde.languages.python._scan import Scan, scan


class PythonRelations:
    """The facet ``relations`` of Python; see `Relations`."""

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    relation_types = RELATION_TYPES
    averaged = AVERAGED
    keywords = KEYWORDS
    quirks: Mapping[str, str] = QUIRKS

    def words(
        self,
        text: str,
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
        delimiters: Delimiters = AS_PUBLISHED,
    ) -> Words:
        """The words of a text."""
        quirks_on(mode, quirks, QUIRKS)
        return _words(scan(text), mode, delimiters)

    def relate(
        self,
        text: str,
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
        delimiters: Delimiters = AS_PUBLISHED,
    ) -> Related:
        """The words of a text and the relations between them."""
        on = quirks_on(mode, quirks, QUIRKS)
        scanned = scan(text)
        words = _words(scanned, mode, delimiters)
        if text.count("\r") != text.count("\r\n"):
            # It ends a line to Python's parser and not to its tokenizer, so that words and nodes part ways.
            return Related(words, problem="carriage return without a newline")
        found = self._corrected(text, scanned, delimiters) if not on else None
        if found is None:
            tree = _relations_paper.parsed(text, on)
            if tree is None or not scanned.whole:
                return Related(words, problem="does not parse")
            places = Places(text, scanned, on, newlines=delimiters.newlines)
            found = tuple(_relations_paper.edges(tree, places, on))
        return Related(words, found)

    def _corrected(self, text: str, scanned: Scan, delimiters: Delimiters) -> tuple[Edge, ...] | None:
        """The edges without any quirk, None for a text that the grammar has an error in."""
        begin = margin_begin(text)
        source, tree = self._language.syntax(text[begin:])
        if tree.root_node.has_error or not scanned.whole:
            return None
        matches = self._language.grammar.matches("relations", tree.root_node)
        return edges(tree.root_node, matches, Spans(scanned, source, begin, newlines=delimiters.newlines))


def _words(scanned: Scan, mode: str, delimiters: Delimiters) -> Words:
    start, end = np.array(scanned.start, np.int32), np.array(scanned.end, np.int32)
    return words_of(tuple(scanned.surface), start, end, mode=mode, delimiters=delimiters)


def facet(language: TreeSitterLanguage) -> PythonRelations:
    """The facet of the language."""
    return PythonRelations(language)
