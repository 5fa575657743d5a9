"""Putting the tokens, statements or blocks of a text into another order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from random import Random
from typing import ClassVar

from sonde.languages._edits import Edits, TextPlace
from sonde.tasks._mutation import ORIGINAL, REPLACED, Fault, Mutation, Stratum, Surroundings, replaced


class Shuffle(Mutation):
    """Base of the tasks whose fault is a share of the tokens shuffled among themselves.

    That a parser answers lies in the fault: a random order of tokens follows no grammar. A bag of tokens is
    blind: both sides hold the same tokens. The variants that parse shuffle larger pieces: ``jst``
    (statements) and ``jbk`` (blocks). INSPECT discarded these tasks, since all models solve them.
    """

    labels = (ORIGINAL, REPLACED)
    version = "1"
    compiled = False
    share: ClassVar[float]

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if len({token.surface for token in around.edits.tokens(text)}) > 1 else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Shuffle; None where that changes nothing."""
        changed = shuffled(text, around.edits.tokens(text), self.share, draw)
        return None if changed is None else Fault(changed, ())


class Exchange(Mutation):
    """Base of the tasks whose fault is two stretches of code exchanged so that it still parses.

    Attributes:
        draws: Pairs that are tried.
    """

    draws: ClassVar[int] = 8

    @abstractmethod
    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextPlace, TextPlace]]:
        """The stretches that may be exchanged."""

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if any(self.pairs(text, around.edits)) else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Exchange one pair; None where no exchange is taken."""
        pairs = list(self.pairs(text, around.edits))
        for first, second in draw.sample(pairs, min(self.draws, len(pairs))):
            changed = exchanged(text, first, second)
            if self.stands(changed, around):
                return Fault(changed, ())
        return None

    def stands(self, changed: str, around: Surroundings) -> bool:
        """Whether an exchange is taken."""
        return around.edits.parses(changed)


def exchanged(text: str, first: TextPlace, second: TextPlace) -> str:
    """A text with what stands at two places exchanged; all else stays where it is."""
    return replaced(text, (first, second.surface), (second, first.surface))


def joins(left: str, right: str) -> bool:
    """Whether two tokens that touch would be read as one."""
    if not left or not right:
        return False
    last, first = left[-1], right[0]
    word = (last.isalnum() or last == "_") and (first.isalnum() or first == "_")
    sign = not (last.isalnum() or last in "_\"'()[]{},;") and not (first.isalnum() or first in "_\"'()[]{},;")
    string = first in "\"'" and (last.isalnum() or last in "_\"'")
    return word or sign or string


def neighbours(text: str, tokens: Sequence[TextPlace]) -> Iterator[tuple[TextPlace, TextPlace]]:
    """Tokens that follow each other on a line and stay two different tokens when they are exchanged."""
    for place in range(len(tokens) - 1):
        first, second = tokens[place], tokens[place + 1]
        gap = text[first.end : second.start]
        before = tokens[place - 1] if place else None
        after = tokens[place + 2] if place + 2 < len(tokens) else None
        if first.surface == second.surface or "\n" in gap:
            continue
        if not gap and joins(second.surface, first.surface):
            continue
        if before and before.end == first.start and joins(before.surface, second.surface):
            continue
        if after and second.end == after.start and joins(first.surface, after.surface):
            continue
        yield first, second


def shuffled(text: str, tokens: Sequence[TextPlace], share: float, draw: Random) -> str | None:
    """A share of the tokens put into another order among themselves; None where nothing changes.

    A blank parts two tokens that would be read as one.
    """
    moved = sorted(draw.sample(range(len(tokens)), round(share * len(tokens))))
    order = list(moved)
    draw.shuffle(order)
    words = [token.surface for token in tokens]
    for place, origin in zip(moved, order, strict=True):
        words[place] = tokens[origin].surface
    if words == [token.surface for token in tokens]:
        return None
    parts: list[str] = []
    position = 0
    for number, token in enumerate(tokens):
        gap = text[position : token.start]
        if number and not gap and joins(words[number - 1], words[number]):
            gap = " "
        parts += [gap, words[number]]
        position = token.end
    return "".join([*parts, text[position:]])
