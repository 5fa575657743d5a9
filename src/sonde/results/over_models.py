"""Whether two numbers go together over models: a rank correlation whose interval is over lineages.

Checkpoints of one training, and one model with other weights for the same, say much the same: what is drawn
is a lineage with all that belongs to it. Fewer than eight lineages allow no verdict: too few are in a draw.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

from sonde.results.detectable import POWER
from sonde.results.metrics import spearman

FEWEST = 3
"""Models below which there is no correlation."""

ENOUGH_LINEAGES = 8

_DRAWS = 4000
_LEVEL = 0.95

_CHECKPOINT = re.compile(r"(/series)?[/_-]step-?\d+$|/model$|-(int8|random)$")


def lineage_of(model: str) -> str:
    """The training that a model is from, as far as its name says.

    >>> lineage_of("runs/small/series/step64"), lineage_of("runs/small/model")
    ('runs/small', 'runs/small')
    >>> lineage_of("org/m?quantise=8bit"), lineage_of("EleutherAI/pythia-70m@step1000")
    ('org/m', 'EleutherAI/pythia-70m')
    """
    return _CHECKPOINT.sub("", re.split(r"[?@]", model, maxsplit=1)[0].rstrip("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """How far two numbers rank models alike.

    Attributes:
        value: Spearman's rank correlation; NaN where one of them does not vary.
        low: Lower end of its 95 % interval; NaN where too few lineages allow none.
        high: Upper end.
        models: Models that have both numbers.
        lineages: Lineages that these are of.
        why: Why it allows no verdict; empty where it allows one.
        detectable: The correlation that four of five such samples of lineages would have shown.
    """

    value: float
    low: float
    high: float
    models: int
    lineages: int
    why: str
    detectable: float = math.nan


def rank_correlation(
    first: Float[np.ndarray, " model"],
    second: Float[np.ndarray, " model"],
    lineages: Sequence[str],
    *,
    seed: int = 0,
    among: int = 1,
) -> Correlation:
    """Spearman's correlation over models, with percentiles of a bootstrap that draws lineages.

    Args:
        first: A number of each model; NaN where a model has none.
        second: The other.
        lineages: The lineage of each model.
        seed: Of the draws.
        among: Correlations that are looked at together: the interval is widened so that all of them hold at
            once (Bonferroni).
    """
    both = np.isfinite(first) & np.isfinite(second)
    names = np.asarray(lineages)[both]
    one, two = first[both], second[both]
    members, places = np.unique(names, return_inverse=True)
    value = float(spearman(one[None], two[None])[0]) if len(one) >= FEWEST else float("nan")
    low = high = float("nan")
    # Of few lineages a draw holds one or two: what it gives is no interval.
    if np.isfinite(value) and len(members) >= ENOUGH_LINEAGES:
        rng = np.random.default_rng(seed)
        chosen = rng.integers(len(members), size=(_DRAWS, len(members)))
        often = (chosen[:, :, None] == np.arange(len(members))).sum(1)
        drawn = _drawn(one, two, often[:, places])
        out = (1 - _LEVEL) / 2 / among
        low, high = (float(end) for end in np.nanquantile(drawn, [out, 1 - out]))
    few = f"{len(members)} lineage{'s' * (len(members) != 1)} of models, {ENOUGH_LINEAGES} are needed"
    why = few if len(members) < ENOUGH_LINEAGES else "" if np.isfinite(value) else "one number does not vary"
    return Correlation(
        value=value,
        low=low,
        high=high,
        models=len(one),
        lineages=len(members),
        why=why,
        detectable=_detectable(len(members), among),
    )


def _detectable(lineages: int, among: int) -> float:
    """Return the rank correlation that is found in four of five samples (Bonett and Wright 2000, of 0)."""
    if lineages < ENOUGH_LINEAGES:
        return math.nan
    wanted = ndtri(1 - (1 - _LEVEL) / 2 / among) + ndtri(POWER)
    # That of a rank correlation of about 0.5 in Fisher's z: variance (1 + r^2 / 2) / (n - 3).
    return math.tanh(float(wanted) * math.sqrt(1.125 / (lineages - 3)))


def _drawn(
    one: Float[np.ndarray, " model"],
    two: Float[np.ndarray, " model"],
    times: Int[np.ndarray, "draw model"],
) -> Float[np.ndarray, " draw"]:
    """The correlation of each draw, from how often it holds each model; NaN where a side does not vary."""
    weights = times.astype(np.float64)
    first, second = (_ranked(values, weights) for values in (one, two))
    with np.errstate(invalid="ignore"):
        scale = np.sqrt((weights * first**2).sum(1) * (weights * second**2).sum(1))
        return (weights * first * second).sum(1) / scale


def _ranked(
    values: Float[np.ndarray, " model"], weights: Float[np.ndarray, "draw model"]
) -> Float[np.ndarray, "draw model"]:
    """The mean rank of each model in each draw, less the mean over the draw."""
    below = (values[:, None] < values).astype(np.float64)
    level = (values[:, None] == values).astype(np.float64)
    ranked = weights @ below + (weights @ level + 1) / 2
    return ranked - (weights * ranked).sum(1, keepdims=True) / weights.sum(1, keepdims=True)
