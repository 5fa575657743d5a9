"""Words and signs of a text, by one rule for every language; and how far they give a side away."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

_LEXER = re.compile(
    r"\w+|>>>=|\*\*=|//=|<<=|>>=|>>>|\.\.\.|\+\+|--|&&|\|\||->|::|\*\*|//|<<|>>|[-+*/%&|^!=<>:@]=|[^\w\s]"
)
_KEPT = 20_000
_FEATURES = 300
_PENALTY = 0.01


@functools.lru_cache(maxsize=_KEPT)
def bag_words(text: str) -> tuple[str, ...]:
    """Words and signs of a text in order, those of strings and comments too.

    The same tokens are read whether or not the text parses.
    """
    return tuple(map(sys.intern, split_words(text)))


def split_words(text: str) -> list[str]:
    """Return the words and signs of a text in order."""
    return _LEXER.findall(text)


def leaning(texts: Sequence[str], faulty: Sequence[bool]) -> Float[np.ndarray, " text"]:
    """How faulty each text looks by its commonest words alone, a propensity score.

    Ridge regression of the side on the logarithms of the counts of the commonest words. Faults and untouched
    texts of equal scores have, on average, equal counts of every one of these words (Rosenbaum and Rubin,
    "The central role of the propensity score", Biometrika 1983).

    Args:
        texts: Faulty and untouched texts.
        faulty: Which of them are faulty.

    Returns:
        Scores, about 0 for what looks untouched and 1 for what looks faulty.
    """
    spread = Counter(word for text in texts for word in set(bag_words(text)))
    words = sorted(spread, key=lambda word: (-spread[word], word))[:_FEATURES]
    place = {word: number for number, word in enumerate(words)}
    counts = np.zeros((len(texts), len(words)))
    for row, text in enumerate(texts):
        for word, count in Counter(bag_words(text)).items():
            if word in place:
                counts[row, place[word]] = count
    features = np.log1p(counts)
    features -= features.mean(0)
    features /= features.std(0) + 1e-9
    side = np.asarray(faulty, np.float64)
    gram = features.T @ features / len(texts) + _PENALTY * np.eye(len(words))
    weights = np.linalg.solve(gram, features.T @ (side - side.mean()) / len(texts))
    return features @ weights + side.mean()
