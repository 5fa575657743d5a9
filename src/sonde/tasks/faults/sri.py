"""SRI: is one identifier replaced by another of the same function?"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sonde.tasks.engine.faults import Fault, FaultContext, Mutation, Stratum, replace_words


class SwitchRandomIdentifier(Mutation):
    """Code as written, or with one occurrence of an identifier replaced by another name of the function.

    The occurrence and the one whose name it takes are drawn alike, so that no name gains or loses by it.
    """

    name = "sri"

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum: one name more and one less are each as likely."""
        return () if len({place.surface for place in around.edits.places(text, "name")}) > 1 else None

    def propose(self, text: str, around: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace one occurrence, where the function has two names."""
        places = around.edits.places(text, "name")
        if len({place.surface for place in places}) > 1:
            place = draw.choice(places)
            name = draw.choice([other.surface for other in places if other.surface != place.surface])
            yield Fault(replace_words(text, (place, name)), ())


task = SwitchRandomIdentifier()
