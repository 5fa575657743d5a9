"""Statement jumbling: are two statements of a block exchanged, one of which needs the other?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from sonde.languages._edits import Edits, Place
from sonde.tasks._jumble import Exchange

ALIASES = ["statement_jumbling"]


class JumbledStatements(Exchange):
    """Code as written, or with two statements of one block exchanged; it still parses.

    The later one has a name that the earlier one gives a value, so that their order matters: what is used is
    not yet there, or no longer. One of the variants that the authors of INSPECT name as future work.
    """

    name = "jst"

    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[Place, Place]]:
        """Two statements of one block, the later one of which needs the earlier one."""
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
