"""What may be asked of single layers through the head, and what comes back. Plain data: no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True, slots=True)
class LayerScores:
    """Score of the right subword read off every layer: its state, the model's own final norm, and its head.

    The logit lens (nostalgebraist 2020). Only what `TokenScores` would score is: of a decoder what something
    stands before, of a masked input the masked subwords.

    Attributes:
        positions: For each item id, the subword positions that are scored.
        against: For each item id and some of its positions, an id that could stand there in the place of the
            right one: what the two differ by is wanted as well.
        states: Whether the states that are read are wanted as well.
    """

    positions: Mapping[str, tuple[int, ...]]
    against: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    states: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ScoredLayers:
    """Answer to `LayerScores`: layer 0 reads the embeddings, the last one is the model's own prediction.

    Attributes:
        position: The subwords, ascending.
        other: The id that each is held against, -1 for none.
        nats: Negative log-probability of the subword.
        rank: Its rank, 1 is the best; near-ties count against it.
        top_id: The id that the layer finds likeliest.
        margin: Logit of the right subword less that of the other one; NaN where no other was named.
        states: The states that were read, before the model's final norm but for the last layer's, which are
            what the head is given; None where they were not asked for.
    """

    position: Int[np.ndarray, " position"]
    other: Int[np.ndarray, " position"]
    nats: Float[np.ndarray, "layer position"]
    rank: Int[np.ndarray, "layer position"]
    top_id: Int[np.ndarray, "layer position"]
    margin: Float[np.ndarray, "layer position"]
    states: Float[np.ndarray, "layer position d_model"] | None = None
