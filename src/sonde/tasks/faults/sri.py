"""SRI: is one identifier replaced by another of the same function?"""

from __future__ import annotations

from random import Random

from sonde.tasks.engine.faults import Fault, FaultContext, Mutation, Stratum, replace_words


class SwitchRandomIdentifier(Mutation):
    """Code as written, or with one occurrence of an identifier replaced by another name of the function.

    The occurrence and the one whose name it takes are drawn alike, so that no name gains or loses by it.
    """

    name = "sri"

    def stratum(self, text: str, around: FaultContext, draw: Random) -> Stratum | None:
        """Nothing to match: a bag of tokens sees one name more and one less, each as likely."""
        return () if len({place.surface for place in around.edits.places(text, "name")}) > 1 else None

    def fault(self, text: str, around: FaultContext, draw: Random) -> Fault | None:
        """Replace one occurrence; None where the function has one name only."""
        places = around.edits.places(text, "name")
        if len({place.surface for place in places}) < 2:
            return None
        place = draw.choice(places)
        name = draw.choice([other.surface for other in places if other.surface != place.surface])
        changed = replace_words(text, (place, name))
        return Fault(changed, ()) if around.edits.parses(changed) else None


task = SwitchRandomIdentifier()
