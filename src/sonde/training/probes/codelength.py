"""Minimum description length by online coding (Voita and Titov 2020)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from sonde.training.probes.linear import L2, probe_unchecked
from sonde.training.probes.parts import Parts

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks, as shares of the training part (their section 3.2)."""

STRONG_L2 = (100.0, 10.0)
"""Penalties beside the usual ones, for prefixes too short to say anything."""


@dataclass(frozen=True, slots=True, eq=False)
class Codelength:
    """Length of the training labels' code given the states.

    Attributes:
        bits: Of each layer.
        uniform: Bits without any model: items times log2 of the classes.
        items: Labels coded.
    """

    bits: Float[np.ndarray, " layer"]
    uniform: float
    items: int

    @property
    def compression(self) -> Float[np.ndarray, " layer"]:
        """How much shorter than the uniform code."""
        return self.uniform / self.bits


def online_codelength(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, " item"],
    classes: int,
    parts: Parts,
    *,
    seed: int = 0,
    l2: Sequence[float] = L2,
    device: torch.device | str = "cpu",
) -> Codelength:
    """Code the training labels block by block, each with probes trained on all blocks before it.

    The first block is coded uniformly. The penalty of each prefix is the one with the least cross-entropy on
    validation, and probabilities are smoothed by one item a class (Laplace), so that a code that has seen
    few items stays finite for the classes that it has not.
    """
    order = np.random.default_rng(seed).permutation(parts.train)
    ends = sorted({max(1, round(share * len(order))) for share in SHARES})
    nats = np.full(len(states), ends[0] * np.log(classes))
    for before, end in itertools.pairwise(ends):
        block = Parts(order[:before], parts.valid, order[before:end])
        (found,) = probe_unchecked(
            states, labels[None], classes, block, l2=(*STRONG_L2, *l2), by_nats=True, device=device
        )
        gold = labels[block.test][None, :, None]
        chance = np.exp(np.take_along_axis(found.log_chance.astype(np.float64), gold, axis=2)[..., 0])
        nats -= np.log((before * chance + 1.0) / (before + classes)).sum(axis=1)
    return Codelength(nats / np.log(2), len(order) * float(np.log2(classes)), len(order))
