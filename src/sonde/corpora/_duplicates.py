"""Near-duplicates of code, found exactly.

Two items are near-duplicates where their identifiers and literals have a Jaccard similarity above 0.8 as
sets and above 0.7 as multisets (Allamanis, "The adverse effects of code duplication in machine learning
models of code", Onward! 2019, section 3).

No pair is missed: an inverted index over prefixes (Chaudhuri, Ganti and Kaushik, "A primitive operator
for similarity joins in data cleaning", ICDE 2006) proposes candidates, and each is then compared in full.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

MIN_DISTINCT = 5
"""With fewer distinct tokens only equal multisets are near-duplicates.

This loses nothing that the thresholds would find between small and large items: four tokens out of five
are a Jaccard of 0.8, which is not above 0.8.
"""

# One rule for every language, since items come by the hundred thousand and a syntax tree each would cost
# a hundred times as much. Comments go first; what they hold is no token. `//` is division in Python: the
# rest of such a line is lost, alike in an item and in its copy. What is opened and never closed runs to
# the end of its line or of the text: looking further from every quote would take quadratic time.
LEXER = re.compile(
    r"""
    (?P<comment> /\*.*?(?:\*/|\Z) | //[^\n]* | \#[^\n]* )
  | (?P<token>
        (?: \b[bfru]{1,2} | (?<!\w) )
        (?: \"{3}.*?(?:\"{3}|\Z) | '{3}.*?(?:'{3}|\Z)
          | "(?:[^"\\\n]|\\.)*+"? | '(?:[^'\\\n]|\\.)*+'? )
      | \d[\w.]* | [^\W\d]\w*
    )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


Bag = Mapping[Any, int]
"""Tokens, or numbers that stand for them, with their counts."""


def duplicate_tokens(text: str, keywords: AbstractSet[str] = frozenset()) -> Counter[str]:
    """The identifiers, keywords and literals of a text with their counts, without comments and operators.

    Args:
        text: Code of any language, or prose.
        keywords: Words that are not counted, for the identifiers and literals of one language alone.
    """
    found = Counter(found[0] for found in LEXER.finditer(text) if found.lastgroup == "token")
    for word in keywords & found.keys():
        del found[word]
    return found


def near(one: Bag, other: Bag) -> bool:
    """The rule itself, for any two bags; what the index finds is what this says of every pair."""
    if not one or not other:
        return False
    if min(len(one), len(other)) < MIN_DISTINCT:
        return dict(one) == dict(other)
    counts = dict(one)
    shared = shared_count = 0
    for token, count in other.items():
        own = counts.get(token)
        if own is not None:
            shared += 1
            shared_count += min(own, count)
    return _over(shared, len(one) + len(other), shared_count, sum(one.values()) + sum(other.values()))


@dataclass(frozen=True, slots=True)
class _Entry:
    """An item of the index: token numbers, rarest first, with their counts."""

    identifier: str
    tokens: array[int]
    counts: array[int]


@dataclass(slots=True)
class NearDuplicateIndex:
    """Items kept so far, and whether a new one nearly repeats one of them.

    Rare tokens are looked up first. Which are rare is counted anew when answers have come to cost much:
    that changes how long an answer takes, never the answer.
    """

    _entries: list[_Entry] = field(default_factory=list, init=False)
    _numbers: dict[Any, int] = field(default_factory=dict, init=False)
    _weights: list[int] = field(default_factory=list, init=False)
    _postings: defaultdict[int, array[int]] = field(
        default_factory=lambda: defaultdict(_integers), init=False
    )
    _small: dict[frozenset[tuple[int, int]], str] = field(default_factory=dict, init=False)
    _compared: int = field(default=0, init=False)
    _counted: int = field(default=64, init=False)

    @classmethod
    def of_numbers(cls, frequencies: Sequence[int]) -> NearDuplicateIndex:
        """An index of items whose tokens are numbers, with what a first look at all items has counted.

        Args:
            frequencies: For each token, in how many items it is.
        """
        index = cls()
        index._numbers = {number: number for number in range(len(frequencies))}
        index._weights = list(frequencies)
        return index

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tokens: Bag) -> str | None:
        """The first item added that is a near-duplicate, or None.

        Args:
            tokens: Tokens with their counts; an item without any is never a near-duplicate.
        """
        return next(self.matches(tokens), None)

    def matches(
        self, tokens: Bag, settled: Callable[[str], bool] = lambda identifier: False
    ) -> Iterator[str]:
        """All items added that are near-duplicates, in the order in which they were added.

        Args:
            tokens: Tokens with their counts; an item without any is never a near-duplicate.
            settled: Whether an item is not to be compared, asked when its turn comes.
        """
        if not tokens:
            return
        numbered = self._number(tokens)
        if len(numbered) < MIN_DISTINCT:
            if (equal := self._small.get(frozenset(numbered))) is not None:
                yield equal
            return
        size, total = len(numbered), sum(tokens.values())
        candidates: set[int] = set()
        for number, _ in numbered[: _prefix(size)]:
            candidates.update(self._postings.get(number, ()))
        self._compared += len(candidates)
        self._count_anew()
        counts = dict(numbered)
        for candidate in sorted(candidates):
            entry = self._entries[candidate]
            # A set of less than four fifths the size cannot reach the threshold.
            fits = 5 * min(size, len(entry.tokens)) > 4 * max(size, len(entry.tokens))
            if fits and not settled(entry.identifier) and _is_near(counts, total, entry):
                yield entry.identifier

    def add(self, identifier: str, tokens: Bag) -> None:
        """Keep an item, so that later ones are compared with it.

        Args:
            identifier: What `find` returns.
            tokens: Tokens with their counts.
        """
        numbered = self._number(tokens)
        if 0 < len(numbered) < MIN_DISTINCT:
            self._small.setdefault(frozenset(numbered), identifier)
        numbers = _integers(number for number, _ in numbered)
        self._entries.append(_Entry(identifier, numbers, _integers(count for _, count in numbered)))
        self._post(len(self._entries) - 1)
        self._count_anew()

    def _count_anew(self) -> None:
        # Counting costs about as much as comparing each item a few times, and pays where much has changed.
        if self._compared > 10 * len(self._entries) > 11 * self._counted:
            self._reorder()
            self._compared, self._counted = 0, len(self._entries)

    def _post(self, place: int) -> None:
        """Make an item findable by each token of its prefix."""
        tokens = self._entries[place].tokens
        if len(tokens) >= MIN_DISTINCT:
            for number in tokens[: _prefix(len(tokens))]:
                self._postings[number].append(place)

    def _reorder(self) -> None:
        """Count in how many items each token is, and sort and post all items by that."""
        self._weights = [0] * len(self._numbers)
        for entry in self._entries:
            for number in entry.tokens:
                self._weights[number] += 1
        self._postings.clear()
        for place, entry in enumerate(self._entries):
            pairs = sorted(zip(entry.tokens, entry.counts, strict=True), key=self._rank)
            tokens, counts = _integers(number for number, _ in pairs), _integers(count for _, count in pairs)
            self._entries[place] = _Entry(entry.identifier, tokens, counts)
            self._post(place)

    def _rank(self, pair: tuple[int, int]) -> tuple[int, int]:
        return self._weights[pair[0]], pair[0]

    def _number(self, tokens: Bag) -> list[tuple[int, int]]:
        """Numbers and counts in the index's one order of tokens: rarest first, then first seen first."""
        numbered: list[tuple[int, int]] = []
        for token, count in tokens.items():
            number = self._numbers.get(token)
            if number is None:
                number = self._numbers[token] = len(self._numbers)
                self._weights.append(0)
            numbered.append((number, count))
        numbered.sort(key=self._rank)
        return numbered


def _integers(values: Iterable[int] = ()) -> array[int]:
    return array("I", values)


def _prefix(size: int) -> int:
    """How many of a set's rarest tokens must hold a common one if the Jaccard is above 0.8.

    The common part must have at least ``floor(0.8 size) + 1`` tokens, so at most the rest can be missing
    from the front.
    """
    return size - (4 * size) // 5


def _is_near(counts: dict[int, int], total: int, entry: _Entry) -> bool:
    shared = shared_count = entry_total = 0
    for number, count in zip(entry.tokens, entry.counts, strict=True):
        entry_total += count
        own = counts.get(number)
        if own is not None:
            shared += 1
            shared_count += min(own, count)
    return _over(shared, len(counts) + len(entry.tokens), shared_count, total + entry_total)


def _over(shared: int, both: int, shared_count: int, both_count: int) -> bool:
    """Whether what is shared is over both thresholds, in whole numbers.

    Args:
        shared: Distinct tokens of both.
        both: Distinct tokens of the one plus those of the other.
        shared_count: The smaller counts of the shared tokens, summed.
        both_count: All occurrences of the one plus those of the other.
    """
    return 5 * shared > 4 * (both - shared) and 10 * shared_count > 7 * (both_count - shared_count)
