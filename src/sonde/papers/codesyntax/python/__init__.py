"""CodeSyntax's labels of Python: its labeller walks `ast`, one quirk at a time."""

from __future__ import annotations

from collections.abc import Mapping, Set

from sonde.languages.engine.relations import (
    LONE_RETURN,
    Delimiters,
    RelationGraph,
    Words,
    build_words,
    has_lone_returns,
)
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.codesyntax.python.labels import iterate_edges, parse_module
from sonde.papers.codesyntax.python.words import QUIRKS, AstWordFinder
from sonde.papers.python_tokens import ScannedWords, scan_words


class PublishedPythonEdges:
    """The facet ``published_edges`` of Python."""

    quirks: Mapping[str, str] = QUIRKS

    def words(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> Words:
        """The words of a text, which no quirk changes."""
        return _to_words(scan_words(text))

    def relate(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> RelationGraph:
        """The words of a text and the relations between them, with some quirks on."""
        scanned = scan_words(text)
        words = _to_words(scanned)
        if has_lone_returns(text):
            return RelationGraph(words, problem=LONE_RETURN)
        tree = parse_module(text, quirks)
        if tree is None or not scanned.whole:
            return RelationGraph(words, problem="does not parse")
        places = AstWordFinder(text, scanned, quirks, newlines=delimiters.newlines)
        return RelationGraph(words, tuple(iterate_edges(tree, places, quirks)))


def _to_words(scanned: ScannedWords) -> Words:
    return build_words(scanned.surface, scanned.start, scanned.end)


def facet(language: TreeSitterLanguage) -> PublishedPythonEdges:
    """The facet of the language."""
    return PublishedPythonEdges()
