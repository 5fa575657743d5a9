"""Suggestions for an unknown name: the nearest by spelling, or by the words of what each name means."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

_MINIMUM_RATIO = 0.5
"""Least similarity (0 to 1) of a name that is suggested by its spelling."""


_TYPO_RATIO = 0.82
"""Similarity from which a name is taken for a misspelling, whatever it means."""


_MINIMUM_COVERAGE = 0.6
"""Least share of the words of a name, weighted by how rare they are, that a description has to contain."""


_PHRASE_BONUS = 0.25
"""Added if a description contains the words of a name next to each other."""


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


_COMPOUND = re.compile(r"[a-z]+")
"""A word whatever its capitals: `_WORD` cuts ``LaTeX`` into three."""


_SUFFIX = re.compile(
    r"(?<=[a-z]{3})(?:ations?|ings?|ers?|ity|ities|ies|ed|es|e|s|y)$|(?<=[a-z]{3}al)(?:ly|is(?:e|ing))$"
)


_STOP_WORDS = frozenset(
    (
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "by",
        "for",
        "from",
        "in",
        "is",
        "it",
        "of",
        "on",
        "or",
        "the",
        "to",
    )
)


def suggest_by_spelling(
    name: str, candidates: Iterable[str], minimum_ratio: float = _MINIMUM_RATIO
) -> str | None:
    """Return the candidate that is spelled most like `name`; None if none is alike.

    >>> suggest_by_spelling("suprisal", ["probe", "surprisal"])
    'surprisal'

    Args:
        name: The name.
        candidates: The names that there are.
        minimum_ratio: Least similarity, from 0 to 1.
    """
    return next(iter(difflib.get_close_matches(name, candidates, n=1, cutoff=minimum_ratio)), None)


def is_typo(name: str, candidate: str) -> bool:
    """Return whether `name` is so much like `candidate` that it can only be a misspelling of it."""
    return difflib.SequenceMatcher(None, candidate, name).ratio() >= _TYPO_RATIO


def rank_by_meaning(
    name: str, descriptions: Mapping[str, str], minimum_coverage: float = _MINIMUM_COVERAGE
) -> list[str]:
    """Rank the names whose descriptions contain the words of `name`, the best first.

    Words are compared by their stems. A rare word counts more than one that many descriptions contain; of
    equally good descriptions the one wins that contains a word of `name` first.

    >>> tasks = {"idn": "identifier type. What an identifier names", "typ": "Is a type misspelt?"}
    >>> rank_by_meaning("identifier_types", tasks)
    ['idn']

    Args:
        name: One or several words, joined by anything.
        descriptions: For each name the words by which somebody may look for it.
        minimum_coverage: Least share of the words of `name`, weighted by rarity, that a description contains.
    """
    words = list(dict.fromkeys(_stem_words(name)))
    stems = {
        candidate: [*_stem_words(text := f"{candidate}. {line}"), *_COMPOUND.findall(text.lower())]
        for candidate, line in descriptions.items()
    }
    frequency = Counter(word for candidate_stems in stems.values() for word in set(candidate_stems))
    weights = {word: math.log((len(stems) + 1) / (frequency[word] + 0.5)) for word in words}
    total = sum(weights.values())
    ranked: list[tuple[float, int, str]] = []
    for candidate, candidate_stems in stems.items():
        coverage = sum(weight for word, weight in weights.items() if word in candidate_stems) / (total or 1)
        if coverage and coverage >= minimum_coverage:
            position = min(candidate_stems.index(word) for word in words if word in candidate_stems)
            bonus = _PHRASE_BONUS if _contains(candidate_stems, words) else 0.0
            ranked.append((-coverage - bonus, position, candidate))
    return [candidate for *_, candidate in sorted(ranked)]


def _contains(words: list[str], phrase: list[str]) -> bool:
    return any(words[start : start + len(phrase)] == phrase for start in range(len(words)))


def _stem_words(text: str) -> list[str]:
    words = (word.lower() for word in _WORD.findall(text))
    return [_SUFFIX.sub("", word) for word in words if word not in _STOP_WORDS]
