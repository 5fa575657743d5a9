"""Erasing a concept from states so that no linear classifier finds it again (LEACE), and its controls.

LEACE is the closed form of Belrose et al. (2023, *LEACE: Perfect linear concept erasure in closed form*,
theorem 4.3): of all affine maps after which no linear classifier beats a constant, in any convex loss, the
one that moves the states least. It is compared with projections of as many directions, drawn uniformly, and
drawn so that they move states as far (*matched*): how much a model suffers from any change of that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

Matrix = Float[np.ndarray, "d_model d_model"]

_TOLERANCE = 1e-6
"""A correlation below which it is rounding; whitened states correlate with a class by at most a half."""

_FAR = 1e3
"""Largest eigenvalues below zero at which a threshold no longer tells axes apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Eraser:
    """A map ``x -> x - ((x - centre) @ down) @ up`` that takes a subspace to its mean.

    Attributes:
        down: To the subspace, along which nothing is told any more.
        up: Back from it.
        centre: Mean of the states.
    """

    down: Float[np.ndarray, "d_model rank"]
    up: Float[np.ndarray, "rank d_model"]
    centre: Float[np.ndarray, " d_model"]

    @property
    def rank(self) -> int:
        """Return the number of erased dimensions; 0 where the labels tell nothing linearly."""
        return self.down.shape[1]

    def __call__(self, states: Float[np.ndarray, "*axes d_model"]) -> Float[np.ndarray, "*axes d_model"]:
        """Remove the concept from states."""
        return states - ((states - self.centre) @ self.down) @ self.up


@dataclass(frozen=True, slots=True, eq=False)
class StateDistribution:
    """Distribution of states: their mean, and their covariance by its root and the inverse.

    Attributes:
        centre: Mean.
        root: Square root of the covariance.
        whitening: Its pseudo-inverse.
    """

    centre: Float[np.ndarray, " d_model"]
    root: Matrix
    whitening: Matrix

    @classmethod
    def from_states(
        cls,
        states: Float[np.ndarray, "example d_model"],
        weights: Float[np.ndarray, " example"] | None = None,
    ) -> StateDistribution:
        """Estimate the distribution of some states.

        Args:
            states: One a row.
            weights: How much each counts, None for all alike. Of a property of whole functions all subwords
                are given, each by one over the length of its function: unweighted, the means of the classes
                stay apart in the pooled states.
        """
        rows = states.astype(np.float64)
        share = _normalise_weights(len(rows), weights)
        centre = share @ rows
        deviations = (rows - centre) * np.sqrt(share)[:, None]
        values, vectors = np.linalg.eigh(deviations.T @ deviations)
        is_nonzero = values > values[-1] * len(values) * np.finfo(np.float64).eps
        root = np.sqrt(np.where(is_nonzero, values, 0.0))
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=is_nonzero)
        return cls(centre, (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T)

    def erase(self, directions: Float[np.ndarray, "d_model rank"]) -> Eraser:
        """Build the map that erases orthonormal directions of the whitened states."""
        return Eraser(self.whitening @ directions, (self.root @ directions).T, self.centre)


def leace(
    states: Float[np.ndarray, "example d_model"],
    labels: Int[np.ndarray, " example"] | Float[np.ndarray, "example feature"],
    *,
    weights: Float[np.ndarray, " example"] | None = None,
    cloud: StateDistribution | None = None,
) -> Eraser:
    """Erase a property of states.

    Args:
        states: One a row.
        labels: Number of the class of each; or numbers to be erased together, a column each.
        weights: How much each counts; None for all alike.
        cloud: Where the states lie that the map is for; None for the states themselves. Means of functions
            and the cloud of their subwords, each weighted by one over the length of its function, give what
            all these subwords would.
    """
    cloud = cloud or StateDistribution.from_states(states, weights)
    share = _normalise_weights(len(states), weights)
    targets = encode_one_hot(labels) if labels.ndim == 1 else _standardise(labels.astype(np.float64), share)
    deviations = (states.astype(np.float64) - share @ states.astype(np.float64)) * share[:, None]
    left, strength, _ = np.linalg.svd(cloud.whitening @ (deviations.T @ targets), full_matrices=False)
    # Of k classes one is told by the others: at most k - 1 correlations are more than rounding.
    maximum = targets.shape[1] - (labels.ndim == 1)
    return cloud.erase(left[:, : int((strength[:maximum] > _TOLERANCE).sum())])


def encode_one_hot(labels: Int[np.ndarray, " example"]) -> Float[np.ndarray, "example label"]:
    """Encode labels with a column per class: 1 where an example has it, else 0."""
    return (labels[:, None] == np.unique(labels)).astype(np.float64)


def uniform_subspaces(eraser: Eraser, seeds: Sequence[int]) -> list[Eraser]:
    """Sample orthogonal projections of as many directions uniformly.

    Args:
        eraser: Whose rank and centre they have.
        seeds: Of the directions of each.
    """
    width = len(eraser.centre)
    return [
        _build_projection(np.linalg.qr(_sample_normal(seed, width, eraser.rank))[0], eraser.centre)
        for seed in seeds
    ]


def compute_second_moment(
    states: Float[np.ndarray, "example d_model"],
    centre: Float[np.ndarray, " d_model"],
    weights: Float[np.ndarray, " example"] | None = None,
) -> Matrix:
    """Compute the second moment of states around a centre that need not be their mean.

    Args:
        states: One a row.
        centre: The place.
        weights: How much each counts; None for all alike.
    """
    deviations = states.astype(np.float64) - centre
    return (deviations * _normalise_weights(len(deviations), weights)[:, None]).T @ deviations


def mean_squared_change(eraser: Eraser, moment: Matrix) -> float:
    """Compute the mean squared length of what a map subtracts, given the second moment."""
    return float(np.trace((eraser.down.T @ moment @ eraser.down) @ (eraser.up @ eraser.up.T)))


def equal_change_subspaces(eraser: Eraser, moment: Matrix, seeds: Sequence[int]) -> list[Eraser]:
    """Sample orthogonal projections that move states as far, and let class means stay.

    Within what is at right angles to all that the eraser puts back, coefficients of the principal axes are
    drawn from a Gaussian whose variance along an axis is its eigenvalue less a threshold, 0 below it. The
    threshold is sought, for each draw, until the mean squared change is the eraser's: directions are no wider
    than they have to be, and so as different from draw to draw as they can be. Where even the widest
    directions hold less than the eraser takes, they are what is taken.

    Args:
        eraser: What they are to be like.
        moment: Second moment, about the eraser's centre, of the states that are going to be changed.
        seeds: Of each draw.
    """
    complement = _orthogonal_complement(eraser.up.T)
    spectrum, axes = np.linalg.eigh(complement.T @ moment @ complement)
    rank, target_change = min(eraser.rank, len(spectrum)), mean_squared_change(eraser, moment)

    def find_subspace(seed: int) -> Eraser:
        coefficients = _sample_normal(seed, len(spectrum), rank)

        def directions(threshold: float) -> Float[np.ndarray, "axis rank"]:
            return np.linalg.qr(coefficients * np.sqrt(np.maximum(spectrum - threshold, 0.0))[:, None])[0]

        # From directions drawn uniformly to the widest ones alone.
        low, high = -_FAR * spectrum[-1], spectrum[-rank] * (1 - _TOLERANCE)
        for _ in range(60):
            middle = (low + high) / 2
            change = float((spectrum[:, None] * directions(middle) ** 2).sum())
            low, high = (middle, high) if change < target_change else (low, middle)
        return _build_projection(complement @ axes @ directions((low + high) / 2), eraser.centre)

    if not rank:
        return uniform_subspaces(eraser, seeds)
    return [find_subspace(seed) for seed in seeds]


def subspace_overlap(projections: Sequence[Eraser]) -> float:
    """Compute the mean squared canonical correlation of pairs of subspaces; 0 for fewer than two."""
    rank = min((first.rank for first in projections), default=0)
    correlations = [
        ((first.up @ second.down) ** 2).sum() / rank for first, second in combinations(projections, 2) if rank
    ]
    return float(np.mean(correlations)) if correlations else 0.0


def _build_projection(directions: Float[np.ndarray, "d_model rank"], centre: np.ndarray) -> Eraser:
    return Eraser(directions, directions.T, centre)


def _sample_normal(seed: int, width: int, rank: int) -> Float[np.ndarray, "width rank"]:
    return np.random.default_rng(seed).normal(size=(width, rank))


def _standardise(
    values: Float[np.ndarray, "example feature"], share: Float[np.ndarray, " example"]
) -> Float[np.ndarray, "example feature"]:
    """Scale columns to variance one, so that a small correlation is rounding in any unit."""
    deviation = np.sqrt(share @ (values - share @ values) ** 2)
    return values[:, deviation > 0] / deviation[deviation > 0]


def _orthogonal_complement(
    directions: Float[np.ndarray, "d_model rank"],
) -> Float[np.ndarray, "d_model other"]:
    """Return an orthonormal basis of the complement of some directions."""
    left, strength, _ = np.linalg.svd(directions, full_matrices=True)
    return left[:, int((strength > _TOLERANCE).sum()) :]


def _normalise_weights(
    size: int, weights: Float[np.ndarray, " example"] | None
) -> Float[np.ndarray, " example"]:
    counts = np.ones(size) if weights is None else weights.astype(np.float64)
    return counts / counts.sum()
