import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.errors import UsageError
from sonde.corpora.engine.ngram import NGram

tokens = st.lists(st.integers(0, 5), min_size=1, max_size=60)


class Slow:
    """Interpolated Kneser-Ney with dictionaries, straight from the formula."""

    def __init__(self, stream: list[int], vocabulary: int, order: int) -> None:
        self.vocabulary, self.order = vocabulary, order
        grams = Counter(tuple(stream[i : i + order]) for i in range(len(stream) - order + 1))
        self.counts = {order: grams}
        for length in range(order - 1, 0, -1):
            self.counts[length] = Counter(gram[1:] for gram in self.counts[length + 1])

    def probability(self, history: tuple[int, ...], token: int) -> float:
        if not history and 1 not in self.counts:
            return 1 / self.vocabulary
        length = len(history) + 1
        below = self.probability(history[1:], token) if history else 1 / self.vocabulary
        counts = self.counts[length]
        followers = {gram: count for gram, count in counts.items() if gram[:-1] == history}
        if not followers:
            return below
        once, twice = (sum(count == n for count in counts.values()) for n in (1, 2))
        discount = once / (once + 2 * twice) if once else 0.5
        total = sum(followers.values())
        own = max(followers.get((*history, token), 0) - discount, 0)
        return (own + discount * len(followers) * below) / total


@settings(max_examples=60, deadline=None)
@given(tokens, tokens, st.integers(1, 4))
def test_it_is_the_formula(stream, document, order):
    fast = NGram(np.array(stream, np.uint16), 8, order).nats(np.array(document, np.uint16))
    slow = Slow(stream, 8, order)
    for place, token in enumerate(document):
        history = tuple(document[max(0, place - order + 1) : place])
        assert fast[place] == pytest.approx(-math.log(slow.probability(history, token)), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(tokens, st.lists(st.integers(0, 5), max_size=3))
def test_probabilities_sum_to_one(stream, history):
    model = NGram(np.array(stream, np.uint16), 6, 3)
    chances = [math.exp(-model.nats(np.array([*history, token], np.uint16))[-1]) for token in range(6)]
    assert sum(chances) == pytest.approx(1)


def test_only_valid_subwords_count():
    stream = np.array([1, 2, 3, 1, 2, 3, 4, 4, 4, 4], np.uint16)
    valid = np.arange(10) < 6
    document = np.array([1, 2, 3, 4], np.uint16)
    assert np.array_equal(NGram(stream, 5, 3, valid).nats(document), NGram(stream[:6], 5, 3).nats(document))


def test_orders_that_do_not_fit():
    with pytest.raises(UsageError, match="5"):
        NGram(np.zeros(9, np.uint16), 4, 5)
