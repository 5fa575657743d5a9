"""Tasks that put one keyword for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import ClassVar

from sonde.languages._edits import Edits, TextPlace
from sonde.tasks._mutation import (
    Fault,
    Mutation,
    Stratum,
    Surroundings,
    by_weight,
    capped,
    replaced,
    surfaces,
)

_DRAWS, _PLACES = 16, 4


class KeywordSwitch(Mutation):
    """One keyword replaced by another, so that the code still parses.

    Keywords before the parameters stay: a function begins with few of them, so that any other shows.

    The new keyword is drawn as often as the corpus has it. An untouched function beside the faulty one has
    the same keyword, as often; so no keyword tells the sides apart, be it rare or not.
    """

    facet = "keywords"
    same_category: ClassVar[bool]

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """How often each keyword occurs behind a head."""
        return Counter(place.surface for text in texts for place in _behind_head(text, edits))

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """A keyword of the function and how often it has it."""
        places = _behind_head(text, around.edits)
        if not places:
            return None
        word = draw.choice(places).surface
        return word, capped(surfaces(places)[word])

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace one keyword; None where no draw finds a place."""
        places = _behind_head(text, around.edits)
        if not places:
            return None
        if not around.survey:
            return None
        categories = {word: name for name, words in around.edits.keywords.items() for word in words}
        for _ in range(_DRAWS):
            word = by_weight(around.survey, draw)
            fitting = [
                place
                for place in places
                if place.surface != word and (not self.same_category or place.category == categories[word])
            ]
            for place in draw.sample(fitting, min(_PLACES, len(fitting))):
                changed = replaced(text, (place, word))
                if around.edits.parses(changed):
                    return Fault(changed, (word, capped(surfaces(places)[word] + 1)))
        return None


def _behind_head(text: str, edits: Edits) -> tuple[TextPlace, ...]:
    """The keywords that may be replaced."""
    head = edits.head(text)
    return tuple(place for place in edits.keyword_places(text) if place.start >= head)
