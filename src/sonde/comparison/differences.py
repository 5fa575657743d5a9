"""Paired differences between the scores of two models over the same clusters, all tested together.

Pure arithmetic over scores that know what each cluster contributes (`sonde.stats.estimate`); which
scores answer the same question is decided in `sonde.results.pairing`. Formulas: paired differences by
leaving out one cluster of both sides at once, on Fisher's scale where the numbers are bounded; false
discovery rate by Benjamini and Hochberg over everything that is compared.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import polars as pl

from sonde.results.pairing import IDENTITY, Direction, merge_same_numbers
from sonde.results.schema import Columns, Dimensions, named, schema_of
from sonde.results.scores import SCORES_COLUMNS, Score
from sonde.stats.estimate import (
    JACKKNIFE,
    LEAST_ICC,
    ClusterSums,
    Contributions,
    Estimates,
    differences,
    estimated,
    jackknife_variance,
    kish,
)
from sonde.stats.intervals import DIFFERENCE_OF, Bounds, Column, Kind, two_sided_p, widening
from sonde.stats.power import detectable, level_asked
from sonde.stats.resampling import with_noise
from sonde.stats.verdict import Amount, amount, least_size, why_no_verdict

FALSE_DISCOVERIES = 0.05
"""Share of the findings of a comparison that may be false, on average."""


_PRECISION = 1e-5
"""Forward passes of one model agree to this over batches and machines, so less is no difference of models."""


_TOO_NEAR = "less than another batch or machine would change"


_ROUNDING = 1e-9
"""Below this, sums are those of whole observations."""


Outcome = Literal["better", "worse", Amount]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference between a model's score and that of the base.

    Attributes:
        base: Score of the base model.
        score: Score of the model.
        direction: Which values are better.
        value: ``score`` less ``base``.
        low: Lower end of the 95 % interval; NaN where none is known, as the others.
        high: Upper end.
        method: Method of the interval.
        n_clusters: Number of clusters that either side has.
        effective: Effective clusters.
        df: Degrees of freedom.
        p_value: P-value of no difference, by the test that the interval inverts.
        p_adjusted: The same among all that were compared (Benjamini and Hochberg 1995).
        effect: Cohen's h of two proportions; NaN for other numbers, whose difference is in their unit.
        error: Standard error.
        width_factor: Largest factor of it that a test uses, see `sonde.stats.intervals`: for either sign,
            since nobody knows which a difference would have had.
        minimum_effect: Smallest difference that matters, see `sonde.stats.verdict`.
        detectable: The difference that would have been found in four of five such comparisons, at the level
            that Benjamini and Hochberg ask for among all that were compared.
        why: Reason why there is no verdict; empty if one is allowed.
        other_names: Further dimensions of the same number; it is tested once.
    """

    base: Score
    score: Score
    better: Direction
    value: float
    low: float
    high: float
    method: str
    n_clusters: int
    effective: float
    df: float
    p_value: float
    p_adjusted: float = math.nan
    effect: float
    error: float
    wider: float
    least: float
    detectable: float = math.nan
    why: str
    other_names: tuple[Dimensions, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Return the outcome; ``undecided`` does not mean equality, see `detectable_difference`."""
        if self.why:
            return "undecided"
        sure = self.p_adjusted < FALSE_DISCOVERIES
        found = amount(self.value, self.low, self.high, self.least, sure=sure)
        if not self.better or found not in ("higher", "lower"):
            return found
        return "better" if found == self.better else "worse"


def compared(
    pairs: Sequence[tuple[Score, Score, Direction]], least: Mapping[str, float] = MappingProxyType({})
) -> list[Difference]:
    """Compute the differences of pairs of scores, with p-values adjusted over all possible findings.

    One number under several names is tested once, see `sonde.results.pairing.merge_identical_pairs`.

    What may be no finding (too few clusters or seeds) is tested with no other: it is shown, and its adjusted
    value is unknown.

    Args:
        pairs: Score of the base, score of the model, and which values are better. Both have contributions of
            clusters, and are of one kind.
        minimum_effects: Smallest difference that matters, by metric; the default is in
            `sonde.stats.verdict.minimum_effect`.
    """
    once = merge_same_numbers(pairs)
    pairs = [pair for pair, _ in once]
    alike: dict[tuple[Kind, bool], list[int]] = {}
    for place, (base, score, _) in enumerate(pairs):
        ratio = _of(base).sums is not None and _of(score).sums is not None
        alike.setdefault((_of(base).kind, ratio), []).append(place)
    found: dict[int, Difference] = {}
    for (kind, ratio), places in alike.items():
        bases, scores = [pairs[place][0] for place in places], [pairs[place][1] for place in places]
        estimates = _of_ratios(bases, scores, kind) if ratio else _of_statistics(bases, scores, kind)
        for row, place in enumerate(places):
            found[place] = _difference(*pairs[place], estimates, row, least)
    return adjusted(
        [
            dataclasses.replace(found[place], other_names=other_names)
            for place, (_, other_names) in enumerate(once)
        ]
    )


def adjusted(differences: Sequence[Difference]) -> list[Difference]:
    """Adjust p-values over the differences that may be findings, and set the detectable differences."""
    places = [place for place, one in enumerate(differences) if not one.why and math.isfinite(one.p_value)]
    values: dict[int, float] = {}
    if places:
        # Imported here: it takes most of a second, and most runs compare nothing.
        from scipy.stats import false_discovery_control

        held = false_discovery_control([differences[place].p_value for place in places])
        values = dict(zip(places, held.tolist(), strict=True))
    level = level_asked(len(values), sum(value < FALSE_DISCOVERIES for value in values.values()))
    return [
        dataclasses.replace(
            one,
            p_adjusted=values.get(place, math.nan),
            detectable=detectable(one.error, one.df, level, one.wider),
        )
        for place, one in enumerate(differences)
    ]


def _of(score: Score) -> Contributions:
    assert score.contributions is not None
    return score.contributions


def _of_ratios(bases: Sequence[Score], scores: Sequence[Score], kind: Kind) -> Estimates:
    """Estimate differences of ratios of sums, paired by cluster."""
    names = np.unique(np.concatenate([_of(one).clusters.astype(str) for one in (*bases, *scores)]))
    own, base = (_stacked([_of(one) for one in side], names) for side in (scores, bases))
    discordant = _least_discordant(own, base) if (difference := DIFFERENCE_OF[kind]) == "difference" else None
    found = differences(own, base, difference, discordant=discordant)
    noise = [_of(one).noise + _of(two).noise for one, two in zip(bases, scores, strict=True)]
    size = {"n": own.total(own.w), "mean_size": own.mean_size, "icc": np.full(len(bases), LEAST_ICC)}
    if not any(noise):
        return found
    rows: list[Estimates] = []
    for at, terms in enumerate(noise):
        own_size = {name: held[at : at + 1] for name, held in size.items()}
        rows.append(with_noise(_row_at(found, at), difference, terms, source="seeds", **own_size))
    return _joined(rows)


def _least_discordant(own: ClusterSums, base: ClusterSums) -> Column:
    """Return the lower bound of the sum of squared differences of observations, from their sums by cluster.

    Of observations that are right or wrong so many differ as their numbers in each cluster do, at least; of
    means over seeds the squares are at least those of equal differences.
    """
    width = int(max(own.cluster.max(initial=0), base.cluster.max(initial=0))) + 1
    apart, weight = (np.zeros(own.n_groups * width) for _ in range(2))
    np.add.at(apart, own.group * width + own.cluster, own.x)
    np.subtract.at(apart, base.group * width + base.cluster, base.x)
    np.add.at(weight, own.group * width + own.cluster, own.w)
    apart, weight = (one.reshape(own.n_groups, width) for one in (apart, weight))
    equal = (apart**2 / np.maximum(weight, 1.0)).sum(axis=1)
    broken = sum(side.total(np.abs(side.x - np.round(side.x))) for side in (own, base)) > _ROUNDING
    return np.where(broken, equal, np.abs(apart).sum(axis=1))


def _of_statistics(bases: Sequence[Score], scores: Sequence[Score], kind: Kind) -> Estimates:
    """Estimate differences of other statistics, from their changes when each cluster is left out."""
    return _joined([_of_statistic(base, score, kind) for base, score in zip(bases, scores, strict=True)])


def _of_statistic(base: Score, score: Score, kind: Kind) -> Estimates:
    one, two = _of(base), _of(score)
    names, inverse = np.unique(np.concatenate([two.clusters, one.clusters]).astype(str), return_inverse=True)
    assert one.moved is not None and two.moved is not None
    moved = np.bincount(inverse, np.concatenate([two.moved, -one.moved]), minlength=len(names))
    value = np.array([score.value - base.value])
    n_clusters = np.array([len(names)])
    difference = DIFFERENCE_OF[kind]
    size = np.array([min(one.weight.sum(), two.weight.sum())])
    return estimated(
        value,
        jackknife_variance((moved**2).sum(keepdims=True), n_clusters),
        n_clusters,
        np.array([min(kish(one.weight), kish(two.weight))]),
        difference,
        n=size,
        mean_size=(two.weight**2).sum() / np.maximum(size, 1.0),
        icc=np.full(1, LEAST_ICC),
        method=f"paired {JACKKNIFE}",
        wider=widening(np.zeros(len(names), dtype=np.int64), -moved, value, difference),
    )


def _stacked(parts: Sequence[Contributions], names: np.ndarray) -> ClusterSums:
    sizes = [len(one.clusters) for one in parts]
    return ClusterSums(
        np.repeat(np.arange(len(parts)), sizes),
        np.searchsorted(names, np.concatenate([one.clusters.astype(str) for one in parts])),
        np.concatenate([one.sums for one in parts if one.sums is not None]),
        np.concatenate([one.weight for one in parts]),
        len(parts),
    )


_COLUMNS = ("value", "low", "high", "n_clusters", "effective", "n_eff", "df", "error", "p_value")


def _row_at(found: Estimates, at: int) -> Estimates:
    cut = {name: getattr(found, name)[at : at + 1] for name in _COLUMNS}
    wider = Bounds(*(side[at : at + 1] for side in found.wider))
    return dataclasses.replace(found, **cut, wider=wider)


def _joined(rows: Sequence[Estimates]) -> Estimates:
    held = {name: np.concatenate([getattr(one, name) for one in rows]) for name in _COLUMNS}
    wider = Bounds(*(np.concatenate(side) for side in zip(*(one.wider for one in rows), strict=True)))
    return Estimates(**held, wider=wider, method=rows[0].method)


def _difference(
    base: Score,
    score: Score,
    better: Direction,
    found: Estimates,
    at: int,
    least: Mapping[str, float],
) -> Difference:
    row, kind = _row_at(found, at), DIFFERENCE_OF[_of(base).kind]
    value, error, df = (float(one[0]) for one in (row.value, row.error, row.df))
    # Differences of what has no bounds are tested on their own scale.
    tested = (
        two_sided_p(row.value, row.error * row.facing_zero, row.df, "real") if kind == "real" else row.p_value
    )
    p_value = float(tested[0])
    scale = max(1.0, abs(base.value)) if kind == "real" else 0.0
    seeds = [one.seeds for one in (base, score) if one.seeds is not None]
    low, high = float(row.low[0]), float(row.high[0])
    qualified = {
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "effective_clusters": float(row.effective[0]),
        "seeds": min(seeds, default=None),
    }
    return Difference(
        base=base,
        score=score,
        better=better,
        value=value,
        low=low,
        high=high,
        method=row.method,
        n_clusters=int(row.n_clusters[0]),
        effective=float(row.effective[0]),
        df=df,
        p_value=p_value,
        effect=_cohens_h(base.value, score.value) if _of(base).kind in ("proportion", "unit") else math.nan,
        error=error,
        wider=max(float(side[0]) for side in row.wider),
        least=least_size(score.metric, score.ci_method, least),
        why=why_no_verdict(qualified) or (_TOO_NEAR if 0 < abs(value) <= _PRECISION * scale else ""),
    )


def _cohens_h(base: float, value: float) -> float:
    """Compute Cohen's h, the difference of two proportions on the variance-stabilising scale (Cohen 1988)."""
    first, second = (math.asin(math.sqrt(min(max(one, 0.0), 1.0))) for one in (base, value))
    return 2 * (second - first)


_SHARED = ("corpus_hash", "item_set", *IDENTITY)


DIFFERENCES_COLUMNS: Columns = {
    "base": (pl.String, "the model that is held against, with its run where names are the same"),
    "base_revision": (pl.String, "its revision, or a hash of its files"),
    "model": (pl.String, "the other model"),
    "revision": (pl.String, "its revision, or a hash of its files"),
    **{name: SCORES_COLUMNS[name] for name in SCORES_COLUMNS if name in _SHARED},
    "base_layer": (
        pl.Int32,
        "of the base: the layer, chosen on validation where a model has one such number",
    ),
    "layer": (pl.Int32, "of the model"),
    "base_head": (pl.Int32, "of the base: the head"),
    "head": (pl.Int32, "of the model"),
    "better": (pl.String, "`higher` or `lower`: which values are better; empty where neither is"),
    "base_value": (pl.Float64, "the number of the base, on what both models read"),
    "value": (pl.Float64, "the number of the model, on the same"),
    "difference": (pl.Float64, "`value` minus `base_value`"),
    "ci_low": (pl.Float64, "lower end of the 95 % interval of the difference; null where none is known"),
    "ci_high": (pl.Float64, "upper end"),
    "ci_method": (pl.String, "how the interval was found"),
    "n": (pl.Int64, "observations behind each of the two numbers"),
    "n_clusters": (pl.Int64, "clusters that these come from"),
    "effective_clusters": (pl.Float64, "equally large clusters that these are worth"),
    "df": (pl.Float64, "degrees of freedom of the interval"),
    "seeds": (pl.Int64, "the smaller number of independent trainings; null where nothing was trained"),
    "p_value": (pl.Float64, "of no difference, by the test that the interval inverts"),
    "p_adjusted": (
        pl.Float64,
        "the same among all differences of the comparison that may be findings (Benjamini and Hochberg)",
    ),
    "effect": (pl.Float64, "Cohen's h of two proportions; null for other numbers"),
    "detectable": (
        pl.Float64,
        "the difference that four of five such comparisons would have found, at the level that Benjamini and "
        "Hochberg ask for among all of them",
    ),
    "least": (pl.Float64, "the least size of a difference that matters; 0 where none is known"),
    "outcome": (
        pl.String,
        "`better` or `worse`, `higher` or `lower` where neither is better, `slight` (sure, and less than "
        "matters), `alike` (no difference that matters) or `undecided`",
    ),
    "why": (pl.String, "why no verdict is allowed; empty where one is"),
    "other_names": (
        pl.List(pl.String),
        "other dimensions of the same number over the same observations, as text: it is tested once",
    ),
}
"""Columns in their order, each with its type and what it holds."""


def differences_frame(found: Iterable[Difference]) -> pl.DataFrame:
    """Convert differences to a table, in their order."""
    rows = [_difference_row(one) for one in found]
    return pl.DataFrame(rows, schema=schema_of(DIFFERENCES_COLUMNS), orient="row")


def _difference_row(one: Difference) -> dict[str, object]:
    base, score = one.base, one.score
    seeds = [side.seeds for side in (base, score) if side.seeds is not None]
    shared = {name: getattr(score, name) for name in _SHARED}
    shared["dimensions"] = [{"name": name, "value": value} for name, value in score.dimensions]
    numbers = {
        "ci_low": one.low,
        "ci_high": one.high,
        "df": one.df,
        "p_value": one.p_value,
        "p_adjusted": one.p_adjusted,
        "effect": one.effect,
        "detectable": one.detectable,
    }
    return {
        "base": base.model,
        "base_revision": base.revision,
        "model": score.model,
        "revision": score.revision,
        **shared,
        "base_layer": base.layer,
        "layer": score.layer,
        "base_head": base.head,
        "head": score.head,
        "better": one.better,
        "base_value": base.value,
        "value": score.value,
        "difference": one.value,
        "ci_method": one.method,
        "n": min(base.n, score.n),
        "n_clusters": one.n_clusters,
        "effective_clusters": one.effective,
        "seeds": min(seeds, default=None),
        "least": one.least,
        "outcome": one.outcome,
        "why": one.why,
        "other_names": [named(dimensions) for dimensions in one.other_names],
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
    }
