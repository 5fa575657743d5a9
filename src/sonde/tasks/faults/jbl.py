"""JBL: are two neighbouring tokens swapped?"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.edits import Edits, TextSpan
from sonde.tasks.engine.faults import ORIGINAL, REPLACED, Exchange, find_neighbours

SYNONYMS = ("swapped tokens", "token order", "bigram shift")


class JumbledTokens(Exchange):
    """Code as written, or with two neighbouring tokens of one line exchanged.

    That a parser answers lies in the fault: in a grammar where ``a b`` can stand, ``b a`` mostly cannot
    (neighbours are an operand beside an operator, a word before its bracket, a sign at its end). Few of the
    exchanges parse, and those that do are often the same code in other words (``public static``). A bag of
    tokens is blind: both sides hold the same tokens. The variant that always parses is ``jbl_parsed``.
    """

    name = "jbl"
    labels = (ORIGINAL, REPLACED)
    version = "1"
    must_compile = False
    must_parse = False
    draws = 40

    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        """Yield neighbours on one line."""
        return find_neighbours(text, edits.tokens(text))


task = JumbledTokens()
