"""Sections of the lens `prompting`."""

from __future__ import annotations

import polars as pl

from sonde.report._shared.answers import LensQuestion
from sonde.report._shared.title import PlainTitle
from sonde.results.dimensions import dimensions_are

title = PlainTitle(
    question=LensQuestion(
        subject="Names listed when asked in words",
        measure="names right at the first try",
        metrics=("p_at_k",),
        where=dimensions_are({}) & (pl.col("k") == 1),
    ),
)
