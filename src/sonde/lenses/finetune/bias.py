"""How far generated bugs give themselves away by their neighbours: two baselines without a model.

A bag of tokens does not see a name or operand that changed places with another; two tokens in a row may.

- ``bag_of_bigrams``: counts of neighbouring tokens, and of tokens, by logistic regression;
- ``ngram_surprisal``: under which of two n-gram models a text is less surprising, that of the functions
  without a bug or that of those with one (interpolated Kneser-Ney over whole tokens); the longest n-gram is
  chosen on valid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.corpora.engine.ngram import NGram
from sonde.tasks.engine.surface import bag_words, predict_by_words

BIGRAMS, NGRAM = "bag_of_bigrams", "ngram_surprisal"
BIAS = (BIGRAMS, NGRAM)
"""Names of the baselines."""

_ORDERS = (2, 3, 4)
_LEAST = 2
"""Training texts in which a token has to stand to be one of its own."""

_MOST = 60_000
"""Tokens of their own; an n-gram model takes 65,536."""

_BEGIN, _RARE, _FIRST = 0, 1, 2


def bias_predictions(splits: Mapping[str, pl.DataFrame]) -> dict[str, list[str]]:
    """Predictions of both baselines on the test examples, in their order.

    Args:
        splits: The examples of train, valid and test with ``text`` and ``label``.
    """
    parts = [splits[name] for name in ("train", "valid", "test")]
    words = [bag_words(text) for part in parts for text in part["text"].to_list()]
    labels = np.array([label for part in parts for label in part["label"].to_list()], np.str_)
    ends = np.cumsum([0, *(part.height for part in parts)])
    train, valid, test = (np.arange(start, end) for start, end in pairwise(ends.tolist()))
    neighbours = [[*held, *(f"{one} {other}" for one, other in pairwise(held))] for held in words]
    return {
        BIGRAMS: list(map(str, predict_by_words(neighbours, labels, (train, valid, test), _LEAST))),
        NGRAM: _predict_by_surprisal(words, labels, train, valid, test),
    }


def _predict_by_surprisal(
    words: Sequence[Sequence[str]],
    labels: np.ndarray,
    train: Int[np.ndarray, " train"],
    valid: Int[np.ndarray, " valid"],
    test: Int[np.ndarray, " test"],
) -> list[str]:
    classes = sorted(set(labels[train].tolist()))
    rows: list[int] = train.tolist()
    numbers = _numbers([words[row] for row in rows])
    coded = [np.array([numbers.get(word, _RARE) for word in held], np.int64) for held in words]
    best: tuple[float, list[str]] | None = None
    for order in _ORDERS:
        nats = np.stack(
            [
                _nats(
                    [coded[row] for row in train.tolist() if labels[row] == name],
                    [coded[row] for row in (*valid.tolist(), *test.tolist())],
                    len(numbers) + _FIRST,
                    order,
                )
                # As rare as the class is, so much is it surprising before a word is read.
                - math.log(np.mean(labels[train] == name))
                for name in classes
            ]
        )
        said = [classes[at] for at in nats.argmin(0)]
        right = float(np.mean(np.array(said[: len(valid)]) == labels[valid]))
        if best is None or right > best[0]:
            best = right, said[len(valid) :]
    assert best is not None
    return best[1]


def _numbers(texts: Iterable[Sequence[str]]) -> dict[str, int]:
    """A number for each token that is not rare."""
    spread = Counter(word for held in texts for word in set(held))
    known = [word for word, count in spread.most_common(_MOST) if count >= _LEAST]
    return {word: number for number, word in enumerate(known, start=_FIRST)}


def _nats(
    learned: Sequence[Int[np.ndarray, " token"]],
    asked: Sequence[Int[np.ndarray, " token"]],
    vocabulary: int,
    order: int,
) -> Float[np.ndarray, " text"]:
    """How surprising each text is to an n-gram model of others."""
    model = NGram(_stream(learned, order), vocabulary, order)
    nats = model.nats(_stream(asked, order))
    found: list[float] = []
    place = 0
    for text in asked:
        place += order - 1
        found.append(float(nats[place : place + len(text)].sum()))
        place += len(text)
    return np.array(found)


def _stream(texts: Sequence[Int[np.ndarray, " token"]], order: int) -> Int[np.ndarray, " token"]:
    """Texts in a row, each behind as many signs of a beginning as an n-gram looks back."""
    begin = np.full(order - 1, _BEGIN, np.int64)
    return np.concatenate([part for text in texts for part in (begin, text)])
