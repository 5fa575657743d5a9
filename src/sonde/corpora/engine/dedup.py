"""Near-duplicates of code, found exactly or by MinHash, and the clusters that they form.

Two items are near-duplicates if their identifiers and literals have a Jaccard similarity above 0.8 as sets
and above 0.7 as multisets (Allamanis, "The adverse effects of code duplication in machine learning models of
code", Onward! 2019, section 3).

The exact search misses no pair: an inverted index over prefixes (Chaudhuri, Ganti and Kaushik, "A primitive
operator for similarity joins in data cleaning", ICDE 2006) proposes candidates, and each is then compared in
full.

For larger corpora MinHash proposes pairs by the similarity of their signatures. Each is compared in full by
the same rule, so it never removes what the rule keeps. It can miss a pair: one right at the threshold once in
five thousand, one at a Jaccard similarity of 0.85 once in a million.

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
from typing import Any, Generic

import numpy as np
from jaxtyping import UInt32
from typing_extensions import TypeVar

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


Bag = Mapping[str, int]
"""Tokens with their counts."""


def duplicate_tokens(text: str, keywords: AbstractSet[str] = frozenset()) -> Counter[str]:
    """Count the identifiers, keywords and literals of a text, without comments and operators.

    Args:
        text: Code of any language, or prose.
        keywords: Words that are not counted, for the identifiers and literals of one language alone.
    """
    counts = Counter(match[0] for match in LEXER.finditer(text) if match.lastgroup == "token")
    for word in keywords & counts.keys():
        del counts[word]
    return counts


def is_near_duplicate(first: Bag, second: Bag) -> bool:
    """Return whether two bags are near-duplicates; the index gives the same result for every pair."""
    if not first or not second:
        return False
    if min(len(first), len(second)) < MIN_DISTINCT:
        return dict(first) == dict(second)
    return _exceeds_thresholds(dict(first), sum(first.values()), second.items(), len(second))


def _exceeds_thresholds(
    counts: Mapping[Any, int], total: int, pairs: Iterable[tuple[Any, int]], distinct: int
) -> bool:
    """Return whether two bags share enough, as sets and as multisets; computed in whole numbers.

    Args:
        counts: The tokens of the first bag with their counts.
        total: The sum of these counts.
        pairs: The tokens of the second bag with their counts.
        distinct: The number of these tokens.
    """
    shared_tokens = shared_count = second_total = 0
    for token, count in pairs:
        second_total += count
        first_count = counts.get(token)
        if first_count is not None:
            shared_tokens += 1
            shared_count += min(first_count, count)
    union, union_count = len(counts) + distinct - shared_tokens, total + second_total - shared_count
    return 5 * shared_tokens > 4 * union and 10 * shared_count > 7 * union_count


_LONGEST_TOKEN = 48
"""A longer token, as documentation is, is held by its hash."""


K = TypeVar("K", default=str)
"""How the items of an index are named."""


@dataclass(slots=True)
class NearDuplicateIndex(Generic[K]):
    """An index that finds the near-duplicates of an item among those added before.

    Rare tokens are looked up first. Which are rare is counted anew when answers have come to cost much:
    that changes how long an answer takes, never the answer.
    """

    _entries: list[tuple[K, array[int], array[int]]] = field(default_factory=list, init=False)
    """Each item with its tokens by number, the rarest first, and their counts."""
    _numbers: dict[str, int] = field(default_factory=dict, init=False)
    _weights: list[int] = field(default_factory=list, init=False)
    _postings: defaultdict[int, array[int]] = field(
        default_factory=lambda: defaultdict(lambda: array("I")), init=False
    )
    _small: dict[frozenset[tuple[int, int]], K] = field(default_factory=dict, init=False)
    _comparisons: int = field(default=0, init=False)
    _ranked_size: int = field(default=64, init=False)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tokens: Bag) -> K | None:
        """Return the first item added that is a near-duplicate, or None.

        Args:
            tokens: Tokens with their counts; an item without any is never a near-duplicate.
        """
        return next(self.matches(tokens), None)

    def matches(self, tokens: Bag, is_settled: Callable[[K], bool] = lambda identifier: False) -> Iterator[K]:
        """Yield all items added that are near-duplicates, in the order in which they were added.

        Args:
            tokens: Tokens with their counts; an item without any is never a near-duplicate.
            is_settled: Tells whether an item need not be compared; called just before the comparison.
        """
        pairs = self._sort(self._number(tokens))
        if len(pairs) < MIN_DISTINCT:
            if (equal := self._small.get(frozenset(pairs))) is not None:
                yield equal
            return
        size, total = len(pairs), sum(count for _, count in pairs)
        candidates: set[int] = set()
        for number, _ in pairs[: _prefix_length(size)]:
            candidates.update(self._postings.get(number, ()))
        self._comparisons += len(candidates)
        self._rank_if_costly()
        counts = dict(pairs)
        for candidate in sorted(candidates):
            identifier, *bag = self._entries[candidate]
            other_size = len(bag[0])
            # A set of less than four fifths the size cannot reach the threshold.
            fits = 5 * min(size, other_size) > 4 * max(size, other_size)
            if (
                fits
                and not is_settled(identifier)
                and _exceeds_thresholds(counts, total, zip(*bag, strict=True), other_size)
            ):
                yield identifier

    def add(self, identifier: K, tokens: Bag) -> None:
        """Add an item, with which later ones are compared.

        Args:
            identifier: What `find` returns.
            tokens: Tokens with their counts.
        """
        pairs = self._number(tokens)
        if 0 < len(pairs) < MIN_DISTINCT:
            self._small.setdefault(frozenset(pairs), identifier)
        self._post(identifier, pairs)
        self._rank_if_costly()

    def _number(self, tokens: Bag) -> list[tuple[int, int]]:
        """Return the number and count of each token."""
        numbers = self._numbers
        words = (token if len(token) <= _LONGEST_TOKEN else hash_text(token) for token in tokens)
        pairs = [
            (numbers.setdefault(word, len(numbers)), count)
            for word, count in zip(words, tokens.values(), strict=True)
        ]
        self._weights += [0] * (len(numbers) - len(self._weights))
        return pairs

    def _rank_if_costly(self) -> None:
        """Rank tokens by the number of items that hold them, and post all items by that."""
        # Counting costs about as much as comparing each item a few times, and pays where much has changed.
        if not self._comparisons > 10 * len(self._entries) > 11 * self._ranked_size:
            return
        frequencies = Counter(number for _, numbers, _ in self._entries for number in numbers)
        self._weights = [frequencies[number] for number in range(len(self._numbers))]
        entries, self._entries = self._entries, []
        self._postings.clear()
        for identifier, *bag in entries:
            self._post(identifier, zip(*bag, strict=True))
        self._comparisons, self._ranked_size = 0, len(entries)

    def _post(self, identifier: K, pairs: Iterable[tuple[int, int]]) -> None:
        """Store an item, and make it findable by each token of its prefix."""
        pairs = self._sort(pairs)
        if len(pairs) >= MIN_DISTINCT:
            for number, _ in pairs[: _prefix_length(len(pairs))]:
                self._postings[number].append(len(self._entries))
        numbers, counts = (
            array("I", (number for number, _ in pairs)),
            array("I", (count for _, count in pairs)),
        )
        self._entries.append((identifier, numbers, counts))

    def _sort(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return numbers and counts in the one order of tokens: rarest first, then first seen first."""
        weights = self._weights
        return sorted(pairs, key=lambda pair: (weights[pair[0]], pair[0]))


def _prefix_length(size: int) -> int:
    """Return how many of a set's rarest tokens must hold a common one if the Jaccard is above 0.8.

    The common part must have at least ``floor(0.8 size) + 1`` tokens, so at most the rest can be missing
    from the front.
    """
    return size - (4 * size) // 5


@cache
def keywords(language: str) -> frozenset[str]:
    """Return the keywords of a language except its literals, such as ``None``."""
    if not has_facet(language, "edits"):
        return frozenset()
    categories = get_facet(language, "edits", Edits).keywords
    return frozenset(word for name, words in categories.items() if name != "constant" for word in words)


_SHAPE = 5
"""Code tokens in a row that make one word of a shape."""


_WORDS_ALIKE = 3
"""One in so many words of two texts of one shape is the same. Of functions of the standard library in five
copies, two names changed in each, this finds 19 in 20; of 4,000 functions it joins one in ten."""


_MAX_COMPARED_TEXTS = 50
"""Texts of one cluster that others are compared with: a table of one text in 100,000 versions would take as
many comparisons for each."""


_PROSE = "text"


_SHAPE_LEXER = re.compile(rf"{LEXER.pattern} | (?P<sign> [^\s\w] )", LEXER.flags)


@dataclass(frozen=True, slots=True)
class TextBags:
    """The words and the shape of a text with their counts, by which texts are compared."""

    words: Counter[str]
    shape: Counter[str]


class NearTexts:
    """An index that finds near-duplicate texts of one language by words and shape.

    Args:
        language: Public name; prose has words and no shape.
        shapes: Whether shapes are compared.
    """

    def __init__(self, language: str, *, shapes: bool = True) -> None:
        self._keywords = keywords(language) if shapes and language != _PROSE else None
        self._words, self._shapes = NearDuplicateIndex[int](), NearDuplicateIndex[int]()
        self._texts: dict[int, str] = {}

    def read(self, text: str) -> TextBags:
        """Return what a text is compared by."""
        shape = Counter[str]() if self._keywords is None else count_shape_ngrams(text, self._keywords)
        return TextBags(duplicate_tokens(text), shape)

    def matches(
        self, bags: TextBags, is_settled: Callable[[int], bool] = lambda number: False
    ) -> Iterator[int]:
        """Yield the numbers of all texts that are near-duplicates, by words and then by shape.

        Args:
            bags: What the text is compared by.
            is_settled: Tells whether a text need not be compared; called just before the comparison.
        """
        yield from self._words.matches(bags.words, is_settled)
        for number in self._shapes.matches(bags.shape, is_settled):
            words = duplicate_tokens(self._texts[number]).keys()
            if _WORDS_ALIKE * len(words & bags.words.keys()) >= len(words | bags.words.keys()):
                yield number

    def add(self, number: int, text: str, bags: TextBags) -> None:
        """Add a text under a number; later texts are compared with it."""
        self._words.add(number, bags.words)
        self._shapes.add(number, bags.shape)
        self._texts[number] = text


def count_shape_ngrams(text: str, keywords: AbstractSet[str]) -> Counter[str]:
    """Count the 5-grams of code tokens of a text, with names and strings replaced by placeholders.

    A text of fewer than five different stretches has none: what is as short has its shape by chance.

    Args:
        text: Code of any language.
        keywords: Words that are not names.
    """
    words: list[str] = []
    for match in _SHAPE_LEXER.finditer(text):
        word = match[0]
        if match.lastgroup == "comment":
            continue
        if match.lastgroup == "token" and word not in keywords and not word[0].isdigit():
            word = "string" if word[-1] in "\"'" else "name"
        words.append(word)
    stretches = Counter(" ".join(words[start : start + _SHAPE]) for start in range(len(words) - _SHAPE + 1))
    return stretches if len(stretches) >= MIN_DISTINCT else Counter()


def cluster_near_duplicates(texts: Sequence[str], language: str) -> list[int]:
    """Return the cluster of each text: the index of the cluster's first text.

    Whatever a chain of near-duplicates links is one cluster. Of a cluster of more than fifty texts, others
    are compared with the first fifty.

    Args:
        texts: Code or prose.
        language: Public name of its language.
    """
    near_texts, clusters = NearTexts(language), _Clusters(len(texts))
    compared_counts: Counter[int] = Counter()
    for position, text in enumerate(texts):

        def is_settled(number: int, position: int = position) -> bool:
            return clusters.first(number) == clusters.first(position)

        bags = near_texts.read(text)
        for neighbour in near_texts.matches(bags, is_settled):
            low, high = clusters.link(neighbour, position)
            if low != high:
                compared_counts[low] += compared_counts.pop(high, 0)
        first = clusters.first(position)
        if compared_counts[first] < _MAX_COMPARED_TEXTS:
            compared_counts[first] += 1
            near_texts.add(position, text, bags)
    return [clusters.first(position) for position in range(len(texts))]


class _Clusters:
    """Disjoint sets of texts by index (union-find)."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def first(self, position: int) -> int:
        """Return the first text of the cluster of the text at `position`."""
        while self._above[position] != position:
            self._above[position] = position = self._above[self._above[position]]
        return position

    def link(self, position: int, other_position: int) -> tuple[int, int]:
        """Merge the clusters of two texts; return the first texts of both, the lower one first."""
        low, high = sorted((self.first(position), self.first(other_position)))
        self._above[high] = low
        return low, high


EXACT, MINHASH = METHODS = ("exact", "minhash")


BANDS, ROWS = 36, 7
"""Two files are compared where one of 36 bands of 7 minima is the same.

At a Jaccard of 0.8 that is missed with probability (1 - 0.8^7)^36 = 0.0002.
"""


_SEED = 1


Signature = UInt32[np.ndarray, " minimum"]


SignedBag = tuple[Bag, Signature | None]
"""Tokens with their counts, and their signature, see `sign`."""


class MinHashIndex(Generic[K]):
    """An index that finds near-duplicates among the items added before, by MinHash signatures.

    A library's index of MinHash signatures proposes pairs, and each is compared in full.

    Args:
        read_tokens: Reads the tokens of an item, which are not stored.
    """

    def __init__(self, read_tokens: Callable[[K], Bag]) -> None:
        self._read_tokens = read_tokens
        self._index = library().MinHashLSH(num_perm=BANDS * ROWS, params=(BANDS, ROWS))
        self._items: dict[K, tuple[int, Signature]] = {}
        """Place in the order of adding, and signature, of each item."""

    def find(self, mark: SignedBag) -> K | None:
        """Return the first item added that an item nearly repeats, or None."""
        tokens, signature = mark
        if signature is None:
            return None
        candidates: list[K] = self._index.query(_build_minhash(signature))
        # Nothing proposed is nearly so common as a pair that differs: one look at the signatures, which is
        # wrong about a true pair once in many millions, spares the reading of most.
        likely = (
            candidate
            for candidate in sorted(candidates, key=lambda candidate: self._items[candidate][0])
            if float(np.mean(signature == self._items[candidate][1])) > _LEAST_ALIKE
        )
        return next(
            (candidate for candidate in likely if is_near_duplicate(tokens, self._read_tokens(candidate))),
            None,
        )

    def add(self, identifier: K, mark: SignedBag) -> None:
        """Add an item, with which later ones are compared."""
        _, signature = mark
        if signature is not None:
            self._items[identifier] = len(self._items), signature
            self._index.insert(identifier, _build_minhash(signature), check_duplication=False)


_LEAST_ALIKE = 0.65
"""Six standard deviations below a share of 0.8 of 252 minima."""


def library() -> Any:
    """Import the library datasketch.

    Raises:
        InputError: It is not installed; the extra that brings it is named.
    """
    if importlib.util.find_spec("datasketch") is None:
        raise InputError(
            "method 'minhash' needs datasketch, which is not installed; install sonde[minhash], "
            "or leave the method at 'exact'"
        )
    return importlib.import_module("datasketch")


def sign(tokens: Bag) -> Signature | None:
    """Return the minima of a bag's set, equal for equal sets on every machine; None without tokens."""
    minhash = _empty_minhash().copy()
    minhash.update_batch([token.encode("utf-8", "surrogatepass") for token in tokens])
    return np.asarray(minhash.hashvalues, dtype=np.uint32) if tokens else None


@cache
def _empty_minhash() -> Any:
    return library().MinHash(num_perm=BANDS * ROWS, seed=_SEED, scheme="affine32")


def _build_minhash(signature: Signature) -> Any:
    empty = _empty_minhash()
    return type(empty)(hashvalues=signature, permutations=empty.permutations, scheme=empty.scheme, seed=_SEED)
