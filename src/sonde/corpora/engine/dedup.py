"""Near-duplicates of code, found exactly or by MinHash, and the clusters that they form.

Two items are near-duplicates if their identifiers and literals have a Jaccard similarity above 0.8 as sets
and above 0.7 as multisets (Allamanis, "The adverse effects of code duplication in machine learning models of
code", Onward! 2019, section 3).

The exact search misses no pair: an inverted index over prefixes (Chaudhuri, Ganti and Kaushik, "A primitive
operator for similarity joins in data cleaning", ICDE 2006) proposes candidates, and each is then compared in
full.

For larger corpora MinHash proposes pairs by the similarity of their signatures. Each is compared in full by
the same rule, so it never removes what the rule keeps. It can miss a pair: one right at the threshold once in
five thousand, one at a Jaccard similarity of 0.85 once in a million. The tokens of many files are held as
numbers: a list of words, and arrays of integers (`Bags`).

Clusters link two texts by that rule, or if a third of their words and nearly all of their shape are the same:
the shape is the code with every name replaced by a name and every string by a string. The copy of a short
function with two other names shares too few words.
"""

from __future__ import annotations

import importlib.util
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import UInt32

from sonde.base.errors import InputError
from sonde.base.fingerprint import hash_text
from sonde.languages import get_facet, has_facet
from sonde.languages.engine.edits import Edits

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


def is_near_duplicate(one: Bag, other: Bag) -> bool:
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
    return _exceeds_thresholds(
        shared, len(one) + len(other), shared_count, sum(one.values()) + sum(other.values())
    )


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
            if fits and not settled(entry.identifier) and _matches_entry(counts, total, entry):
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


def _matches_entry(counts: dict[int, int], total: int, entry: _Entry) -> bool:
    shared = shared_count = entry_total = 0
    for number, count in zip(entry.tokens, entry.counts, strict=True):
        entry_total += count
        own = counts.get(number)
        if own is not None:
            shared += 1
            shared_count += min(own, count)
    return _exceeds_thresholds(shared, len(counts) + len(entry.tokens), shared_count, total + entry_total)


def _exceeds_thresholds(shared: int, both: int, shared_count: int, both_count: int) -> bool:
    """Whether what is shared is over both thresholds, in whole numbers.

    Args:
        shared: Distinct tokens of both.
        both: Distinct tokens of the one plus those of the other.
        shared_count: The smaller counts of the shared tokens, summed.
        both_count: All occurrences of the one plus those of the other.
    """
    return 5 * shared > 4 * (both - shared) and 10 * shared_count > 7 * (both_count - shared_count)


@cache
def keywords(language: str) -> frozenset[str]:
    """The keywords of a language; those that are literals, such as ``None``, excepted."""
    if not has_facet(language, "edits"):
        return frozenset()
    categories = get_facet(language, "edits", Edits).keywords
    return frozenset(word for name, words in categories.items() if name != "constant" for word in words)


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
        shape = Counter[str]() if self._reserved is None else count_shape_ngrams(text, self._reserved)
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


def count_shape_ngrams(text: str, reserved: AbstractSet[str]) -> Counter[str]:
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


def cluster_near_duplicates(texts: Sequence[str], language: str) -> list[int]:
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


_LONGEST = 48


def _empty_integers() -> array[int]:
    return array("I")


@dataclass(slots=True)
class Bags:
    """Bags of tokens, in the order in which they were added.

    A token longer than 48 characters, as documentation is, is held by its hash.
    """

    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    _tokens: array[int] = field(default_factory=_empty_integers)
    _counts: array[int] = field(default_factory=_empty_integers)
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
