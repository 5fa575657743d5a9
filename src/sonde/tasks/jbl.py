"""JBL: are two neighbouring tokens exchanged?"""

from __future__ import annotations

from random import Random

from sonde.tasks._jumble import exchanged, neighbours
from sonde.tasks._mutation import ORIGINAL, REPLACED, Fault, Mutation, Stratum, Surroundings

_DRAWS = 40


class JumbledTokens(Mutation):
    """Code as written, or with two neighbouring tokens of one line exchanged.

    That a parser answers lies in the fault: in a grammar where ``a b`` can stand, ``b a`` mostly cannot
    (neighbours are an operand beside an operator, a word before its bracket, a sign at its end). Few of the
    exchanges parse, and those that do are often the same code in other words (``public static``). A bag of
    tokens is blind: both sides hold the same tokens. The variant that always parses is ``jbl_parsed``.

    Paper mode: only exchanges that do not parse, as in the published file (97 %).
    """

    name = "jbl"
    labels = (ORIGINAL, REPLACED)

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if any(neighbours(text, around.edits.tokens(text))) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Exchange one pair; None where no two neighbours differ."""
        pairs = list(neighbours(text, around.edits.tokens(text)))
        for first, second in draw.sample(pairs, min(_DRAWS, len(pairs))):
            changed = exchanged(text, first, second)
            if not around.paper or not around.edits.parses(changed):
                return Fault(changed, ())
        return None


task = JumbledTokens()
