"""Whether two numbers go together over models: a rank correlation whose interval is over lineages.

Checkpoints of one training, and one model with other weights for the same, say much the same: what is drawn
is a lineage with all that belongs to it. Fewer than eight lineages allow no verdict (specification of
inference, section 8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

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
    """

    value: float
    low: float
    high: float
    models: int
    lineages: int
    why: str


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
    members = [np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())]
    value = float(spearman(one[None], two[None])[0]) if len(one) >= FEWEST else float("nan")
    low = high = float("nan")
    # Of few lineages a draw holds one or two: what it gives is no interval.
    if np.isfinite(value) and len(members) >= ENOUGH_LINEAGES:
        rng = np.random.default_rng(seed)
        drawn = _drawn(one, two, members, rng.integers(len(members), size=(_DRAWS, len(members))))
        out = (1 - _LEVEL) / 2 / among
        low, high = (float(end) for end in np.nanquantile(drawn, [out, 1 - out]))
    few = f"{len(members)} lineages of models, {ENOUGH_LINEAGES} are needed"
    why = few if len(members) < ENOUGH_LINEAGES else "" if np.isfinite(value) else "one number does not vary"
    return Correlation(value=value, low=low, high=high, models=len(one), lineages=len(members), why=why)


def _drawn(
    one: Float[np.ndarray, " model"],
    two: Float[np.ndarray, " model"],
    members: Sequence[Int[np.ndarray, " member"]],
    draws: Int[np.ndarray, "draw lineage"],
) -> Float[np.ndarray, " draw"]:
    """The correlation of each draw; NaN where a side does not vary in it."""
    taken = [np.concatenate([members[place] for place in draw]) for draw in draws]
    found: list[Float[np.ndarray, " draw"]] = []
    # Lineages may have different numbers of models: draws of as many are computed together.
    for size in sorted({len(some) for some in taken}):
        same = np.stack([some for some in taken if len(some) == size])
        a, b = (rankdata(values[same], axis=1) for values in (one, two))
        a, b = (ranked - ranked.mean(1, keepdims=True) for ranked in (a, b))
        with np.errstate(invalid="ignore"):
            found.append((a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)))
    return np.concatenate(found)
