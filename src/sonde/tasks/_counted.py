"""What counting code tokens says of a text: the n-gram control and the frequency of names.

Counted is on functions of other clusters alone, so that a text never counts itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item
from sonde.corpora._ngram import MAX_ORDER, NGram
from sonde.corpora._spread import ItemChunk, Spread
from sonde.languages import facet_of
from sonde.languages._edits import Edits

_READ = 4_000
"""Functions that are counted."""

_PARTS = 5
_BORDER, _UNKNOWN, _FIRST = 0, 1, 2
_DISTINCT = 60_000
"""Code tokens that are told apart, the most frequent; `NGram` takes 65,536 at most."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What was counted for the clusters of one part."""

    model: NGram
    numbers: Mapping[str, int]
    counts: Counter[str]


class Counted:
    """Counts of the code tokens of a pool, for each of five parts of its clusters over the other four.

    Args:
        items: The functions, the first of which are counted.
        language: Their language.
        seed: Deals clusters to parts.
        spread: Processes that read functions.
        shown: Shows the functions that are counted otherwise.
    """

    def __init__(
        self,
        items: Sequence[Item],
        language: str,
        seed: int,
        spread: Spread,
        shown: Callable[[Iterable[Item]], Iterable[Item]] | None = None,
    ) -> None:
        first = items[:_READ]
        read = [*spread.over(_surfaces, language, shown(first) if shown else first)]
        clusters = sorted(
            {item.cluster for item in items}, key=lambda name: (unit_hash(seed, "counted", name), name)
        )
        self.functions = len(read)
        self._part = {cluster: place % _PARTS for place, cluster in enumerate(clusters)}
        self._parts: dict[int, _Part] = {}
        if len(clusters) > 1:
            for part in range(min(_PARTS, len(clusters))):
                others = [words for item, words in read if self._part[item.cluster] != part]
                self._parts[part] = _counted(others)

    def nats(self, cluster: str, words: Sequence[str]) -> float | None:
        """Negative log-probability of a text of code tokens; None where there is no other cluster.

        A Kneser-Ney model of order 4 (`sonde.corpora._ngram`); tokens that it does not know are one token.
        """
        part = self._parts.get(self._part[cluster])
        if part is None:
            return None
        stream = np.array([_BORDER, *(part.numbers.get(word, _UNKNOWN) for word in words)])
        return float(part.model.nats(stream)[1:].sum())

    def frequency(self, cluster: str, word: str) -> int | None:
        """How often a code token stands in other clusters; None where there is none."""
        part = self._parts.get(self._part[cluster])
        return None if part is None else part.counts[word]


def _counted(texts: Sequence[Sequence[str]]) -> _Part:
    counts = Counter(word for words in texts for word in words)
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:_DISTINCT]
    numbers = {word: number for number, word in enumerate(kept, start=_FIRST)}
    stream = [number for words in texts for number in (_BORDER, *(numbers.get(w, _UNKNOWN) for w in words))]
    return _Part(NGram(np.array(stream, np.int64), len(kept) + _FIRST, MAX_ORDER), numbers, counts)


def _surfaces(part: ItemChunk[str, Item]) -> list[tuple[str, ...]]:
    """The code tokens of some functions; runs in any process."""
    edits = facet_of(part.rule, "edits", Edits)
    return [tuple(token.surface for token in edits.tokens(item.text)) for item in part.items]
