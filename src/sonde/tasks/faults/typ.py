"""TYP: is the name of one primitive type misspelt?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from random import Random

from sonde.base.fingerprint import unit_hash
from sonde.languages.engine.edits import replace_spans
from sonde.tasks.engine.balance import SHARES, split_sizes
from sonde.tasks.engine.faults import Fault, FaultContext, Mutation, Stratum

SYNONYMS = ("misspelt type", "type typo")

_SHORT = 5


class DetectInvalidTypes(Mutation):
    """Code as written, or with the letters of one primitive type's name in another order (``int``, ``itn``).

    Python has no primitive types: there it is the name of a builtin type (``int``, ``str``, ``dict``, ...)
    where it stands for itself, neither as an attribute nor as a name that the function gives.

    A misspelling is no word, so that whoever has seen it once knows it: each misspelling occurs in one split
    only, and nothing that is learned of one in training helps in the test. The function keeps at least one
    type that is spelt well, and is matched with an untouched one that looks as faulty by all its words: a
    parameter less of a known type would show. No compiler is asked: a word that is no type is all that it
    finds.
    """

    name = "typ"
    facet = "places"
    version = "1"
    matches_fault_level = True
    must_compile = False

    def stratum(self, text: str, context: FaultContext, draw: Random) -> Stratum | None:
        """Return an empty stratum, or None if the function has no type."""
        return () if context.edits.places(text, "type") else None

    def propose(self, text: str, context: FaultContext, draw: Random) -> Iterator[Fault]:
        """Replace a type with a misspelling, if the function has two or more types."""
        types = context.edits.places(text, "type")
        if len(types) > 1:
            span = draw.choice(types)
            names = {name_span.surface for name_span in context.edits.places(text, "name")}
            words = select_misspellings(span.surface, context.split, context.edits.reserved_words)
            if candidates := [word for word in words if word not in names]:
                yield Fault(replace_spans(text, (span, draw.choice(candidates))), ())


def misspellings(word: str, reserved_words: frozenset[str]) -> list[str]:
    """Return other orders of a word's letters that mean nothing; of a long word, two exchanged letters."""
    if len(word) <= _SHORT:
        anagrams = {"".join(letters) for letters in permutations(word)}
    else:
        anagrams = {
            word[:first] + word[second] + word[first + 1 : second] + word[first] + word[second + 1 :]
            for first, second in combinations(range(len(word)), 2)
        }
    return sorted(anagrams - reserved_words - {word})


def select_misspellings(word: str, split: str, reserved_words: frozenset[str]) -> list[str]:
    """Return the misspellings of a word that may occur in a split; no two splits share one."""
    sorted_misspellings = sorted(
        misspellings(word, reserved_words), key=lambda misspelling: unit_hash("misspelt", misspelling)
    )
    sizes = split_sizes(len(sorted_misspellings))
    begin = 0
    for name in SHARES:
        if name == split:
            return sorted_misspellings[begin : begin + sizes[name]]
        begin += sizes[name]
    return []


task = DetectInvalidTypes()
