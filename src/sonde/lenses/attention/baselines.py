"""Predictors that see no attention: fixed offsets, keywords, the longest word, words picked at random.

An offset predicts the word there, a keyword its next occurrence. For k > 1 up to k of them are tried, each
further one hitting the most edges that are still missed, as in "Benchmarking Language Models for Code Syntax
Understanding", section 3. Fitted on some edges, scored on any.

The longest word and words picked at random are ranked as heads are, by the same rules among the same
candidates, so that ties, causality and the published quirks are the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, UInt8

from sonde.capture.requests import RankRules, WordLookups, WordRanks
from sonde.languages.engine.relations import Words
from sonde.lenses.attention.edges import Edges

NEVER = 255
"""Rank of an edge that no predictor hits."""

FARTHEST = 512
"""Offsets are tried up to here (section 3)."""

PICKS = 16
"""Random orders of the words that chance is the mean of; edges are many, so that few are enough."""

_ONE_WORD = 0.5


def clamp_ranks(found: WordRanks) -> UInt8[np.ndarray, "edge metric layer head"]:
    """Ranks as bytes, edge by edge; what is farther than a byte holds is never hit."""
    return np.ascontiguousarray(np.minimum(found.ranks, NEVER).astype(np.uint8).transpose(2, 3, 0, 1))


@dataclass(frozen=True, slots=True, eq=False)
class NumberRuns:
    """The predictors that hit each edge where these are a run of numbers, such as offsets.

    Attributes:
        low: The least number that hits.
        high: The greatest; below `low` where none does.
    """

    low: Int[np.ndarray, " edge"]
    high: Int[np.ndarray, " edge"]

    def __len__(self) -> int:
        return len(self.low)

    def take(self, edges: Bool[np.ndarray, " edge"]) -> NumberRuns:
        """Some of the edges."""
        return NumberRuns(self.low[edges], self.high[edges])

    def hits(self, predictor: int) -> Bool[np.ndarray, " edge"]:
        """Which edges a predictor hits."""
        return (self.low <= predictor) & (predictor <= self.high)

    def best(self, open_edges: Bool[np.ndarray, " edge"], least: int, greatest: int) -> tuple[int, int]:
        """The predictor from ``least`` to ``greatest`` that hits most, nearest to zero among equals.

        Zero is none: it would be the word itself, which attention is not asked for either.
        """
        low = np.maximum(self.low[open_edges], least)
        high = np.minimum(self.high[open_edges], greatest)
        some = low <= high
        size = greatest - least + 2
        steps = np.bincount(low[some] - least, minlength=size) - np.bincount(
            high[some] - least + 1, minlength=size
        )
        hits = np.cumsum(steps)[:-1]
        if least <= 0 <= greatest:
            hits[-least] = 0
        most = int(hits.max(initial=0))
        equal = np.flatnonzero(hits == most) + least
        return int(equal[np.argmin(np.abs(equal))]), most


@dataclass(frozen=True, slots=True, eq=False)
class NumberSets:
    """The predictors that hit each edge where these are any numbers, such as keywords.

    Attributes:
        edges: Number of edges.
        edge: An edge.
        predictor: A predictor, from 0, that hits it; each pair once.
    """

    edges: int
    edge: Int[np.ndarray, " pair"]
    predictor: Int[np.ndarray, " pair"]

    def __len__(self) -> int:
        return self.edges

    def take(self, edges: Bool[np.ndarray, " edge"]) -> NumberSets:
        """Some of the edges."""
        place = np.cumsum(edges) - 1
        kept = edges[self.edge]
        return NumberSets(int(edges.sum()), place[self.edge[kept]], self.predictor[kept])

    def hits(self, predictor: int) -> Bool[np.ndarray, " edge"]:
        """Which edges a predictor hits."""
        found = np.zeros(self.edges, np.bool_)
        found[self.edge[self.predictor == predictor]] = True
        return found

    def best(self, open_edges: Bool[np.ndarray, " edge"], least: int, greatest: int) -> tuple[int, int]:
        """The predictor that hits most, the first among equals."""
        kept = self.predictor[open_edges[self.edge]]
        hits = np.bincount(kept[(least <= kept) & (kept <= greatest)] - least, minlength=greatest - least + 1)
        return int(hits.argmax()) + least, int(hits.max())


Hits = NumberRuns | NumberSets


def select_greedy(hits: Hits, most: int, least: int, greatest: int) -> tuple[int, ...]:
    """Up to ``most`` predictors, each hitting the most edges that those before it miss.

    Args:
        hits: The edges to fit on.
        most: How many are chosen; fewer where no further one hits anything.
        least: First predictor that may be chosen.
        greatest: Last one.
    """
    chosen: list[int] = []
    missed = np.ones(len(hits), np.bool_)
    while len(chosen) < most and missed.any() and least <= greatest:
        predictor, gain = hits.best(missed, least, greatest)
        if gain == 0:
            break
        chosen.append(predictor)
        missed &= ~hits.hits(predictor)
    return tuple(chosen)


def rank_predictors(hits: Hits, chosen: tuple[int, ...]) -> Int[np.ndarray, " edge"]:
    """For each edge the place, from 1, of the first chosen predictor that hits it; else `NEVER`."""
    found = np.full(len(hits), NEVER, np.uint8)
    for place in range(len(chosen), 0, -1):
        found[hits.hits(chosen[place - 1])] = place
    return found


def random_ranks(
    side: str, words: Words, edges: Edges, rules: RankRules, seed: int
) -> UInt8[np.ndarray, "edge metric order"]:
    """Rank of what each edge looks for when words are ordered by length, then at random.

    Args:
        side: Side of the model, which decides what a word sees.
        words: The words.
        edges: The edges between them.
        rules: How words are ranked.
        seed: Of the random orders.
    """
    import torch

    from sonde.capture.word_attention import RowWords, rank_words

    place = np.arange(len(words.start))
    # Of words as long as each other the first one: orders without ties.
    length = words.end - words.start + 1 - _ONE_WORD * place / max(len(place), 1)
    random = np.random.default_rng(seed).random((PICKS, len(place)))
    lookups = WordLookups(
        place, place + 1, words.candidate, edges.bidirectional_lookups, edges.causal_lookups, rules
    )
    causal = side == "decoder"
    asked = RowWords(lookups, lookups.behind if causal else lookups.ahead, 0, 0)
    orders = torch.from_numpy(np.concatenate([length[None], random]).astype(np.float32))
    (found,) = rank_words(
        side,
        [asked],
        rules,
        causal,
        lambda columns: [orders[None, :, None].expand(-1, -1, columns.shape[1], -1)],
    )
    assert found is not None
    return clamp_ranks(found)[:, :, 0]
