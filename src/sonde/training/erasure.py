"""Erasing a concept from states so that no linear classifier finds it again (LEACE), and its controls.

LEACE is the closed form of Belrose et al. (2023, *LEACE: Perfect linear concept erasure in closed form*,
theorem 4.3): of all affine maps after which no linear classifier beats a constant, in any convex loss, the
one that moves the states least. A random subspace of the same rank and the same mean squared change is what
it is held against: how much a model suffers from any change of that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

Matrix = Float[np.ndarray, "d_model d_model"]

_TOLERANCE = 1e-6
"""A correlation below which it is rounding; whitened states correlate with a class by at most a half."""


@dataclass(frozen=True, slots=True, eq=False)
class Eraser:
    """A map ``x -> x - ((x - centre) @ down) @ up`` that takes a subspace to its mean.

    Attributes:
        down: To the subspace, along which nothing is told any more.
        up: Back from it.
        centre: Mean of the states.
        change: Mean squared length of what is subtracted.
    """

    down: Float[np.ndarray, "d_model rank"]
    up: Float[np.ndarray, "rank d_model"]
    centre: Float[np.ndarray, " d_model"]
    change: float

    @property
    def rank(self) -> int:
        """Dimensions that are erased; 0 where the labels tell nothing linearly."""
        return self.down.shape[1]

    def __call__(self, states: Float[np.ndarray, "*axes d_model"]) -> Float[np.ndarray, "*axes d_model"]:
        """The states without the concept."""
        return states - ((states - self.centre) @ self.down) @ self.up


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """Where states lie: their mean, and their covariance by its root and the inverse of that.

    Attributes:
        centre: Mean.
        root: Square root of the covariance.
        whitening: Its pseudo-inverse.
    """

    centre: Float[np.ndarray, " d_model"]
    root: Matrix
    whitening: Matrix

    @classmethod
    def of(
        cls,
        states: Float[np.ndarray, "example d_model"],
        weights: Float[np.ndarray, " example"] | None = None,
    ) -> Cloud:
        """The cloud of some states.

        Args:
            states: One a row.
            weights: How much each counts, None for all alike. Of a property of whole functions all subwords
                are given, each by one over the length of its function: unweighted, the means of the classes
                stay apart in the pooled states.
        """
        wide = states.astype(np.float64)
        share = _shares(len(wide), weights)
        centre = share @ wide
        moved = (wide - centre) * np.sqrt(share)[:, None]
        values, vectors = np.linalg.eigh(moved.T @ moved)
        kept = values > values[-1] * len(values) * np.finfo(np.float64).eps
        root = np.sqrt(np.where(kept, values, 0.0))
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=kept)
        return cls(centre, (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T)

    def without(self, directions: Float[np.ndarray, "d_model rank"]) -> Eraser:
        """The map that erases orthonormal directions of the whitened states."""
        back = self.root @ directions
        return Eraser(self.whitening @ directions, back.T, self.centre, float((back**2).sum()))


def leace(
    states: Float[np.ndarray, "example d_model"],
    labels: Int[np.ndarray, " example"],
    *,
    weights: Float[np.ndarray, " example"] | None = None,
    cloud: Cloud | None = None,
) -> Eraser:
    """Erase a property of states.

    Args:
        states: One a row.
        labels: Number of the class of each.
        weights: How much each counts; None for all alike.
        cloud: Where the states lie that the map is for; None for the states themselves. Means of functions
            and the cloud of their subwords, each weighted by one over the length of its function, give what
            all these subwords would.
    """
    cloud = cloud or Cloud.of(states, weights)
    share = _shares(len(states), weights)
    classes = (labels[:, None] == np.unique(labels)).astype(np.float64)
    moved = (states.astype(np.float64) - share @ states.astype(np.float64)) * share[:, None]
    across = cloud.whitening @ (moved.T @ classes)
    left, strength, _ = np.linalg.svd(across, full_matrices=False)
    # Of k classes one is told by the others: at most k - 1 correlations are more than rounding.
    told = int((strength[: classes.shape[1] - 1] > _TOLERANCE).sum())
    return cloud.without(left[:, :told])


def random_like(eraser: Eraser, cloud: Cloud, seeds: Sequence[int]) -> list[Eraser]:
    """Random maps of the same rank and the same mean squared change, which leave the property where it is.

    Random directions of the whitened states, at right angles to what is erased, are tilted along the spectrum
    of the cloud until what they take away is as large. Where even the widest directions hold less, because
    what is erased is most of what there is, more than all of them is taken away: states are mirrored.

    Args:
        eraser: What it is to be like.
        cloud: The cloud that it was made for.
        seeds: Of the directions of each map.
    """
    beside = _beside(cloud.root @ eraser.down)
    # Between what is left of the whitened states and the states themselves.
    spectrum, axes = np.linalg.eigh(beside.T @ cloud.root @ cloud.root @ beside)
    kept = spectrum > spectrum[-1] * 1e-12 if len(spectrum) else np.zeros(0, dtype=np.bool_)
    spectrum, axes = spectrum[kept], beside @ axes[:, kept]
    rank = min(eraser.rank, len(spectrum))
    if not rank or not eraser.change:
        return [cloud.without(np.zeros((len(cloud.centre), 0))) for _ in seeds]
    logs = np.log(spectrum / spectrum[-1])

    def found(seed: int) -> Eraser:
        drawn = np.random.default_rng(seed).normal(size=(len(spectrum), rank))

        def tilted(power: float) -> Float[np.ndarray, "axis rank"]:
            scale = power * logs
            return np.linalg.qr(drawn * np.exp(scale - scale.max())[:, None])[0]

        low, high = -32.0, 32.0
        for _ in range(60):
            middle = (low + high) / 2
            changed = float((spectrum[:, None] * tilted(middle) ** 2).sum())
            low, high = (middle, high) if changed < eraser.change else (low, middle)
        other = cloud.without(axes @ tilted((low + high) / 2))
        beyond = float(np.sqrt(eraser.change / other.change))
        return Eraser(other.down, other.up * beyond, other.centre, eraser.change)

    return [found(seed) for seed in seeds]


def _beside(directions: Float[np.ndarray, "d_model rank"]) -> Float[np.ndarray, "d_model other"]:
    """An orthonormal basis of what is at right angles to some directions."""
    left, strength, _ = np.linalg.svd(directions, full_matrices=True)
    return left[:, int((strength > _TOLERANCE).sum()) :]


def _shares(size: int, weights: Float[np.ndarray, " example"] | None) -> Float[np.ndarray, " example"]:
    held = np.ones(size) if weights is None else weights.astype(np.float64)
    return held / held.sum()
