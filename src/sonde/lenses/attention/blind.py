"""Baselines that see no attention: the longest word among the candidates, and words picked at random.

Both are ranked as heads are, by the same rules among the same candidates, so that ties, causality and the
published quirks are the same for all.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8

from sonde.capture.requests import RankRules, WordLookups
from sonde.languages._relations import Words
from sonde.lenses.attention.baselines import clamped
from sonde.lenses.attention.words import Edges

PICKS = 16
"""Random orders of the words that chance is the mean of; edges are many, so that few are enough."""

_ONE_WORD = 0.5


def blind_ranks(
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

    from sonde.capture.words import RowWords, WordReader

    place = np.arange(len(words.start))
    # Of words as long as each other the first one: orders without ties.
    length = words.end - words.start + 1 - _ONE_WORD * place / max(len(place), 1)
    random = np.random.default_rng(seed).random((PICKS, len(place)))
    lookups = WordLookups(place, place + 1, words.candidate, edges.ahead, edges.behind, rules)
    causal = side == "decoder"
    asked = RowWords(lookups, lookups.behind if causal else lookups.ahead, 0, 0)
    reader = WordReader(side, [asked], rules, causal, torch.device("cpu"))
    orders = torch.from_numpy(np.concatenate([length[None], random]).astype(np.float32))
    reader.read(orders[None, :, None].expand(-1, -1, reader.columns.shape[1], -1))
    (found,) = reader.results()
    assert found is not None
    return clamped(found)[:, :, 0]
