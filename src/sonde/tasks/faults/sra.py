"""SRA: are all occurrences of one identifier replaced by another of the same function?"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sonde.tasks.engine.faults import Fault, FaultContext, Mutation, Stratum, count_surfaces, replace_words


class SwitchAllOccurrences(Mutation):
    """Code as written, or with one name replaced everywhere by another name of the function.

    The variant of SRI that the authors of INSPECT name as future work. The name has two occurrences or more,
    else it would be SRI; it and its replacement are drawn alike among the names of the function.
    """

    name = "sra"

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum, or None if the function has no names for the fault."""
        return () if self._find_name_pairs(text, around) else None

    def propose(self, text: str, around: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one name everywhere, where the function has two, one of them repeated."""
        if repeated := self._find_name_pairs(text, around):
            old, new = draw.choice(repeated)
            places = [place for place in around.edits.places(text, "name") if place.surface == old]
            yield Fault(replace_words(text, *((place, new) for place in places)), ())

    def _find_name_pairs(self, text: str, around: FaultContext) -> list[tuple[str, str]]:
        """Return pairs of different names that both occur at least twice."""
        counts = count_surfaces(around.edits.places(text, "name"))
        names = sorted(name for name, count in counts.items() if count > 1)
        return [(old, new) for old in names for new in names if old != new]


task = SwitchAllOccurrences()
