"""Java's relations in characters, and the tokens that CodeSyntax counts in."""

from __future__ import annotations

from sonde.languages._relations import Delimiters, Words, plain_words
from sonde.languages._treesitter import TreeSitterLanguage
from sonde.papers._javalang import Word, lex
from sonde.papers.codesyntax.java.nodes import Older
from sonde.papers.codesyntax.java.rules import Span, spans
from sonde.papers.codesyntax.java.tree import read_tree
from sonde.papers.codesyntax.java.words import with_newlines

# A piece of a class is parsed inside of one, since the grammar takes no constructor alone.
_BEFORE, _AFTER = "public class A {\n", "\n}"


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
