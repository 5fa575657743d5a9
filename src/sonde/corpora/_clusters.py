"""Texts whose code is nearly the same, and the clusters that they form.

Two texts are near-duplicates by their words as everywhere (`sonde.corpora._duplicates`), or where a third of
their words and nearly all of their shape are the same: the shape is what is left of code where every name is
a name and every string a string. A short function whose copy has two other names shares too few words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sonde.corpora._duplicates import LEXER, MIN_DISTINCT, NearDuplicateIndex, duplicate_tokens
from sonde.corpora._examine import keywords

_SHAPE = 5
"""Code tokens in a row that make one word of a shape."""

_WORDS_ALIKE = 3
"""One in so many words of two texts of one shape is the same. Of functions of the standard library in five
copies, two names changed in each, this finds 19 in 20; of 4,000 functions it joins one in ten."""

_MOST_COMPARED = 50
"""Texts of one cluster that others are compared with: a table of one text in 100,000 versions would take as
many comparisons for each."""

_PROSE = "text"
_SHAPE_LEXER = re.compile(rf"{LEXER.pattern} | (?P<sign> [^\s\w] )", LEXER.flags)


@dataclass(frozen=True, slots=True)
class TextBags:
    """What two texts are compared by: their words and their shape, each with its counts."""

    words: Counter[str]
    shape: Counter[str]


class NearTexts:
    """Texts of one language, and which of them another one nearly repeats.

    Args:
        language: Public name; prose has words and no shape.
        shapes: Whether shapes are compared.
    """

    def __init__(self, language: str, *, shapes: bool = True) -> None:
        self._reserved = keywords(language) if shapes and language != _PROSE else None
        self._words, self._shapes = NearDuplicateIndex(), NearDuplicateIndex()
        self._texts: dict[int, str] = {}

    def read(self, text: str) -> TextBags:
        """What a text is compared by."""
        shape = Counter[str]() if self._reserved is None else shape_of(text, self._reserved)
        return TextBags(duplicate_tokens(text), shape)

    def matches(self, bags: TextBags, settled: Callable[[int], bool] = lambda number: False) -> Iterator[int]:
        """The numbers of all texts that are near-duplicates, by words and then by shape.

        Args:
            bags: What the text is compared by.
            settled: Whether a text is not to be compared, asked when its turn comes.
        """

        def is_settled(name: str) -> bool:
            return settled(int(name))

        yield from map(int, self._words.matches(bags.words, is_settled))
        for other in map(int, self._shapes.matches(bags.shape, is_settled)):
            words = duplicate_tokens(self._texts[other]).keys()
            if _WORDS_ALIKE * len(words & bags.words.keys()) >= len(words | bags.words.keys()):
                yield other

    def add(self, number: int, text: str, bags: TextBags) -> None:
        """Keep a text under a number, so that later ones are compared with it."""
        self._words.add(str(number), bags.words)
        self._shapes.add(str(number), bags.shape)
        self._texts[number] = text


def shape_of(text: str, reserved: AbstractSet[str]) -> Counter[str]:
    """The stretches of five code tokens of a text with their counts, names and strings without what they say.

    A text of fewer than five different stretches has none: what is as short has its shape by chance.

    Args:
        text: Code of any language.
        reserved: Words that are no names.
    """
    words: list[str] = []
    for found in _SHAPE_LEXER.finditer(text):
        word = found[0]
        if found.lastgroup == "comment":
            continue
        if found.lastgroup == "token" and word not in reserved and not word[0].isdigit():
            word = "string" if word[-1] in "\"'" else "name"
        words.append(word)
    stretches = Counter(" ".join(words[at : at + _SHAPE]) for at in range(len(words) - _SHAPE + 1))
    return stretches if len(stretches) >= MIN_DISTINCT else Counter()


def near_clusters(texts: Sequence[str], language: str) -> list[int]:
    """The cluster of each text, which is the place of its first text.

    Whatever a chain of near-duplicates links is one cluster. Of a cluster of more than fifty texts, others
    are compared with the first fifty.

    Args:
        texts: Code or prose.
        language: Public name of its language.
    """
    near, clusters = NearTexts(language), _Clusters(len(texts))
    compared: Counter[int] = Counter()
    for place, text in enumerate(texts):

        def settled(other: int, place: int = place) -> bool:
            return clusters.first(other) == clusters.first(place)

        bags = near.read(text)
        for other in near.matches(bags, settled):
            low, high = clusters.link(other, place)
            if low != high:
                compared[low] += compared.pop(high, 0)
        first = clusters.first(place)
        if compared[first] < _MOST_COMPARED:
            compared[first] += 1
            near.add(place, text, bags)
    return [clusters.first(place) for place in range(len(texts))]


class _Clusters:
    """Which texts are linked, by place."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def first(self, place: int) -> int:
        """The first text of the cluster of one."""
        while self._above[place] != place:
            self._above[place] = place = self._above[self._above[place]]
        return place

    def link(self, one: int, other: int) -> tuple[int, int]:
        """Make the clusters of two texts one; the first text of it, and of what is now part of it."""
        low, high = sorted((self.first(one), self.first(other)))
        self._above[high] = low
        return low, high
