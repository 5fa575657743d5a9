"""SRI: is one identifier replaced by another of the same function?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

from sonde.languages._edits import Edits
from sonde.tasks._mutation import Fault, Mutation, Stratum, Surroundings, by_weight, replaced

_DRAWS = 20


class SwitchRandomIdentifier(Mutation):
    """Code as written, or with one occurrence of an identifier replaced by another name of the function.

    The occurrence and the one whose name it takes are drawn alike, so that no name gains or loses by it.

    Paper mode: the name comes from other functions and is not in this one, as in the published data; a name
    that stands nowhere else is a cue.
    """

    name = "sri"

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """How often each name occurs; only paper mode takes names from other functions."""
        return Counter(place.surface for text in texts for place in edits.places(text, "name"))

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: a bag of tokens sees one name more and one less, each as likely."""
        return () if len({place.surface for place in around.edits.places(text, "name")}) > 1 else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace one occurrence; None where the function has one name only."""
        places = around.edits.places(text, "name")
        if len({place.surface for place in places}) < 2:
            return None
        place = draw.choice(places)
        if around.paper:
            own = {other.surface for other in places}
            drawn = (by_weight(around.survey, draw) for _ in range(_DRAWS))
            name = next((word for word in drawn if word not in own), None)
            return None if name is None else Fault(replaced(text, (place, name)), ())
        name = draw.choice([other.surface for other in places if other.surface != place.surface])
        changed = replaced(text, (place, name))
        return Fault(changed, ()) if around.edits.parses(changed) else None


task = SwitchRandomIdentifier()
