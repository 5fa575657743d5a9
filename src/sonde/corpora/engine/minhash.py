"""Near-duplicates of items kept earlier: exactly, or by MinHash for larger corpora.

Both search for pairs by the same rule (`sonde.corpora.engine.dedup`): MinHash proposes pairs by the
similarity of their signatures and each is then compared in full, so it never removes what the rule keeps. It
can miss a pair: one right at the threshold once in five thousand, one at a Jaccard similarity of 0.85 once in
a million.

The tokens of many files are held as numbers: a list of words, and arrays of integers.
"""

from __future__ import annotations

import importlib.util
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import UInt32

from sonde.base.errors import InputError
from sonde.base.fingerprint import hash_text
from sonde.corpora.engine.dedup import NearDuplicateIndex, is_near_duplicate

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


EXACT, MINHASH = METHODS = ("exact", "minhash")


BANDS, ROWS = 36, 7
"""Two files are compared where one of 36 bands of 7 minima is the same.

At a Jaccard of 0.8 that is missed with probability (1 - 0.8^7)^36 = 0.0002.
"""


_SEED = 1


Signature = UInt32[np.ndarray, " minimum"]


class ExactFinder:
    """Every pair over the thresholds, by a prefix filter.

    Args:
        bags: The tokens of every item, by number.
    """

    def __init__(self, bags: Bags) -> None:
        self._bags = bags
        self._index = NearDuplicateIndex.of_numbers(bags.frequencies())

    def find(self, number: int) -> int | None:
        """The first item added that is a near-duplicate of this one, or None."""
        found = self._index.find(self._bags[number])
        return None if found is None else int(found)

    def add(self, number: int) -> None:
        """Keep an item, so that others are compared with it."""
        self._index.add(str(number), self._bags[number])


class MinHashFinder:
    """Pairs that a library's index of MinHash signatures proposes, each compared in full.

    Args:
        signatures: Of every item, by number; None for one without tokens.
        tokens: Reads the tokens of an item, which are not held.
    """

    def __init__(
        self, signatures: Sequence[Signature | None], tokens: Callable[[int], Mapping[str, int]]
    ) -> None:
        self._library = library()
        self._signatures = signatures
        self._tokens = tokens
        self._index = self._library.MinHashLSH(num_perm=BANDS * ROWS, params=(BANDS, ROWS))
        self._base = _empty(self._library)
        self._order: dict[int, int] = {}

    def find(self, number: int) -> int | None:
        """The first item added that is a near-duplicate of this one, or None."""
        signature = self._signatures[number]
        if signature is None:
            return None
        proposed = sorted(self._index.query(self._to_minhash(signature)), key=self._order.__getitem__)
        # Nothing proposed is nearly so common as a pair that differs: one look at the signatures, which is
        # wrong about a true pair once in many millions, spares the reading of most.
        likely = [other for other in proposed if self._is_similar(signature, other)]
        if not likely:
            return None
        own = self._tokens(number)
        return next((other for other in likely if is_near_duplicate(own, self._tokens(other))), None)

    def add(self, number: int) -> None:
        """Keep an item, so that others are compared with it."""
        signature = self._signatures[number]
        if signature is not None:
            self._order[number] = len(self._order)
            self._index.insert(number, self._to_minhash(signature), check_duplication=False)

    def _is_similar(self, signature: Signature, other: int) -> bool:
        known = self._signatures[other]
        return known is not None and float(np.mean(signature == known)) > _LEAST_ALIKE

    def _to_minhash(self, signature: Signature) -> Any:
        return self._library.MinHash(
            hashvalues=signature, permutations=self._base.permutations, scheme=self._base.scheme, seed=_SEED
        )


DuplicateFinder = ExactFinder | MinHashFinder
"""Items kept so far, by number, and whether another nearly repeats one of them."""


_LEAST_ALIKE = 0.65
"""Six standard deviations below a share of 0.8 of 252 minima."""


def library() -> Any:
    """The library datasketch.

    Raises:
        InputError: It is not installed; the extra that brings it is named.
    """
    if importlib.util.find_spec("datasketch") is None:
        raise InputError(
            "method 'minhash' needs datasketch, which is not installed; install sonde[minhash], "
            "or leave the method at 'exact'"
        )
    return importlib.import_module("datasketch")


class Signer:
    """Signatures of bags of tokens; equal sets have equal ones on every machine."""

    def __init__(self) -> None:
        self._base = _empty(library())

    def sign(self, tokens: Mapping[str, int]) -> Signature | None:
        """The minima of a bag's set; None without tokens."""
        if not tokens:
            return None
        own = self._base.copy()
        own.update_batch([token.encode("utf-8", "surrogatepass") for token in tokens])
        return np.asarray(own.hashvalues, dtype=np.uint32)


def _empty(datasketch: Any) -> Any:
    return datasketch.MinHash(num_perm=BANDS * ROWS, seed=_SEED, scheme="affine32")
