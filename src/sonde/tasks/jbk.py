"""Block jumbling: are two blocks of the function exchanged?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from sonde.languages._edits import Edits, Place
from sonde.tasks._jumble import exchanged
from sonde.tasks._mutation import Fault, Mutation, Stratum, Surroundings

ALIASES = ["block_jumbling"]

_DRAWS = 8


class JumbledBlocks(Mutation):
    """Code as written, or with two blocks of the same depth exchanged; it still parses.

    What a condition guards then stands under another, or in the branch for its opposite. One of the variants
    that the authors of INSPECT name as future work.
    """

    name = "jbk"

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if any(_pairs(text, around.edits)) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Exchange one pair; None where the function has not two blocks of one depth."""
        pairs = list(_pairs(text, around.edits))
        for first, second in draw.sample(pairs, min(_DRAWS, len(pairs))):
            changed = exchanged(text, first, second)
            if around.edits.parses(changed):
                return Fault(changed, ())
        return None


def _pairs(text: str, edits: Edits) -> Iterator[tuple[Place, Place]]:
    bodies = edits.places(text, "body")
    depths = [sum(_holds(outer, body) for outer in bodies) for body in bodies]
    for first, second in combinations(range(len(bodies)), 2):
        one, other = bodies[first], bodies[second]
        alike = depths[first] == depths[second] and _opens_line(text, one) == _opens_line(text, other)
        if alike and one.surface != other.surface and not _holds(one, other):
            yield one, other


def _holds(outer: Place, inner: Place) -> bool:
    return outer != inner and outer.start <= inner.start and inner.end <= outer.end


def _opens_line(text: str, place: Place) -> bool:
    """Whether only blanks stand before it; a block on the line of its head cannot stand elsewhere."""
    return not text[text.rfind("\n", 0, place.start) + 1 : place.start].strip()


task = JumbledBlocks()
