"""Java's syntactic relations: those of CodeSyntax as they were meant, on the tokens that it counts in."""

from __future__ import annotations

from sonde.languages._relations import Delimiters, Related, Words, plain_words
from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.java._relations_lexer import LexerError, Word, lex
from sonde.languages.java._relations_nodes import Older
from sonde.languages.java._relations_rules import Span, spans
from sonde.languages.java._relations_tree import read_tree
from sonde.languages.java._relations_words import WordFinder, closing, with_newlines

# A piece of a class is parsed inside of one, since the grammar takes no constructor alone.
_BEFORE, _AFTER = "public class A {\n", "\n}"


class JavaEdges:
    """The facet ``edges`` of Java.

    A word is a token of javalang; see `_relations_tree` for the tree, `_relations_rules` for what is related
    and `_relations_words` for the way from one to the other.

    Args:
        language: Java.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    def words(self, text: str, delimiters: Delimiters) -> Words:
        """The tokens of a text; none where it cannot be lexed."""
        try:
            return words_of(lexed(text, delimiters))
        except LexerError:
            return words_of([])

    def relate(self, text: str, delimiters: Delimiters) -> Related:
        """The tokens of a text and the edges between them."""
        try:
            words = lexed(text, delimiters)
        except LexerError as error:
            return Related(words_of([]), problem=f"no words: {error}")
        found = spans_in(self._language, text)
        if found is None:
            return Related(words_of(words), problem="does not parse")
        finder = WordFinder(text, words, delimiters.newlines, closing(delimiters.semicolons))
        return Related(words_of(words), finder.edges(found))


def spans_in(
    language: TreeSitterLanguage, text: str, older: Older | None = None, *, files: bool = True
) -> list[Span] | None:
    """Relations in characters of a text; None where it does not parse.

    Args:
        language: Java.
        text: A member of a class, or a whole file.
        older: An older Java that the tree is to be of.
        files: Whether a text that is no member of a class may be a whole file.
    """
    before = _BEFORE
    source, tree = language.syntax(f"{before}{text}{_AFTER}")
    if tree.root_node.has_error and files:
        before = ""
        source, tree = language.syntax(text)
    if tree.root_node.has_error:
        return None
    begin = len(before)
    return [
        Span(span.relation, span.head - begin, span.start - begin, span.end - begin)
        for span in spans(read_tree(source, tree, older))
        if span.head >= begin
    ]


def lexed(text: str, delimiters: Delimiters, *, text_blocks: bool = True) -> list[Word]:
    """The tokens of a text, newlines among them where a dependent may end in one.

    Raises:
        LexerError: It holds what no token of Java is.
    """
    words = lex(text, text_blocks=text_blocks)
    return with_newlines(text, words) if delimiters.newlines else words


def words_of(words: list[Word]) -> Words:
    """Tokens as columns."""
    return plain_words(
        [word.value for word in words], [word.start for word in words], [word.end for word in words]
    )


def facet(language: TreeSitterLanguage) -> JavaEdges:
    """Java's relations."""
    return JavaEdges(language)
