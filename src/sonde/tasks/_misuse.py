"""Variable misuse: which use is replaced by what, and where a pointer may point then."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.languages import facet_of
from sonde.languages._bugs import Bugs, Spot
from sonde.tasks._bugs import Choice

MISUSE = "Variable misuse"
_FEWEST, _MOST = 2, 50
"""Variables of an eligible function; those with more tend to be generated."""


@dataclass(frozen=True, slots=True)
class Misuse:
    """A function in which one variable stands for another.

    Attributes:
        text: The function.
        start: First character of the misused variable.
        end: One past its last.
        right: The variable that stood there.
        wrong: The variable that stands there.
    """

    text: str
    start: int
    end: int
    right: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Pointers:
    """Where a pointer may point in a function, and where it should; characters, end exclusive.

    Attributes:
        candidates: Every place of a variable that the function defines, in text order.
        error: The misused variable, None where there is none.
        targets: Places of the variable that is right there; empty where there is no error.
    """

    candidates: tuple[tuple[int, int], ...]
    error: tuple[int, int] | None
    targets: tuple[tuple[int, int], ...]


def misuse(text: str, bugs: Bugs, choice: Choice) -> Misuse | None:
    """Put a misuse into a function; None where it is not eligible.

    What is put in may be read there: a name that is bound only in a function or comprehension inside is not.
    """
    variables = bugs.variables(text)
    if not _FEWEST <= len(variables.names) <= _MOST:
        return None
    others = {use: bugs.replacements(text, use) for use in variables.uses}
    uses = [use for use in variables.uses if others[use]]
    if not uses:
        return None
    use: Spot = choice.pick(uses, about="use")
    wrong = choice.pick(others[use], about="variable")
    changed = text[: use.start] + wrong + text[use.end :]
    return Misuse(changed, use.start, use.start + len(wrong), use.surface, wrong)


def pointers(
    text: str, language: str, error: tuple[int, int] | None, repair: tuple[int, int] | None
) -> Pointers:
    """The pointers of an example of `misuse_repair`.

    Args:
        text: Text of the example's input.
        language: Its language.
        error: ``start`` and ``end`` of the example; None, or an empty stretch, for one without an error.
        repair: ``other_start`` and ``other_end``: one place of the variable that is right.
    """
    places = facet_of(language, "misuse", Bugs).variables(text).places
    candidates = tuple((place.start, place.end) for place in places)
    if error is None or repair is None or error[0] == error[1]:
        return Pointers(candidates, None, ())
    right = text[slice(*repair)]
    targets = tuple((place.start, place.end) for place in places if place.surface == right)
    return Pointers(candidates, error, targets)
