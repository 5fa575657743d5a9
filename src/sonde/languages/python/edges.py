"""Relations between the words of Python code, by `relations.scm` and the shape of Python's own tree."""

from __future__ import annotations

from functools import cached_property

from sonde.languages._relations import Delimiters, Related, Words, plain_words, relation_table
from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.python import _relations_tree
from sonde.languages.python._relations_tree import Spans, edges, related_parts
from sonde.languages.python._relations_words import margin_begin
from sonde.languages.python._scan import Scan, scan


class PythonEdges:
    """The facet ``edges`` of Python.

    Args:
        language: Python.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    def words(self, text: str, delimiters: Delimiters) -> Words:
        """The words of a text."""
        return words_of_scan(scan(text))

    def relate(self, text: str, delimiters: Delimiters) -> Related:
        """The words of a text and the relations between them."""
        scanned = scan(text)
        words = words_of_scan(scanned)
        if lone_returns(text):
            return Related(words, problem=LONE_RETURN)
        begin = margin_begin(text)
        source, tree = self._language.syntax(text[begin:])
        found = None
        if not tree.root_node.has_error and scanned.whole:
            matches = self._language.grammar.matches("relations", tree.root_node)
            spans = Spans(scanned, source, begin, newlines=delimiters.newlines)
            found = edges(tree.root_node, matches, spans, self._related)
        return Related(words, problem="does not parse") if found is None else Related(words, found)

    @cached_property
    def _related(self) -> _relations_tree.Related:
        return related_parts(relation_table(self._language).relations)


LONE_RETURN = "carriage return without a newline"
"""It ends a line to Python's parser and not to its tokenizer, so that words and nodes part ways."""


def lone_returns(text: str) -> bool:
    """Whether a text has such a carriage return."""
    return text.count("\r") != text.count("\r\n")


def words_of_scan(scanned: Scan) -> Words:
    """The words that `tokenize` gives."""
    return plain_words(scanned.surface, scanned.start, scanned.end)


def facet(language: TreeSitterLanguage) -> PythonEdges:
    """The facet of the language."""
    return PythonEdges(language)
