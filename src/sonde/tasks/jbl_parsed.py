"""JBL so that the code still parses: are two names or literals of one line exchanged?"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sonde.languages._edits import TextPlace
from sonde.tasks._jumble import exchanged
from sonde.tasks._mutation import Fault, Mutation, Stratum, Surroundings

_DRAWS = 8


class JumbledOperands(Mutation):
    """Code as written, or with two neighbours of one kind exchanged: the tokens between them are of others.

    Kinds are those of the grammar (names, numbers, strings). ``x = y`` becomes ``y = x``, ``f(a, b)`` becomes
    ``f(b, a)``. Neither a parser nor a bag of tokens can tell.
    """

    name = "jbl_parsed"

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if any(_pairs(text, around)) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Exchange one pair; None where no two neighbours differ."""
        pairs = list(_pairs(text, around))
        for first, second in draw.sample(pairs, min(_DRAWS, len(pairs))):
            changed = exchanged(text, first, second)
            if around.edits.parses(changed):
                return Fault(changed, ())
        return None


def _pairs(text: str, around: Surroundings) -> Iterator[tuple[TextPlace, TextPlace]]:
    latest: dict[str, TextPlace] = {}
    for token in around.edits.tokens(text):
        if token.category == token.surface:
            continue
        before = latest.get(token.category)
        if before and before.surface != token.surface and "\n" not in text[before.end : token.start]:
            yield before, token
        latest[token.category] = token


task = JumbledOperands()
