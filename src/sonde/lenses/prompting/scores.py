"""P@k and MRR of listed answers, and how many replies were refusals or short."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses._library_means import means
from sonde.results.intervals import Kind
from sonde.results.scores import Score

KS = (1, 5, 10, 20)
MATCHING = "generative"
"""What the ranks are of: they stand in no table with those of masks or statements."""


def score_prompted(scoring: Scoring, task: str) -> Iterator[Score]:
    """Every table; a refusal and a prompt that does not fit count as wrong."""
    rows = scoring.observations.collect().drop("task", "seed", "arm", strict=False)
    frame = scoring.labels[task].join(rows, on="quiz_id", how="inner", maintain_order="left")
    base = dataclasses.replace(scoring.template, task=task, matching=MATCHING)
    names = frame.filter(pl.col("template").is_in(["call", "import"]))
    yield from _table(names, base)
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        named = base.within(("template", template))
        yield from _table(part, named)
        yield from _table(part, named, by="mode")


def _table(frame: pl.DataFrame, template: Score, by: str | None = None) -> Iterator[Score]:
    hits = {str(k): (pl.col("rank") <= k).fill_null(value=False) for k in KS}
    for k, score in means(frame, hits, template, by=by):
        yield dataclasses.replace(score, metric="p_at_k", k=int(k))
    others = {
        "mrr": (1.0 / pl.col("rank")).fill_null(0.0),
        "share_refused": pl.col("refused") & pl.col("asked"),
        "share_short": pl.col("short") & ~pl.col("refused"),
        "share_too_long": ~pl.col("asked"),
        "listed": pl.col("listed"),
    }
    kinds: dict[str, Kind] = dict.fromkeys(others, "proportion")
    kinds |= {"mrr": "unit", "listed": "nonnegative"}
    for metric, score in means(frame, others, template, by=by, kinds=kinds):
        yield dataclasses.replace(score, metric=metric)
