"""JBL in code that still parses: are two names or literals of one line swapped?"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.edits import Edits, TextSpan
from sonde.tasks.engine.faults import Exchange


class JumbledOperands(Exchange):
    """Code as written, or with two neighbours of one kind exchanged: the tokens between them are of others.

    Kinds are those of the grammar (names, numbers, strings). ``x = y`` becomes ``y = x``, ``f(a, b)`` becomes
    ``f(b, a)``. Neither a parser nor a bag of tokens can tell.
    """

    name = "jbl_parsed"

    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        """Yield neighbours of one kind that differ, on one line."""
        latest: dict[str, TextSpan] = {}
        for token in edits.tokens(text):
            if token.category == token.surface:
                continue
            previous = latest.get(token.category)
            if (
                previous
                and previous.surface != token.surface
                and "\n" not in text[previous.end : token.start]
            ):
                yield previous, token
            latest[token.category] = token


task = JumbledOperands()
