"""Request for how far a model is from another one that reads the same subwords, without torch.

The answer has a row per subword. `sonde.capture.reference` computes it: the other model reads each batch
beside the model, and no logits leave the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Float, Int

from sonde.base.errors import InputError
from sonde.capture.requests import InputRequest
from sonde.models import ModelSpec


@dataclass(frozen=True, slots=True)
class Fidelity(InputRequest):
    """Divergence from a base model at each subword, from what stands before it.

    Attributes:
        base: What is loaded beside the model; both have one vocabulary.
    """

    answer = "fidelity"
    reducer = "sonde.capture.reference:ReferenceReducer"
    traits = frozenset({"scores"})

    base: ModelSpec

    def for_item(self, item: str) -> Self:
        """Return the request, which is the same of every item."""
        return self

    def merge(self, other: Self) -> Self:
        """Return the request; one model is read beside another.

        Raises:
            InputError: The bases differ.
        """
        if other.base != self.base:
            raise InputError(
                f"a model is compared with one base at a time, not with {self.base.name!r} and "
                f"{other.base.name!r}"
            )
        return self


@dataclass(frozen=True, slots=True, eq=False)
class ComparedSubwords:
    """Answer to `Fidelity`, one row per subword; NaN and -1 where the subword was not scored.

    Attributes:
        kl: Kullback-Leibler divergence of the model from the base, KL(base ‖ model), in nats.
        kl_reverse: KL(model ‖ base), in nats.
        nats: Negative natural log-probability of the subword for the model.
        base_nats: The same for the base.
        choice: Id that the model finds likeliest.
        base_choice: Id that the base finds likeliest.
        scored: Whether the row holds numbers.
    """

    kl: Float[np.ndarray, " subword"]
    kl_reverse: Float[np.ndarray, " subword"]
    nats: Float[np.ndarray, " subword"]
    base_nats: Float[np.ndarray, " subword"]
    choice: Int[np.ndarray, " subword"]
    base_choice: Int[np.ndarray, " subword"]
    scored: Bool[np.ndarray, " subword"]

    @classmethod
    def empty(cls, subwords: int) -> ComparedSubwords:
        """Build rows that hold no number yet."""
        numbers = (np.full(subwords, np.nan, np.float32) for _ in range(4))
        ids = (np.full(subwords, -1, np.int32) for _ in range(2))
        return cls(*numbers, *ids, scored=np.zeros(subwords, np.bool_))
