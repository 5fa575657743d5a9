"""Paired differences between the scores of two models over the same clusters, all tested together.

Pure arithmetic over scores that know what each cluster contributes (`sonde.stats.estimate`); which
scores answer the same question is decided in `sonde.results.score_pairs`. Formulas: paired differences by
leaving out one cluster of both sides at once, on Fisher's scale where the numbers are bounded; false
discovery rate by Benjamini and Hochberg over everything that is compared.

The table ``comparison.parquet`` has a row per difference, with everything that qualifies it.
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

from sonde.results.schema import Columns, Dimensions, format_dimensions, to_schema
from sonde.results.score_pairs import IDENTITY_COLUMNS, Direction, merge_identical_pairs
from sonde.results.scores import SCORES_COLUMNS, Score
from sonde.stats.estimate import (
    JACKKNIFE,
    MIN_ICC,
    ClusterSums,
    Contributions,
    Estimates,
    build_estimates,
    estimate_differences,
    jackknife_variance,
    kish,
)
from sonde.stats.intervals import DIFFERENCE_OF, Bounds, GroupValues, Kind, bootstrap_t_factors, two_sided_p
from sonde.stats.power import adjust_p_values, detectable_difference, discovery_level
from sonde.stats.resampling import add_noise
from sonde.stats.verdict import EffectClass, classify_effect, minimum_effect, no_verdict_reason

FALSE_DISCOVERIES = 0.05
"""Share of the findings of a comparison that may be false, on average."""


_PRECISION = 1e-5
"""Forward passes of one model agree to this over batches and machines, so less is no difference of models."""


WITHIN_PRECISION = "numerical noise: another batch or machine changes more"
"""Why there is no verdict on a difference that `_PRECISION` covers; no data would change it."""


_ROUNDING_TOLERANCE = 1e-9
"""Below this, sums are those of whole observations."""


Outcome = Literal["better", "worse", EffectClass]


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
    direction: Direction
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
    width_factor: float
    minimum_effect: float
    detectable: float = math.nan
    why: str
    other_names: tuple[Dimensions, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Return the outcome; ``undecided`` does not mean equality, see `detectable_difference`."""
        if self.why:
            return "undecided"
        is_sure = self.p_adjusted < FALSE_DISCOVERIES
        effect = classify_effect(self.value, self.low, self.high, self.minimum_effect, is_sure=is_sure)
        if not self.direction or effect not in ("higher", "lower"):
            return effect
        return "better" if effect == self.direction else "worse"


def compute_differences(
    pairs: Sequence[tuple[Score, Score, Direction]],
    minimum_effects: Mapping[str, float] = MappingProxyType({}),
) -> list[Difference]:
    """Compute the differences of pairs of scores, with p-values adjusted over all possible findings.

    One number under several names is tested once, see `sonde.results.score_pairs.merge_identical_pairs`.

    What may be no finding (too few clusters or seeds) is tested with no other: it is shown, and its adjusted
    value is unknown.

    Args:
        pairs: Score of the base, score of the model, and which values are better. Both have contributions of
            clusters, and are of one kind.
        minimum_effects: Smallest difference that matters, by metric; the default is in
            `sonde.stats.verdict.minimum_effect`.
    """
    merged_pairs = merge_identical_pairs(pairs)
    pairs = [pair for pair, _ in merged_pairs]
    groups: dict[tuple[Kind, bool], list[int]] = {}
    for index, (base, score, _) in enumerate(pairs):
        ratio = _get_contributions(base).sums is not None and _get_contributions(score).sums is not None
        groups.setdefault((_get_contributions(base).kind, ratio), []).append(index)
    results: dict[int, Difference] = {}
    for (kind, ratio), indices in groups.items():
        bases, scores = [pairs[index][0] for index in indices], [pairs[index][1] for index in indices]
        if ratio:
            estimates = _ratio_differences(bases, scores, kind)
        else:
            estimates = _concatenate(
                [_statistic_difference(*pair, kind) for pair in zip(bases, scores, strict=True)]
            )
        for position, index in enumerate(indices):
            results[index] = _build_difference(*pairs[index], estimates, position, minimum_effects)
    return adjust_differences(
        [
            dataclasses.replace(results[index], other_names=other_names)
            for index, (_, other_names) in enumerate(merged_pairs)
        ]
    )


def adjust_differences(differences: Sequence[Difference]) -> list[Difference]:
    """Adjust p-values over the differences that may be findings, and set the detectable differences."""
    indices = [
        index
        for index, difference in enumerate(differences)
        if not difference.why and math.isfinite(difference.p_value)
    ]
    p_values = adjust_p_values([differences[index].p_value for index in indices])
    values = dict(zip(indices, p_values, strict=True))
    level = discovery_level(len(values), sum(value < FALSE_DISCOVERIES for value in values.values()))
    return [
        dataclasses.replace(
            difference,
            p_adjusted=values.get(index, math.nan),
            detectable=detectable_difference(difference.error, difference.df, level, difference.width_factor),
        )
        for index, difference in enumerate(differences)
    ]


def _get_contributions(score: Score) -> Contributions:
    assert score.contributions is not None
    return score.contributions


def _ratio_differences(bases: Sequence[Score], scores: Sequence[Score], kind: Kind) -> Estimates:
    """Estimate differences of ratios of sums, paired by cluster."""
    names = np.unique(
        np.concatenate([_get_contributions(score).clusters.astype(str) for score in (*bases, *scores)])
    )
    side_sums, base_sums = (
        _stack([_get_contributions(score) for score in side], names) for side in (scores, bases)
    )
    discordant = (
        _minimum_discordance(side_sums, base_sums)
        if (difference := DIFFERENCE_OF[kind]) == "difference"
        else None
    )
    estimates = estimate_differences(side_sums, base_sums, difference, discordant=discordant)
    noise = [
        _get_contributions(base_score).noise + _get_contributions(score).noise
        for base_score, score in zip(bases, scores, strict=True)
    ]
    size = {
        "n": side_sums.total(side_sums.w),
        "mean_size": side_sums.mean_size,
        "icc": np.full(len(bases), MIN_ICC),
    }
    if not any(noise):
        return estimates
    rows: list[Estimates] = []
    for index, terms in enumerate(noise):
        own_size = {name: column[index : index + 1] for name, column in size.items()}
        rows.append(add_noise(_select_row(estimates, index), difference, terms, source="seeds", **own_size))
    return _concatenate(rows)


def _minimum_discordance(first: ClusterSums, second: ClusterSums) -> GroupValues:
    """Return the lower bound of the sum of squared differences of observations, from their sums by cluster.

    Of observations that are right or wrong so many differ as their numbers in each cluster do, at least; of
    means over seeds the squares are at least those of equal differences.
    """
    width = int(max(first.cluster.max(initial=0), second.cluster.max(initial=0))) + 1
    gaps, weight = (np.zeros(first.n_groups * width) for _ in range(2))
    np.add.at(gaps, first.group * width + first.cluster, first.x)
    np.subtract.at(gaps, second.group * width + second.cluster, second.x)
    np.add.at(weight, first.group * width + first.cluster, first.w)
    gaps, weight = (array.reshape(first.n_groups, width) for array in (gaps, weight))
    equal = (gaps**2 / np.maximum(weight, 1.0)).sum(axis=1)
    is_fractional = (
        sum(side.total(np.abs(side.x - np.round(side.x))) for side in (first, second)) > _ROUNDING_TOLERANCE
    )
    return np.where(is_fractional, equal, np.abs(gaps).sum(axis=1))


def _statistic_difference(base: Score, score: Score, kind: Kind) -> Estimates:
    """Estimate the difference of other statistics, from their changes when each cluster is left out."""
    base_parts, score_parts = _get_contributions(base), _get_contributions(score)
    names, inverse = np.unique(
        np.concatenate([score_parts.clusters, base_parts.clusters]).astype(str), return_inverse=True
    )
    assert base_parts.deviations is not None and score_parts.deviations is not None
    deviations = np.bincount(
        inverse, np.concatenate([score_parts.deviations, -base_parts.deviations]), minlength=len(names)
    )
    value = np.array([score.value - base.value])
    n_clusters = np.array([len(names)])
    difference = DIFFERENCE_OF[kind]
    size = np.array([min(base_parts.weight.sum(), score_parts.weight.sum())])
    return build_estimates(
        value,
        jackknife_variance((deviations**2).sum(keepdims=True), n_clusters),
        n_clusters,
        np.array([min(kish(base_parts.weight), kish(score_parts.weight))]),
        difference,
        n=size,
        mean_size=(score_parts.weight**2).sum() / np.maximum(size, 1.0),
        icc=np.full(1, MIN_ICC),
        method=f"paired {JACKKNIFE}",
        width_factor=bootstrap_t_factors(
            np.zeros(len(names), dtype=np.int64), -deviations, value, difference
        ),
    )


def _stack(parts: Sequence[Contributions], names: np.ndarray) -> ClusterSums:
    sizes = [len(part.clusters) for part in parts]
    return ClusterSums(
        np.repeat(np.arange(len(parts)), sizes),
        np.searchsorted(names, np.concatenate([part.clusters.astype(str) for part in parts])),
        np.concatenate([part.sums for part in parts if part.sums is not None]),
        np.concatenate([part.weight for part in parts]),
        len(parts),
    )


_COLUMNS = ("value", "low", "high", "n_clusters", "effective", "n_eff", "df", "error", "p_value")


def _select_row(estimates: Estimates, index: int) -> Estimates:
    columns = {name: getattr(estimates, name)[index : index + 1] for name in _COLUMNS}
    wider = Bounds(*(side[index : index + 1] for side in estimates.width_factor))
    return dataclasses.replace(estimates, **columns, width_factor=wider)


def _concatenate(rows: Sequence[Estimates]) -> Estimates:
    columns = {name: np.concatenate([getattr(row, name) for row in rows]) for name in _COLUMNS}
    wider = Bounds(*(np.concatenate(side) for side in zip(*(row.width_factor for row in rows), strict=True)))
    return Estimates(**columns, width_factor=wider, method=rows[0].method)


def _build_difference(
    base: Score,
    score: Score,
    direction: Direction,
    estimates: Estimates,
    index: int,
    minimum_effects: Mapping[str, float],
) -> Difference:
    row, kind = _select_row(estimates, index), DIFFERENCE_OF[_get_contributions(base).kind]
    value, error, df = (float(column[0]) for column in (row.value, row.error, row.df))
    # Differences of what has no bounds are tested on their own scale.
    p_values = (
        two_sided_p(row.value, row.error * row.facing_zero, row.df, "real") if kind == "real" else row.p_value
    )
    # Nothing differs anywhere, which leaves the test without a scale.
    p_value = 1.0 if value == error == 0 else float(p_values[0])
    scale = max(1.0, abs(base.value)) if kind == "real" else 0.0
    seeds = [side.seeds for side in (base, score) if side.seeds is not None]
    low, high = float(row.low[0]), float(row.high[0])
    verdict_row = {
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "effective_clusters": float(row.effective[0]),
        "seeds": min(seeds, default=None),
    }
    return Difference(
        base=base,
        score=score,
        direction=direction,
        value=value,
        low=low,
        high=high,
        method=row.method,
        n_clusters=int(row.n_clusters[0]),
        effective=float(row.effective[0]),
        df=df,
        p_value=p_value,
        effect=_cohens_h(base.value, score.value)
        if _get_contributions(base).kind in ("proportion", "unit")
        else math.nan,
        error=error,
        width_factor=max(float(side[0]) for side in row.width_factor),
        minimum_effect=minimum_effect(score.metric, score.ci_method, minimum_effects),
        why=no_verdict_reason(verdict_row)
        or (WITHIN_PRECISION if 0 < abs(value) <= _PRECISION * scale else ""),
    )


def _cohens_h(base: float, value: float) -> float:
    """Compute Cohen's h, the difference of two proportions on the variance-stabilising scale (Cohen 1988)."""
    first, second = (math.asin(math.sqrt(min(max(proportion, 0.0), 1.0))) for proportion in (base, value))
    return 2 * (second - first)


_SHARED_COLUMNS = ("corpus_hash", "item_set", *IDENTITY_COLUMNS)


DIFFERENCES_COLUMNS: Columns = {
    "base": (pl.String, "the base model, with its run if names are the same"),
    "base_revision": (pl.String, "its revision, or a hash of its files"),
    "model": (pl.String, "the other model"),
    "revision": (pl.String, "its revision, or a hash of its files"),
    **{name: SCORES_COLUMNS[name] for name in SCORES_COLUMNS if name in _SHARED_COLUMNS},
    "base_layer": (
        pl.Int32,
        "of the base: the layer, chosen on validation if a model has one such number",
    ),
    "layer": (pl.Int32, "of the model"),
    "base_head": (pl.Int32, "of the base: the head"),
    "head": (pl.Int32, "of the model"),
    "better": (pl.String, "`higher` or `lower`: which values are better; empty if neither is"),
    "base_value": (pl.Float64, "the value of the base, on the text that both models read"),
    "value": (pl.Float64, "the value of the model, on the same text"),
    "difference": (pl.Float64, "`value` minus `base_value`"),
    "ci_low": (pl.Float64, "lower end of the 95 % interval of the difference; null if none is known"),
    "ci_high": (pl.Float64, "upper end"),
    "ci_method": (pl.String, "how the interval was found"),
    "n": (pl.Int64, "observations of each of the two numbers"),
    "n_clusters": (pl.Int64, "clusters that these come from"),
    "effective_clusters": (pl.Float64, "effective number of these clusters (Kish)"),
    "df": (pl.Float64, "degrees of freedom of the interval"),
    "seeds": (pl.Int64, "the smaller number of independent trainings; null if nothing was trained"),
    "p_value": (pl.Float64, "of no difference, by the test that the interval inverts"),
    "p_adjusted": (
        pl.Float64,
        "the same among all differences of the comparison that may be findings (Benjamini and Hochberg)",
    ),
    "effect": (pl.Float64, "Cohen's h of two proportions; null for other numbers"),
    "detectable": (
        pl.Float64,
        (
            "the difference that is detected with 80 % power, at the Benjamini-Hochberg level of all "
            "comparisons"
        ),
    ),
    "least": (pl.Float64, "the smallest difference that matters; 0 if none is known"),
    "outcome": (
        pl.String,
        (
            "`better` or `worse`, `higher` or `lower` if neither is better, `slight` (sure, and less "
            "than matters), `alike` (no difference that matters) or `undecided`"
        ),
    ),
    "why": (pl.String, "why no verdict is allowed; empty if one is"),
    "other_names": (
        pl.List(pl.String),
        "other dimensions of the same number over the same observations, as text: it is tested once",
    ),
}
"""Columns in their order, each with its type and what it holds."""


def differences_to_frame(differences: Iterable[Difference]) -> pl.DataFrame:
    """Convert differences to a table, in their order."""
    rows = [_difference_row(difference) for difference in differences]
    return pl.DataFrame(rows, schema=to_schema(DIFFERENCES_COLUMNS), orient="row")


def _difference_row(difference: Difference) -> dict[str, object]:
    base, score = difference.base, difference.score
    seeds = [side.seeds for side in (base, score) if side.seeds is not None]
    columns = {name: getattr(score, name) for name in _SHARED_COLUMNS}
    columns["dimensions"] = [{"name": name, "value": value} for name, value in score.dimensions]
    numbers = {
        "ci_low": difference.low,
        "ci_high": difference.high,
        "df": difference.df,
        "p_value": difference.p_value,
        "p_adjusted": difference.p_adjusted,
        "effect": difference.effect,
        "detectable": difference.detectable,
    }
    return {
        "base": base.model,
        "base_revision": base.revision,
        "model": score.model,
        "revision": score.revision,
        **columns,
        "base_layer": base.layer,
        "layer": score.layer,
        "base_head": base.head,
        "head": score.head,
        "better": difference.direction,
        "base_value": base.value,
        "value": score.value,
        "difference": difference.value,
        "ci_method": difference.method,
        "n": min(base.n, score.n),
        "n_clusters": difference.n_clusters,
        "effective_clusters": difference.effective,
        "seeds": min(seeds, default=None),
        "least": difference.minimum_effect,
        "outcome": difference.outcome,
        "why": difference.why,
        "other_names": [format_dimensions(dimensions) for dimensions in difference.other_names],
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
    }
