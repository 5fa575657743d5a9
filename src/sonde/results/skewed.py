"""By how much skew makes the interval of a mean wider than Student's t, on either side: the bootstrap-t.

The mean of skewed losses over unequal clusters and its error go together: samples that lack the large values
have a small mean and a small error, so that Student's t misses nearly always on one side. Clusters are drawn
with return, each draw is studentised by its own error, and the quantiles of the draws are held against
Student's with as many degrees of freedom as the draws have clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from sonde.results.intervals import LEVEL, Bounds, Column, Kind

SKEWED: frozenset[Kind] = frozenset(("real", "nonnegative"))
"""Kinds whose intervals are made wider: means of what has no bounds."""

BOOTSTRAP_T = ", bootstrap-t"
"""What the name of a method says of it."""

_DRAWS = 999
_LOWEST = round((1 - LEVEL) / 2 * (_DRAWS + 1)) - 1
_HIGHEST = _DRAWS - 1 - _LOWEST

_CELLS = 1_000_000
"""Counts of draws that are held at once; where all fit, they are kept for the next groups."""

_AT_ONCE = 1000
"""Groups whose draws are held at once, likewise."""

_NO_SPREAD = 1e-9
"""Share of its sum of squares below which the variance of a draw is rounding."""

_DECIMALS = 6
"""Digits behind the point of a factor: which other groups are worked on beside it changes the last bits."""


def widening(
    group: Int[np.ndarray, " row"], raised: Float[np.ndarray, " row"], value: Column, kind: Kind
) -> Bounds:
    """Factors of Student's half-widths below and above, at least 1.

    The draws depend on the number of clusters alone and are laid on them by what they do, in order, so that
    neither their order nor their names matter; a difference turned round has its interval turned round.

    Args:
        group: Group of each cluster, from 0; clusters without observations are left out.
        raised: By how much each cluster raises the number of its group: that with it less that without it.
        value: The number of each group.
        kind: ``nonnegative``: on the log scale; ``real``: as it is; of other kinds the factors are 1.
    """
    if kind not in SKEWED:
        return Bounds(np.ones(len(value)), np.ones(len(value)))
    log = kind == "nonnegative"
    factors = np.ones((2, len(value)))
    sizes = np.bincount(group, minlength=len(value))
    ordered = raised[np.argsort(group, kind="stable")]
    starts = np.cumsum(sizes) - sizes
    # Where one cluster holds all of the weight, nothing is left without it.
    known = np.isfinite(np.bincount(group, np.abs(raised), minlength=len(value)))
    usable = np.flatnonzero(known & (sizes > 2) & ((value > 0) | (not log)))
    usable = usable[np.argsort(sizes[usable], kind="stable")]
    for first in range(0, len(usable), _AT_ONCE):
        chosen = usable[first : first + _AT_ONCE]
        largest = int(sizes[chosen[-1]])
        memory = np.empty(min(_DRAWS * largest, max(_CELLS, largest)))
        sums, turned = np.empty((2, len(chosen), _DRAWS)), np.empty(len(chosen))
        own, begins = np.unique(sizes[chosen], return_index=True)
        for size, part in zip(own.tolist(), np.split(np.arange(len(chosen)), begins[1:]), strict=True):
            rows = ordered[starts[chosen[part]][:, None] + np.arange(size)]
            rows, turned[part] = _laid_out(rows, value[chosen[part]] if log else None)
            for draws, counts in _counts(size):
                # Into memory that is there already: new memory for each number of clusters takes longest.
                often = memory[: counts.size].reshape(counts.shape)
                np.copyto(often, counts)
                sums[0, part, draws], sums[1, part, draws] = rows @ often, rows**2 @ often
        drawn = _studentised(sums[0], sums[1], sizes[chosen], log=log)
        drawn.sort(axis=1)  # Faster than `partition` at two places.
        ends = np.stack([drawn[:, _HIGHEST], -drawn[:, _LOWEST]]) / stdtrit(
            sizes[chosen] - 1, 0.5 + LEVEL / 2
        )
        ends = np.where(turned < 0, ends[::-1], np.where(turned == 0, ends.max(axis=0), ends))
        factors[:, chosen] = np.maximum(ends, 1.0)
    return Bounds(*factors.round(_DECIMALS))


def _laid_out(
    rows: Float[np.ndarray, "group cluster"], values: Column | None
) -> tuple[Float[np.ndarray, "group cluster"], Column]:
    """Rows around 0 in units of their value, or else of their spread, and the sign that each was turned by.

    Without a value the longer tail is turned upwards; the sign is 0 where neither is longer.
    """
    rows = rows - rows.mean(axis=1, keepdims=True)
    scale = np.sqrt((rows**2).sum(axis=1)) if values is None else values
    rows /= np.where(scale > 0, scale, 1.0)[:, None]
    turned = np.ones(len(rows))
    if values is None:
        skew = (rows**3).sum(axis=1)
        turned = np.where(np.abs(skew) > _NO_SPREAD, np.sign(skew), 0.0)
        rows *= np.where(turned < 0, -1.0, 1.0)[:, None]
    return np.sort(rows, axis=1), turned


def _studentised(
    total: Float[np.ndarray, "group draw"],
    squares: Float[np.ndarray, "group draw"],
    sizes: Int[np.ndarray, " group"],
    *,
    log: bool,
) -> Float[np.ndarray, "group draw"]:
    """How many of its own errors each draw lies from the estimate; 0 where it shows no spread."""
    size = sizes[:, None]
    variance = (squares - total**2 / size) * (size / (size - 1))
    variance[variance <= _NO_SPREAD * squares] = np.inf
    if log:
        # A draw without the losses of the largest cluster can have none left.
        left = np.maximum(1 + total, _NO_SPREAD)
        total = np.log(left) * left
    return total / np.sqrt(variance)


def _counts(size: int) -> Iterator[tuple[slice, Int[np.ndarray, "cluster draw"]]]:
    """How often each draw holds each cluster, in parts that fit into memory."""
    if size * _DRAWS <= _CELLS:
        yield slice(_DRAWS), _kept(size)
        return
    rng = np.random.default_rng(size)
    for start in range(0, _DRAWS, step := max(_CELLS // size, 1)):
        draws = slice(start, min(start + step, _DRAWS))
        yield draws, _drawn(size, draws.stop - start, rng)


@lru_cache(maxsize=256)
def _kept(size: int) -> Int[np.ndarray, "cluster draw"]:
    # No draw holds a cluster so often that a byte is too small.
    return _drawn(size, _DRAWS, np.random.default_rng(size)).astype(np.uint8)


def _drawn(size: int, draws: int, rng: np.random.Generator) -> Int[np.ndarray, "cluster draw"]:
    chosen = rng.integers(size, size=(size, draws)) * draws + np.arange(draws)
    return np.bincount(chosen.ravel(), minlength=size * draws).reshape(size, draws)
