"""P@k and MRR of a column of ranks, the building stones of every table of the lens."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses._library_means import means
from sonde.results.scores import Score

KS = (1, 5, 10, 20, 30, 40, 50)
"""As published (INK, section 4.3)."""

NAMES = ("call", "import")
"""Templates that ask for a name as it is; what is said of all names is said of these."""


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


def at_k(
    frame: pl.DataFrame, column: str, template: Score, by: str | None = None, *, among: str = COMPETING
) -> Iterator[Score]:
    """P@k at every k that says something, of a column of ranks among ``among``."""
    hits = {str(k): hit(frame, column, k, among) for k in KS}
    for k, score in means(frame, hits, template, by=by):
        yield dataclasses.replace(score, metric="p_at_k", k=int(k))


def mrr(frame: pl.DataFrame, column: str, template: Score, by: str | None = None) -> Iterator[Score]:
    """Mean reciprocal rank."""
    for _, score in means(frame, {"mrr": 1.0 / pl.col(column)}, template, by=by, kinds="unit"):
        yield dataclasses.replace(score, metric="mrr")


def chance(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """What ranking at random gets, of answers that compete with a few others."""
    named = dataclasses.replace(template, control="chance")
    competing = pl.col(COMPETING)
    shares = {str(k): pl.when(competing > k).then(k / competing) for k in KS}
    for k, score in means(frame, shares, named, kinds="unit"):
        yield dataclasses.replace(score, metric="p_at_k", k=int(k))
    reciprocal = {count: sum(1 / rank for rank in range(1, count + 1)) / count for count in _counts(frame)}
    value = competing.replace_strict(reciprocal, default=None, return_dtype=pl.Float64)
    for _, score in means(frame, {"mrr": value}, named, kinds="unit"):
        yield dataclasses.replace(score, metric="mrr")


def _counts(frame: pl.DataFrame) -> list[int]:
    return frame[COMPETING].drop_nulls().unique().to_list()


def by_template(frame: pl.DataFrame, base: Score) -> Iterator[tuple[Score, pl.DataFrame]]:
    """The quizzes of each template, with a score that names it."""
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        yield base.within(("template", template)), part
