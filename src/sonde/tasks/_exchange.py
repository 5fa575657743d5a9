"""Two variables exchanged everywhere except at one place, so that the other one becomes right there.

A function and its mutant differ at the place alone, and what a decoder reads before it is the same in both.
So the names are exchanged around the place instead: what stood there is wrong now, though it still stands
there (Zhang and Nanda 2024: the corrupt input changes the right answer and little else).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sonde.languages import facet_of
from sonde.languages._bugs import Bugs, Spot
from sonde.languages._edits import TextPlace
from sonde.languages._flow import Flow, Variable
from sonde.tasks._bugs import Choice
from sonde.tasks._mutation import replaced


@dataclass(frozen=True, slots=True)
class VariableExchange:
    """A function, and the same with two variables exchanged everywhere except at a place.

    Attributes:
        clean: The function as it was written.
        corrupt: The other one.
        place: Where the first variable is read in both, in characters of ``clean``.
        right: The variable that stands there, right in the clean text.
        other: The variable that would be right there in the corrupt text.
        definition: First place of the right variable.
        uses: Its further places, in text order, without the place itself.
        rival: Places of the other variable.
    """

    clean: str
    corrupt: str
    place: TextPlace
    right: str
    other: str
    definition: TextPlace
    uses: tuple[TextPlace, ...]
    rival: tuple[TextPlace, ...]

    def misused(self) -> str:
        """The function with the other variable at the place, and nothing else changed."""
        return replaced(self.clean, (self.place, self.other))


def exchanges(text: str, language: str, choice: Choice) -> Iterator[VariableExchange]:
    """The exchanges of a function in a random order.

    Both variables are defined before the place, both may be read there, and neither name means anything else
    in the text, a word of a comment included. A place gives one exchange at most.
    """
    bugs, flow = facet_of(language, "misuse", Bugs), facet_of(language, "flow", Flow)
    variables = _alone(text, flow.variables(text))
    held = {stretch.start: one for one in variables.values() for stretch in one.places}
    for use in choice.first(bugs.variables(text).uses, about="place"):
        right = held.get(use.start)
        if right is None or right.places[0].start == use.start:
            continue
        others = [
            name
            for name in bugs.replacements(text, use)
            if name in variables and variables[name].places[0].start < use.start
        ]
        if others:
            yield _exchanged(text, use, right, variables[choice.pick(others, about=f"other at {use.start}")])


def _alone(text: str, variables: tuple[Variable, ...]) -> dict[str, Variable]:
    """By name, the variables whose names stand for nothing else."""
    names = [one.name for one in variables]
    return {
        one.name: one
        for one in variables
        if names.count(one.name) == 1 and len(_words(text, one.name)) == len(one.places)
    }


def _words(text: str, name: str) -> list[str]:
    return re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text)


def _exchanged(text: str, use: Spot, right: Variable, other: Variable) -> VariableExchange:
    definition, *further = [TextPlace(*one, right.name) for one in right.places if one.start != use.start]
    rival = [TextPlace(*one, other.name) for one in other.places]
    renamed = [*((one, other.name) for one in (definition, *further)), *((one, right.name) for one in rival)]
    return VariableExchange(
        clean=text,
        corrupt=replaced(text, *renamed),
        place=TextPlace(*use),
        right=right.name,
        other=other.name,
        definition=definition,
        uses=tuple(further),
        rival=tuple(rival),
    )
