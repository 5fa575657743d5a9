"""Logical lines of a document as stretches of its subwords: the sentences of CuBERT.

A logical line ends with the token ``NEWLINE`` of its language's lexer (Kanade et al. 2020, section 3.5);
breaks inside brackets, blank lines and lines with a comment alone end none. A break's subwords go with the
line that they end, and with them the indentation of the next, which a vocabulary of this package keeps in one
piece with the break.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from sonde.languages._program import ERROR, NEWLINE, Program


def break_offsets(facet: Program, text: str) -> list[int] | None:
    """First characters of the line breaks that end a logical line, None where the lexer refuses the text.

    Args:
        facet: The facet ``program`` of the text's language.
        text: A whole file.
    """
    lexemes = facet.lexemes(text)
    if lexemes[0].kind == ERROR and len(lexemes) == 2 and text.strip():
        return None
    return [lexeme.offset for lexeme in lexemes if lexeme.kind == NEWLINE]


def line_starts(breaks: list[int], text: str, starts: Int[np.ndarray, " token"]) -> Int[np.ndarray, " line"]:
    """The subword that each logical line begins with; the first is 0, the last line ends with the text.

    Args:
        breaks: From `break_offsets`.
        text: The text.
        starts: First character of each subword, rising.
    """
    behind: list[int] = []
    for at in breaks:
        while at < len(text) and text[at].isspace():
            at += 1
        behind.append(at)
    found = np.unique(np.concatenate([[0], np.searchsorted(starts, behind)]).astype(np.int64))
    return found[found < max(len(starts), 1)]
