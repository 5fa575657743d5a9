"""P@k and MRR of listed answers, and how many replies were refusals or short."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.results import Mean, Score, means

KS = (1, 5, 10, 20)
MATCHING, LENIENT = "generative", "generative_lenient"
"""Lists read as published and leniently: their ranks stand in no table with those of masks or statements."""


def score_prompted(scoring: Scoring, task: str) -> Iterator[Score]:
    """Every table; a refusal and a prompt that does not fit count as wrong."""
    rows = scoring.observations.collect().drop("item_id", "task", "seed", "method", strict=False)
    frame = scoring.labels[task].join(rows, on="query_id", how="inner", maintain_order="left")
    lenient = frame.with_columns(rank="rank_lenient", listed="listed_lenient")
    for held, matching in ((frame, MATCHING), (lenient, LENIENT)):
        yield from _tables(held, dataclasses.replace(scoring.template, task=task, matching=matching))


def _tables(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    names = frame.filter(pl.col("template").is_in(["call", "import"]))
    yield from _table(names, base)
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        named = base.within(("template", template))
        yield from _table(part, named)
        yield from _table(part, named, by="mode")


def _table(frame: pl.DataFrame, template: Score, by: str | None = None) -> Iterator[Score]:
    reciprocal = (1.0 / pl.col("rank")).fill_null(0.0)
    strict = [
        Mean("share_refused", pl.col("refused") & pl.col("asked")),
        Mean("share_unread", pl.col("unread")),
        Mean("share_cut", pl.col("cut").fill_null(value=False)),
        Mean("share_short", pl.col("short") & ~pl.col("refused") & ~pl.col("unread")),
        Mean("share_too_long", ~pl.col("asked")),
    ]
    wanted = [
        *(Mean("p_at_k", (pl.col("rank") <= k).fill_null(value=False), fields={"k": k}) for k in KS),
        Mean("mrr", reciprocal, "unit"),
        *(strict if template.matching == MATCHING else ()),
        Mean("listed", pl.col("listed"), "nonnegative"),
    ]
    return means(frame, wanted, template, by=by or (), cluster="library")
