"""Block jumbling: are two blocks of the function exchanged?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from sonde.languages._edits import Edits, Place
from sonde.tasks._jumble import Exchange

ALIASES = ["block_jumbling"]


class JumbledBlocks(Exchange):
    """Code as written, or with two blocks of the same depth exchanged; it still parses.

    What a condition guards then stands under another, or in the branch for its opposite. One of the variants
    that the authors of INSPECT name as future work.
    """

    name = "jbk"

    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[Place, Place]]:
        """Two blocks of one depth, neither in the other."""
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
