"""P@k and MRR of a column of ranks, the building stones of every table of the lens."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial

import polars as pl

from sonde.results import Mean, Score, means

KS = (1, 5, 10, 20, 30, 40, 50)
"""As published (INK, section 4.3)."""

NAMES = ("call", "import")
"""Templates that ask for a name as it is; what is said of all names is said of these."""

by_library = partial(means, cluster="library")
"""Means of queries, of which whole libraries are independent."""

COMPETING = "competing"
"""Column of how many an answer is ranked among; frames whose answers compete with a vocabulary lack it."""


def hit(frame: pl.DataFrame, column: str, k: int, among: str = COMPETING) -> pl.Expr:
    """Whether a rank is at most k; nothing is said where no more than k compete, since all are hits then.

    Args:
        frame: What the expression is for.
        column: The ranks.
        k: The bound.
        among: Column that counts what competes.
    """
    within = pl.col(column) <= k
    return pl.when(pl.col(among) > k).then(within) if among in frame.columns else within


def at_k(frame: pl.DataFrame, column: str, among: str = COMPETING, ks: Sequence[int] = KS) -> list[Mean]:
    """P@k at every k that says something, of a column of ranks among ``among``."""
    return [Mean("p_at_k", hit(frame, column, k, among), fields={"k": k}) for k in ks]


def mrr(column: str) -> Mean:
    """Mean reciprocal rank."""
    return Mean("mrr", 1.0 / pl.col(column), "unit")


def chance(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score ranking at random, of answers that compete with a few others, and the model's gain over it."""
    competing = pl.col(COMPETING)
    reciprocal = {count: sum(1 / rank for rank in range(1, count + 1)) / count for count in _counts(frame)}
    value = competing.replace_strict(reciprocal, default=None, return_dtype=pl.Float64)
    named = dataclasses.replace(template, control="chance")
    rates = chance_at_k()
    gains = [
        Mean("p_at_k_gain", hit(frame, "rank", k).cast(pl.Float64) - rate.of, "difference", fields={"k": k})
        for k, rate in zip(KS, rates, strict=True)
    ]
    return by_library(frame, [*rates, *gains, Mean("mrr", value, "unit")], named)


def chance_at_k(ks: Sequence[int] = KS) -> list[Mean]:
    """P@k of ranking at random among those that compete."""
    competing = pl.col(COMPETING)
    return [Mean("p_at_k", pl.when(competing > k).then(k / competing), "unit", fields={"k": k}) for k in ks]


def _counts(frame: pl.DataFrame) -> list[int]:
    return frame[COMPETING].drop_nulls().unique().to_list()


def by_template(frame: pl.DataFrame, base: Score) -> Iterator[tuple[Score, pl.DataFrame]]:
    """The queries of each template, with a score that names it."""
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        yield base.within(("template", template)), part
