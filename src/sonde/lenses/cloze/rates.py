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


def at_k(frame: pl.DataFrame, column: str, template: Score, by: str | None = None) -> Iterator[Score]:
    """P@k at every k, of a column of ranks."""
    hits = {str(k): pl.col(column) <= k for k in KS}
    for k, score in means(frame, hits, template, by=by, prefix=by or ""):
        yield dataclasses.replace(score, metric="p_at_k", params={**score.params, "k": int(k)})


def mrr(frame: pl.DataFrame, column: str, template: Score, by: str | None = None) -> Iterator[Score]:
    """Mean reciprocal rank."""
    for _, score in means(
        frame, {"mrr": 1.0 / pl.col(column)}, template, by=by, prefix=by or "", kinds="unit"
    ):
        yield dataclasses.replace(score, metric="mrr")


def by_template(frame: pl.DataFrame, base: Score) -> Iterator[tuple[Score, pl.DataFrame]]:
    """The quizzes of each template, with a score that names it."""
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        yield dataclasses.replace(base, slice=f"template={template}"), part
