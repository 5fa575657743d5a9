"""Sections of the lens `prompting`."""

from __future__ import annotations

import polars as pl

from sonde.report.controls import LensQuestion
from sonde.report.section import LensTitle
from sonde.results.schema import has_dimensions

title = LensTitle(
    name="Names of APIs, asked in words",
    cites=("zhuo2023ink",),
    question=LensQuestion(
        subject="Names listed when asked in words",
        measure="names right at the first try",
        metrics=("p_at_k",),
        where=has_dimensions({}) & (pl.col("k") == 1) & (pl.col("matching") == "generative"),
    ),
)
