"""``comparison.parquet``: one row a difference between two models, with everything that qualifies it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import polars as pl

from sonde.results.columns import Columns, schema_of
from sonde.results.comparison import Difference
from sonde.results.dimensions import named
from sonde.results.pairing import IDENTITY
from sonde.results.scores import SCORES_COLUMNS

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
    """Differences as a table, in their order."""
    rows = [_row(one) for one in found]
    return pl.DataFrame(rows, schema=schema_of(DIFFERENCES_COLUMNS), orient="row")


def _row(one: Difference) -> dict[str, object]:
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
