"""Sections of the lens `attention`."""

from __future__ import annotations

import polars as pl

from sonde.report._shared.against import LensQuestion
from sonde.report._shared.title import PlainTitle
from sonde.report.attention._scores import AVERAGE

title = PlainTitle(
    name="Attention heads",
    in_float32="attention rows",
    cites=("shen2022codesyntax",),
    question=LensQuestion(
        subject="Attention heads",
        measure="relations found at the first try",
        metrics=("first_hit",),
        where=AVERAGE & (pl.col("split") == "test") & (pl.col("k") == 1),
        controls={
            "offset": "a fixed-distance rule",
            "keyword": "a keyword rule",
            "combined": "the better of a fixed-distance and a keyword rule",
            "longest": "the longest word",
            "chance": "chance",
            "random_weights": "heads with random weights",
        },
    ),
)
