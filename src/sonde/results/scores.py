"""The row schema of ``scores.parquet``: one row a number, with everything that qualifies it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

SCHEMA_VERSION = 1

PARAMS = pl.Struct({"k": pl.Int64, "l2": pl.Float64, "name": pl.String, "other": pl.String})

SCORES_SCHEMA: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "model": pl.String,
    "revision": pl.String,
    "lens": pl.String,
    "task": pl.String,
    "language": pl.String,
    "corpus_hash": pl.String,
    "item_set": pl.String,
    "split": pl.String,
    "slice": pl.String,
    "side": pl.String,
    "layer": pl.Int32,
    "head": pl.Int32,
    "pooling": pl.String,
    "metric": pl.String,
    "params": PARAMS,
    "value": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
    "ci_method": pl.String,
    "n": pl.Int64,
    "n_clusters": pl.Int64,
    "effective_clusters": pl.Float64,
    "n_eff": pl.Float64,
    "df": pl.Float64,
    "p_value": pl.Float64,
    "seeds": pl.Int64,
    "seed": pl.Int64,
    "control": pl.String,
    "mode": pl.String,
    "fingerprint": pl.String,
    "schema_version": pl.Int32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One number of a run; fields as the columns of `SCORES_SCHEMA` (DESIGN, section 3)."""

    model: str
    lens: str
    metric: str
    value: float
    n: int
    n_clusters: int
    revision: str = ""
    task: str = ""
    language: str = ""
    corpus_hash: str = ""
    item_set: str = ""
    split: str = "all"
    slice: str = "all"
    side: str = ""
    layer: int | None = None
    head: int | None = None
    pooling: str = ""
    params: Mapping[str, float | int | str | None] = field(default_factory=dict)
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str = ""
    effective_clusters: float | None = None
    n_eff: float | None = None
    df: float | None = None
    p_value: float | None = None
    seeds: int | None = None
    seed: int = 0
    control: str | None = None
    mode: str = "corrected"
    fingerprint: str = ""
    schema_version: int = SCHEMA_VERSION


def scores_frame(scores: Iterable[Score]) -> pl.DataFrame:
    """Scores as a table in the schema of ``scores.parquet``."""
    rows = [{f.name: getattr(score, f.name) for f in dataclasses.fields(score)} for score in scores]
    for row in rows:
        row["params"] = {name: row["params"].get(name) for name in PARAMS.to_schema()}
    return pl.DataFrame(rows, schema=dict(SCORES_SCHEMA), orient="row")


def known_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of scores with every column of the schema; what an earlier version did not write is null."""
    lacking = [pl.lit(None, kind).alias(name) for name, kind in SCORES_SCHEMA.items() if name not in frame]
    return frame.with_columns(lacking).select(list(SCORES_SCHEMA))


def flat_scores(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of scores as `known_columns` gives it, with a column a parameter in place of ``params``."""
    return known_columns(frame).unnest("params")


def scores_from(frame: pl.DataFrame) -> list[Score]:
    """The scores of such a table, in its order."""
    scores: list[Score] = []
    for row in known_columns(frame).iter_rows(named=True):
        values: dict[str, Any] = dict(row)
        values["params"] = {name: value for name, value in row["params"].items() if value is not None}
        scores.append(Score(**values))
    return scores
