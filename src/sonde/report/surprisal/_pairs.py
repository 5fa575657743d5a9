"""Scores of minimal pairs as their sections read them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.report._shared.run import RunData
from sonde.report.surprisal._scores import LENS
from sonde.results.dimensions import dimension

PREFERRED = "preferred"

CONTROLS: Mapping[str, str] = {
    "chance": "chance",
    "length": "the shorter text",
    "ngram": "n-grams of code tokens",
    "parse_error": "a parser",
    "frequency": "the more frequent name",
}
"""Controls of minimal pairs, in words."""

CUTS: Mapping[str, str] = {
    "operator": "operator",
    "distance": "code tokens from the declaration",
    "construct": "construct",
}
"""Dimensions by which pairs are told apart, in words."""


def pair_rows(run: RunData, metric: str = PREFERRED) -> pl.DataFrame:
    """Rows of minimal pairs, controls included.

    ``at`` is what was summed (``text`` or ``place``), ``cut`` and ``part`` what the pairs have in common.
    """
    rows = run.scores(metrics=[metric], lens=LENS, controls=True)
    parts = [pl.when(dimension(name).is_not_null()).then(pl.lit(name)) for name in CUTS]
    return rows.with_columns(
        at=dimension("at").fill_null("text"),
        cut=pl.coalesce(*parts, pl.lit("")),
        part=pl.coalesce(*(dimension(name) for name in CUTS), pl.lit("")),
        who=pl.col("control").fill_null(""),
        subject=run.subject,
    )
