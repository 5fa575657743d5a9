"""CodeSyntax's labels of Python: its labeller walks `ast`, one quirk at a time."""

from __future__ import annotations

from collections.abc import Mapping, Set

from sonde.languages.engine.relations import (
    LONE_RETURN,
    Delimiters,
    Related,
    Words,
    lone_returns,
    plain_words,
)
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.codesyntax.python.labels import edges, parsed
from sonde.papers.codesyntax.python.words import QUIRKS, Places
from sonde.papers.python_tokens import Scan, scan


class PublishedPythonEdges:
    """The facet ``published_edges`` of Python."""

    quirks: Mapping[str, str] = QUIRKS

    def words(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> Words:
        """The words of a text, which no quirk changes."""
        return _columns(scan(text))

    def relate(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> Related:
        """The words of a text and the relations between them, with some quirks on."""
        scanned = scan(text)
        words = _columns(scanned)
        if lone_returns(text):
            return Related(words, problem=LONE_RETURN)
        tree = parsed(text, quirks)
        if tree is None or not scanned.whole:
            return Related(words, problem="does not parse")
        places = Places(text, scanned, quirks, newlines=delimiters.newlines)
        return Related(words, tuple(edges(tree, places, quirks)))


def _columns(scanned: Scan) -> Words:
    return plain_words(scanned.surface, scanned.start, scanned.end)


def facet(language: TreeSitterLanguage) -> PublishedPythonEdges:
    """The facet of the language."""
    return PublishedPythonEdges()
