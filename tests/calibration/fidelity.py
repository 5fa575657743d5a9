"""How often the intervals of fidelity hold the truth, from sums of subwords in unequal clusters.

Divergences are log-normal (standard deviation 1.5 on the log scale) in clusters whose own means are too;
answers are won and lost at rates that differ by cluster; the loss changes with heavy tails. Clusters have
log-normal sizes. Every draw goes through the scores of the lens itself. Means are held to 93 to 97.5 %,
proportions and the tail, which have cautious intervals, to at least 93 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.stats import norm

from sonde.lenses.engine.lens import LensSettings, ScoringContext
from sonde.lenses.fidelity.observe import ROWS_COLUMNS, bin_divergences
from sonde.lenses.fidelity.score import score_fidelity
from sonde.results.schema import to_schema
from sonde.results.scores import Score
from tests.calibration import Bound, Row

DRAWS, SHORT = 2000, 200

_CLUSTERS = (12, 30, 60)
_SUBWORDS = 200
"""Mean subwords of a cluster."""
_KL, _SPREAD, _CLUSTER_SPREAD = 0.02, 1.5, 0.4
_WON, _LOST = 0.006, 0.01
_CHANGE, _CHANGE_SPREAD = 0.01, 0.2
_PROBABILITY = 0.05
_AT_ONCE = 100
_ERRORS = 3.0
"""Errors of the simulation that counts of fewer draws than in full are given."""

_TRUTHS = {
    "kl": _KL,
    "flips": _WON + _LOST,
    "top1_change": _WON - _LOST,
    "bits_change": _CHANGE / math.log(2),
    "bits_distance": None,
    "rms_probability": _PROBABILITY,
    "kl_p99": None,
}
"""The true values; None for those of a distribution that is computed below."""
_CAUTIOUS = ("flips", "top1_change", "rms_probability", "kl_p99")


def run(draws: int, seed: int) -> list[Row]:
    """A row for each number of clusters and metric."""
    rows: list[Row] = []
    for clusters in _CLUSTERS:
        held: dict[str, list[bool]] = {}
        for start in range(0, draws, _AT_ONCE):
            rng = np.random.default_rng([seed, clusters, start])
            for score in _score(_observe(min(_AT_ONCE, draws - start), clusters, rng)):
                truth = _truth(score.metric)
                if truth is not None and score.ci_low is not None and score.ci_high is not None:
                    held.setdefault(score.metric, []).append(score.ci_low <= truth <= score.ci_high)
        for metric, covered in sorted(held.items()):
            most = 1.0 if metric in _CAUTIOUS else 0.975
            slack = _ERRORS * math.sqrt(len(covered) * 0.93 * 0.07) if draws < DRAWS else 0.0
            bound = Bound(
                math.floor(0.93 * len(covered) - slack),
                math.ceil(min(len(covered), most * len(covered) + slack)),
            )
            rows.append(Row(f"{metric}, {clusters} clusters", len(covered), sum(covered), bound))
    return rows


def _truth(metric: str) -> float | None:
    if metric == "kl_p99":
        spread = math.hypot(_SPREAD, _CLUSTER_SPREAD)
        return float(_KL * math.exp(norm.ppf(0.99) * spread - spread**2 / 2))
    return _TRUTHS.get(metric)


def _observe(draws: int, clusters: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return sums over all text, a language for each draw."""
    sizes = np.maximum(1, _SUBWORDS * rng.lognormal(-0.5, 1.0, draws * clusters)).astype(int)
    owner = np.repeat(np.arange(len(sizes)), sizes)

    def effect(spread: float) -> np.ndarray:
        return rng.lognormal(-(spread**2) / 2, spread, len(sizes))[owner]

    kl = _KL * effect(_CLUSTER_SPREAD) * rng.lognormal(-(_SPREAD**2) / 2, _SPREAD, len(owner))
    rates = effect(_CLUSTER_SPREAD)
    answer = rng.random(len(owner))
    won, lost = answer < _WON * rates, answer > 1 - _LOST * rates
    base_nats = rng.exponential(1.5, len(owner))
    change = _CHANGE * effect(0.8) + _CHANGE_SPREAD * rng.standard_t(5, len(owner)) * np.sqrt(base_nats)
    squares = _PROBABILITY**2 * effect(0.6) * rng.exponential(1.0, len(owner))
    subwords = pl.DataFrame(
        {
            "owner": owner,
            "kl": kl,
            "kl_reverse": kl,
            "nats": base_nats + change,
            "base_nats": base_nats,
            "distance": np.abs(change),
            "squares": squares,
            "same": ~(won | lost),
            "won": won,
            "lost": lost,
            "bins": pl.Series(kl),
        }
    )
    summed = ("kl", "kl_reverse", "nats", "base_nats", "distance", "squares", "same", "won", "lost")
    rows = (
        subwords.with_columns(bin_divergences(pl.col("bins")))
        .group_by("owner", maintain_order=True)
        .agg(pl.len().alias("n"), pl.col(summed).sum(), pl.col("bins"))
        .with_columns(
            item_id=pl.col("owner").cast(pl.String),
            cluster=(pl.col("owner") % clusters).cast(pl.String),
            language=(pl.col("owner") // clusters).cast(pl.String),
            dimension=pl.lit("text"),
            slice=pl.lit("all"),
            text_bytes=4 * pl.col("n"),
        )
    )
    schema = to_schema(ROWS_COLUMNS)
    return rows.select(
        pl.col(name).cast(kind) if name in rows.columns else pl.lit(None, kind).alias(name)
        for name, kind in schema.items()
    )


def _score(rows: pl.DataFrame) -> Iterator[Score]:
    template = Score(model="m", lens="fidelity", metric="", value=math.nan, n=0, n_clusters=0)
    scoring = ScoringContext(
        observations=rows.lazy(), items=pl.DataFrame(), template=template, settings=LensSettings()
    )
    return score_fidelity(scoring, "base", 1)
