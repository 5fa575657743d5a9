"""Faults of the mutation tasks as INSPECT's released files have them; most show without reading the code.

No side is matched with the other, and what a fault leaves need not parse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType

from sonde.languages._edits import Edits
from sonde.tasks._keywords import KeywordSwitch
from sonde.tasks._mutation import Fault, Stratum, Surroundings, by_weight, replaced
from sonde.tasks.faults.jbl import JumbledTokens
from sonde.tasks.faults.rea import RelationalToAssignment
from sonde.tasks.faults.sck import SwitchCompatibleKeyword
from sonde.tasks.faults.sri import SwitchRandomIdentifier
from sonde.tasks.faults.srk import SwitchRandomKeyword
from sonde.tasks.faults.typ import DetectInvalidTypes, misspellings

_OLD, _NEW = ("==", "!=", "<=", ">="), ("+=", "-=", "*=", "/=")
_DRAWS = 20
_NONE: Mapping[str, str] = MappingProxyType({})


class _AnyKeyword(KeywordSwitch):
    """The new keyword is any that the language has, each as likely; rare ones give most faults away."""

    quirks = _NONE
    compiled = False

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """Nothing is weighted."""
        return {}

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match."""
        return () if around.edits.keyword_places(text) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace one keyword."""
        places = around.edits.keyword_places(text)
        if not places:
            return None
        place = draw.choice(places)
        words = [
            word
            for category, listed in around.edits.keywords.items()
            if not self.same_category or category == place.category
            for word in listed
            if word != place.surface
        ]
        return Fault(replaced(text, (place, draw.choice(words))), ()) if words else None


class AnyKeyword(_AnyKeyword, SwitchRandomKeyword):
    """SRK."""


class AnyCompatibleKeyword(_AnyKeyword, SwitchCompatibleKeyword):
    """SCK."""


class UnparsedExchange(JumbledTokens):
    """JBL: only exchanges that do not parse (97 % of the published ones)."""

    quirks = _NONE

    def stands(self, changed: str, around: Surroundings) -> bool:
        """Where it does not parse."""
        return not around.edits.parses(changed)


class ForeignIdentifier(SwitchRandomIdentifier):
    """SRI: the name comes from other functions and is not in this one, which is a cue."""

    quirks = _NONE
    compiled = False

    def survey(self, texts: Iterable[str], edits: Edits) -> Mapping[str, int]:
        """How often each name occurs."""
        return Counter(place.surface for text in texts for place in edits.places(text, "name"))

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace one occurrence."""
        places = around.edits.places(text, "name")
        own = {other.surface for other in places}
        if len(own) < 2:
            return None
        place = draw.choice(places)
        drawn = (by_weight(around.survey, draw) for _ in range(_DRAWS))
        name = next((word for word in drawn if word not in own), None)
        return None if name is None else Fault(replaced(text, (place, name)), ())


class EveryOperator(RelationalToAssignment):
    """REA: every ``== != <= >=`` becomes one of ``+= -= *= /=``; that none of the four is left answers."""

    quirks = _NONE
    compiled = False
    levelled = False

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match."""
        found = around.edits.places(text, "relational")
        return () if any(place.surface in _OLD for place in found) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Replace all of them."""
        found = (place for place in around.edits.places(text, "relational") if place.surface in _OLD)
        changes = [(place, draw.choice(_NEW)) for place in found]
        return Fault(replaced(text, *changes), ()) if changes else None


class EveryType(DetectInvalidTypes):
    """TYP: all primitive types are misspelt, whichever split the function is in; one token answers."""

    quirks = _NONE
    compiled = False
    levelled = False

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Misspell all of them."""
        types = around.edits.places(text, "type")
        words = [misspellings(place.surface, around.edits.reserved) for place in types]
        pairs = [(place, draw.choice(found)) for place, found in zip(types, words, strict=True) if found]
        return Fault(replaced(text, *pairs), ()) if pairs else None


srk, sck, jbl = AnyKeyword(), AnyCompatibleKeyword(), UnparsedExchange()
sri, rea, typ = ForeignIdentifier(), EveryOperator(), EveryType()
