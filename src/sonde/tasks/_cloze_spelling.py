"""How likely a name is by its spelling alone: characters after characters, as real names have them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

ORDER = 4
"""Characters of an n-gram, the predicted one included."""

LeftOut = dict[str, Counter[str]]

_START, _END = "\x02", "\x03"


class Spelling:
    """An n-gram model of characters, interpolated as Witten and Bell (1991) do.

    Args:
        names: Real names; each counts once.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name in self._names:
            for context, character in _grams(name):
                self._counts[context][character] += 1
        self._alphabet = len(self._counts[""]) + 1
        self._totals = {context: sum(counts.values()) for context, counts in self._counts.items()}

    def without(self, name: str) -> LeftOut:
        """What the model knows from one real name alone."""
        left_out: LeftOut = {}
        for context, character in _grams(name) if name in self._names else ():
            left_out.setdefault(context, Counter())[character] += 1
        return left_out

    def score(self, name: str, left_out: LeftOut) -> float:
        """Log-probability of a name in nats, its end included.

        Args:
            name: Any name.
            left_out: What the model is not to know, from `without`.
        """
        text = _START * (ORDER - 1) + name + _END
        return sum(
            math.log(self._probability(text[at - ORDER + 1 : at], text[at], left_out))
            for at in range(ORDER - 1, len(text))
        )

    def _probability(self, context: str, character: str, left_out: LeftOut) -> float:
        found = 1 / self._alphabet
        for length in range(len(context) + 1):
            shorter = context[len(context) - length :]
            counts = self._counts.get(shorter)
            if counts is None:
                break
            mine = left_out.get(shorter)
            total, kinds, count = self._totals[shorter], len(counts), counts.get(character, 0)
            if mine is not None:
                total -= sum(mine.values())
                kinds -= sum(counts[one] == number for one, number in mine.items())
                count -= mine.get(character, 0)
            if total == 0:
                break
            found = (count + kinds * found) / (total + kinds)
        return found


def _grams(name: str) -> Iterator[tuple[str, str]]:
    """Every context, of no character up to the longest, with the character behind it."""
    text = _START * (ORDER - 1) + name + _END
    for at in range(ORDER - 1, len(text)):
        for length in range(ORDER):
            yield text[at - length : at], text[at]
