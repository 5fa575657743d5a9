"""How often a gate alarms over a hundred looks without a change, and how soon it finds what was planted.

Six hundred functions in clusters of unequal size. The differences of subwords have heavy tails and the spread
that was measured between neighbouring checkpoints and after rounding weights to 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sonde.comparison.differences import compute_differences
from sonde.comparison.gate import JudgedCheckpoint, judge_checkpoint
from sonde.results.score_pairs import Direction
from sonde.results.scores import Score
from sonde.stats.estimate import Contributions
from tests.calibration import Bound, Row, at_least, at_most_by_chance

DRAWS, SHORT = 100, 20

LOOKS = 100
SHARES = np.array([0.24, 0.18, 0.14, 0.11, 0.09, 0.07, 0.06, 0.045, 0.035, 0.03])
"""Shares of the constructs among the subwords."""

NEIGHBOUR, EIGHT_BITS = 0.24, 0.08
"""Standard deviations, in bits a subword, of the differences to a neighbour and to weights of 8 bits."""

_FUNCTIONS, _SUBWORDS, _CLUSTERS = 600, 234, 120
_LOSS = 0.02
_JUMPS = 0.02
"""Share of the subwords that have a quarter of the variance: their kurtosis is 12, as was measured."""


def run(draws: int, seed: int) -> list[Row]:
    """Count false alarms of whole trainings, losses found within three looks, and small damage found."""
    alarms = count_alarms(draws, LOOKS, seed)
    rows = [Row(f"any alarm in {LOOKS} looks without change", draws, alarms, at_most_by_chance(draws))]
    for construct in range(len(SHARES) - 3, len(SHARES)):
        name = f"{_LOSS} bits in {SHARES[construct]:.1%} of the subwords named within three looks"
        rows.append(Row(name, draws, count_found(draws, construct, seed), at_least(0.95, draws)))
    for name, spread in (("8-bit weights", EIGHT_BITS), ("a neighbour", NEIGHBOUR)):
        for construct in (5, len(SHARES) - 1):
            found = sum(compare_damaged([seed, draw, construct], construct, spread) for draw in range(draws))
            subject = f"0.004 bits over all, in {SHARES[construct]:.1%}, beside {name}"
            rows.append(Row(f"{subject}: named", draws, found, at_least(0.95, draws)))
            turned = sum(
                compare_damaged([seed, draw, construct], construct, spread, turn=True)
                for draw in range(draws)
            )
            rows.append(Row(f"{subject}, signs turned: named", draws, turned, Bound(maximum=0.05 * draws)))
    return rows


def count_alarms(draws: int, looks: int, seed: int) -> int:
    """Count the trainings without a change in which any look fails."""
    trainings = (_train([seed, draw], looks) for draw in range(draws))
    return sum(any(look.verdict == "fail" for look in training) for training in trainings)


def count_found(draws: int, construct: int, seed: int) -> int:
    """Count the trainings in which one of three looks fails or warns of the damaged construct."""
    trainings = (_train([seed, draw, construct], 3, construct) for draw in range(draws))
    name = f"construct {construct}"
    return sum(
        any(row.about == name for look in training for row in look.select("fail", "warn"))
        for training in trainings
    )


def compare_damaged(seed: Sequence[int], construct: int, spread: float, *, turn: bool = False) -> bool:
    """Whether a comparison names the construct that holds all of a damage of 0.004 bits over all."""
    rng = np.random.default_rng([*seed, 1])
    weight = _draw_sizes(rng)
    base = 3.0 * weight * rng.lognormal(0, 0.2, weight.shape)
    change = _draw_noise(rng, weight, spread)
    change[construct] += 0.004 / SHARES[construct] * weight[construct]
    if turn:
        change *= rng.choice([-1.0, 1.0], _CLUSTERS)
    pairs = zip(_scores(weight, base, "base"), _scores(weight, base + change, "new"), strict=True)
    differences = compute_differences([(first, second, "lower") for first, second in pairs])
    return differences[construct].outcome == "worse"


def _train(seed: Sequence[int], looks: int, damaged: int | None = None) -> list[JudgedCheckpoint]:
    """The looks at a training whose checkpoints are neighbours, all of them damaged or none."""
    rng = np.random.default_rng(seed)
    weight = _draw_sizes(rng)
    base = 3.0 * weight * rng.lognormal(0, 0.2, weight.shape)
    # Two checkpoints differ by the noise of both.
    spread = NEIGHBOUR / np.sqrt(2)
    accepted = _scores(weight, base + _draw_noise(rng, weight, spread), "reference")
    found: list[JudgedCheckpoint] = []
    for look in range(1, looks + 1):
        sums = base + _draw_noise(rng, weight, spread)
        if damaged is not None:
            sums[damaged] += _LOSS * weight[damaged]
        scores = _scores(weight, sums, f"step {look}")
        pairs: list[tuple[Score, Score, Direction]] = [
            (old, new, "lower") for old, new in zip(accepted, scores, strict=True)
        ]
        judged = judge_checkpoint(pairs, look, LOOKS)
        found.append(judged)
        if judged.verdict == "fail":
            continue
        suspects = {score.dimensions for score in judged.suspects}
        accepted = [old if new.dimensions in suspects else new for old, new, _ in pairs]
    return found


def _draw_sizes(rng: np.random.Generator) -> np.ndarray:
    """Numbers of subwords by construct and cluster."""
    sizes = rng.lognormal(0, 0.75, _CLUSTERS)
    counts = np.maximum(np.round(sizes / sizes.sum() * _FUNCTIONS * _SUBWORDS).astype(int), 1)
    return rng.binomial(counts, SHARES[:, None]).astype(float)


def _draw_noise(rng: np.random.Generator, weight: np.ndarray, spread: float) -> np.ndarray:
    """Sums of the differences of subwords, most of them small and a few large."""
    large = rng.binomial(weight.astype(int), _JUMPS)
    variance = (weight - large) * 0.75 / (1 - _JUMPS) + large * 0.25 / _JUMPS
    return spread * np.sqrt(variance) * rng.standard_normal(weight.shape)


def _scores(weight: np.ndarray, sums: np.ndarray, model: str) -> list[Score]:
    names = np.array([f"c{number}" for number in range(weight.shape[1])], object)
    return [
        Score(
            model=model,
            lens="surprisal",
            metric="bits",
            value=float(total.sum() / size.sum()),
            n=int(size.sum()),
            n_clusters=len(names),
            dimensions=(("construct", str(construct)),),
            ci_method="clustered jackknife, log",
            contributions=Contributions(clusters=names, weight=size, sums=total, kind="nonnegative"),
        )
        for construct, (size, total) in enumerate(zip(weight, sums, strict=True))
    ]
