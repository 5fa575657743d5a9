"""Statistics without derivatives: their error from clusters that are drawn with return."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from sonde.results.clusters import kish
from sonde.results.estimate import SCALES, Estimates, Statistic
from sonde.results.intervals import Bounds, Kind, student, student_on_scale, to_scale, two_sided_p

BOOTSTRAP = "clustered bootstrap"

_NEARLY_ONE = 1 - 1e-9


def bootstrap(
    statistic: Statistic,
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    rng: np.random.Generator,
    kind: Kind,
    *,
    replicates: int = 200,
    block: int = 25,
) -> Estimates:
    """A statistic without derivatives (ranks, absolute values), by drawing clusters with return.

    The draws give a standard error on the scale of the kind, widened by G / (G - 1); the interval is centred
    at the estimate with Student's t, since the draws of such statistics are biased (a token missing from a
    draw leaves its rank to others).

    Args:
        statistic: From rows of totals to one number a row.
        sums: Each cluster's part of the totals.
        weight: Size of each cluster, for the effective number.
        rng: Source of the draws.
        kind: What the number is.
        replicates: Number of draws.
        block: Draws evaluated at once, which bounds memory.

    Returns:
        One group.
    """
    held = np.flatnonzero(weight > 0)
    kept, size = sums[held], len(held)
    value = statistic(_times(np.ones((1, size)), kept))
    df, on_scale = np.array([kish(weight) - 1]), kind == "correlation"
    error = nothing = np.full(1, np.nan)
    bounds, p_value = Bounds(nothing, nothing), nothing
    if size > 1:
        draws = np.concatenate(
            [
                statistic(_times(rng.multinomial(size, np.full(size, 1 / size), size=count), kept))
                for count in _blocks(replicates, block)
            ]
        )
        drawn = to_scale(np.clip(draws, -_NEARLY_ONE, _NEARLY_ONE), kind) if on_scale else draws
        error = np.nanstd(drawn, ddof=1, keepdims=True) * np.sqrt(size / (size - 1))
        bounds = student_on_scale(value, error, df, kind) if on_scale else student(value, error, df, kind)
    if on_scale:
        error = error * (1 - value**2)
        p_value = two_sided_p(value, error, df, kind)
    return Estimates(
        value=value,
        low=bounds.low,
        high=bounds.high,
        n_clusters=np.array([size]),
        effective=df + 1,
        n_eff=nothing,
        df=df,
        error=error,
        p_value=p_value,
        wider=Bounds(np.ones(1), np.ones(1)),
        method=BOOTSTRAP + SCALES.get(kind, ""),
    )


def _blocks(replicates: int, block: int) -> list[int]:
    return [min(block, replicates - start) for start in range(0, replicates, block)]


def _times(
    counts: Float[np.ndarray, "replicate cluster"] | Int[np.ndarray, "replicate cluster"],
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
) -> Float[np.ndarray, "replicate total"]:
    return np.asarray(counts.astype(np.float64) @ sums, dtype=np.float64)
