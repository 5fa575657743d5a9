"""The tokens of many files, held as numbers: a list of words, and two arrays of integers."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sonde.base.fingerprint import hash_text

_LONGEST = 48


def _integers() -> array[int]:
    return array("I")


@dataclass(slots=True)
class Bags:
    """Bags of tokens, in the order in which they were added.

    A token longer than 48 characters, as documentation is, is held by its hash.
    """

    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    _tokens: array[int] = field(default_factory=_integers)
    _counts: array[int] = field(default_factory=_integers)
    _ends: array[int] = field(default_factory=lambda: array("Q"))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, place: int) -> dict[int, int]:
        """The numbers of a bag's tokens with their counts."""
        begin, end = self._ends[place - 1] if place else 0, self._ends[place]
        return dict(zip(self._tokens[begin:end], self._counts[begin:end], strict=True))

    def add(self, bag: Mapping[str, int]) -> None:
        """Append a bag."""
        for token, count in bag.items():
            short = token if len(token) <= _LONGEST else hash_text(token)
            self._tokens.append(self._numbers.setdefault(short, len(self._numbers)))
            self._counts.append(count)
        self._ends.append(len(self._tokens))

    def extend(self, other: Bags) -> None:
        """Append the bags of another, whose tokens have numbers of their own."""
        numbers = self._numbers
        renumbered = array("I", (numbers.setdefault(token, len(numbers)) for token in other._numbers))
        begin = len(self._tokens)
        self._tokens.extend(map(renumbered.__getitem__, other._tokens))
        self._counts.extend(other._counts)
        self._ends.extend(begin + end for end in other._ends)

    def frequencies(self) -> list[int]:
        """For each number in how many bags it is."""
        found = Counter(self._tokens)
        return [found[number] for number in range(len(self._numbers))]

    def __iter__(self) -> Iterator[dict[int, int]]:
        return (self[place] for place in range(len(self)))
