"""SRA: are all occurrences of one identifier replaced by another of the same function?"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sonde.languages.engine.edits import replace_spans
from sonde.tasks.engine.faults import Fault, FaultContext, Mutation, Stratum, count_surfaces


class SwitchAllOccurrences(Mutation):
    """Code as written, or with one name replaced everywhere by another name of the function.

    The variant of SRI that the authors of INSPECT name as future work. The name has two occurrences or more,
    else it would be SRI; it and its replacement are drawn alike among the names of the function.
    """

    name = "sra"

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum, or None if the function has no names for the fault."""
        return () if self._find_name_pairs(text, context) else None

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one name everywhere, where the function has two, one of them repeated."""
        if name_pairs := self._find_name_pairs(text, context):
            old, new = draw.choice(name_pairs)
            spans = [span for span in context.edits.places(text, "name") if span.surface == old]
            yield Fault(replace_spans(text, *((span, new) for span in spans)), ())

    def _find_name_pairs(self, text: str, context: FaultContext) -> list[tuple[str, str]]:
        """Return pairs of different names that both occur at least twice."""
        counts = count_surfaces(context.edits.places(text, "name"))
        names = sorted(name for name, count in counts.items() if count > 1)
        return [(old, new) for old in names for new in names if old != new]


task = SwitchAllOccurrences()
