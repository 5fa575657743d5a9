"""How often a comparison finds what is not there, and how often what was planted.

Two models' losses and right answers of sixty constructs, in clusters of unequal size, skewed and alike for
both; without a difference the models are exchanged in a random half of the clusters.
"""

from __future__ import annotations

import numpy as np

from sonde.comparison.differences import Difference, compute_differences
from sonde.results.scores import Score
from sonde.stats.estimate import Contributions
from sonde.stats.intervals import Kind
from tests.calibration import Bound, Row, at_least, at_most_by_chance

DRAWS, SHORT = 200, 20

_CLUSTERS = 40
_LOSSES, _SHARES = 40, 20
_EFFECTS = (0.1, 0.25, 0.5)
"""Bits by which the second model is worse in the first construct."""


Sides = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Sums of both models by construct and cluster, and how many observations these are of."""


def run(draws: int, seed: int) -> list[Row]:
    """False findings of all kinds, then the power, last at what each family says is detectable."""
    rng = np.random.default_rng([seed, 5])
    drawn = [_drawn(rng) for _ in range(draws)]
    null = [_compared(sides) for sides in drawn]
    false = sum(any(_found(one) for one in family) for family in null)
    rows = [Row("any finding between models exchanged by cluster", draws, false, at_most_by_chance(draws))]
    for effect, least in zip(_EFFECTS, (0.0, 0.0, 0.9), strict=True):
        found = sum(_found(_compared(sides, effect)[0]) for sides in drawn)
        name = f"{effect:g} bits found among {_LOSSES + _SHARES} numbers"
        rows.append(Row(name, draws, found, at_least(least, draws)))
    found = sum(
        _found(_compared(sides, family[0].detectable)[0]) for sides, family in zip(drawn, null, strict=True)
    )
    # Four of five are promised; three errors of the count are allowed.
    slack = 3 * np.sqrt(0.16 / draws)
    bound = Bound(float(np.floor((0.8 - slack) * draws)), float(np.ceil((0.8 + slack) * draws)))
    rows.append(Row("what is said to be detectable found", draws, found, bound))
    return rows


def _found(one: Difference) -> bool:
    return one.outcome not in ("undecided", "alike")


def _drawn(rng: np.random.Generator) -> Sides:
    """Two models without a difference in any construct."""
    size = np.ceil(12 * rng.lognormal(0, 0.5, (_LOSSES + _SHARES, _CLUSTERS)))
    hard = 2 * rng.lognormal(-0.08, 0.4, (_LOSSES, _CLUSTERS))
    one, other = (hard * rng.lognormal(0, 0.1, hard.shape) for _ in range(2))
    # A cluster's sum of exponential losses, and of right answers, which both models share for the most part.
    sums = [rng.gamma(size[:_LOSSES], mean) for mean in (one, other)]
    sums[1] = 0.8 * sums[0] + 0.2 * sums[1]
    ease = np.clip(rng.normal(0.6, 0.2, (_SHARES, _CLUSTERS)), 0.05, 0.95)
    both = rng.binomial(size[_LOSSES:].astype(int), 0.8 * ease)
    right = [both + rng.binomial(size[_LOSSES:].astype(int) - both, 0.1) for _ in range(2)]
    first, second = (np.concatenate([losses, answers]) for losses, answers in zip(sums, right, strict=True))
    turned = rng.random(_CLUSTERS) < 0.5
    return np.where(turned, second, first), np.where(turned, first, second), size


def _compared(sides: Sides, planted: float = 0.0) -> list[Difference]:
    """The comparison of all constructs, the second model worse by so many bits in the first of them."""
    first, second, size = sides
    second = second.copy()
    second[0] += planted * size[0]
    return compute_differences(
        [
            (_score("a", place, base, weight), _score("b", place, own, weight), "")
            for place, (base, own, weight) in enumerate(zip(first, second, size, strict=True))
        ]
    )


def _score(model: str, place: int, sums: np.ndarray, weight: np.ndarray) -> Score:
    metric, kind, method = _LOSS if place < _LOSSES else _SHARE
    names = np.array([f"c{number}" for number in range(_CLUSTERS)], object)
    return Score(
        model=model,
        lens="lens",
        metric=metric,
        value=float(sums.sum() / weight.sum()),
        n=int(weight.sum()),
        n_clusters=_CLUSTERS,
        dimensions=(("construct", str(place)),),
        ci_method=method,
        contributions=Contributions(clusters=names, weight=weight, sums=sums.astype(float), kind=kind),
    )


_LOSS: tuple[str, Kind, str] = ("bits", "nonnegative", "clustered jackknife, log, bootstrap-t")
_SHARE: tuple[str, Kind, str] = ("accuracy", "proportion", "Korn-Graubard")
