"""Statement jumbling: are two statements of a block exchanged, one of which needs the other?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from sonde.languages._edits import Edits, Place
from sonde.tasks._jumble import exchanged
from sonde.tasks._mutation import Fault, Mutation, Stratum, Surroundings

ALIASES = ["statement_jumbling"]

_DRAWS = 8


class JumbledStatements(Mutation):
    """Code as written, or with two statements of one block exchanged; it still parses.

    The later one has a name that the earlier one gives a value, so that their order matters: what is used is
    not yet there, or no longer. One of the variants that the authors of INSPECT name as future work.
    """

    name = "jst"

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if any(_pairs(text, around.edits)) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Exchange one pair; None where no statement needs an earlier one of its block."""
        pairs = list(_pairs(text, around.edits))
        for first, second in draw.sample(pairs, min(_DRAWS, len(pairs))):
            changed = exchanged(text, first, second)
            if around.edits.parses(changed):
                return Fault(changed, ())
        return None


def _pairs(text: str, edits: Edits) -> Iterator[tuple[Place, Place]]:
    bound, names = edits.places(text, "bound"), edits.places(text, "name")
    for block in edits.blocks(text):
        given = [_inside(statement, bound) for statement in block]
        used = [_inside(statement, names) for statement in block]
        for first, second in combinations(range(len(block)), 2):
            if given[first] & used[second] and block[first].surface != block[second].surface:
                yield block[first], block[second]


def _inside(statement: Place, places: tuple[Place, ...]) -> set[str]:
    return {
        place.surface for place in places if statement.start <= place.start and place.end <= statement.end
    }


task = JumbledStatements()
