"""Sections of the lens `attention`."""

from __future__ import annotations

import polars as pl

from sonde.report.controls import LensQuestion
from sonde.report.section import CrossLensNumber, PlainTitle
from sonde.report.sections.attention._scores import AVERAGE, CONSTRUCTS, RELATION, tokens
from sonde.results.schema import dimension_value, has_dimension_names

_CONTROLS = {
    "offset": "a fixed-distance rule",
    "keyword": "a keyword rule",
    "combined": "the better of a fixed-distance and a keyword rule",
    "longest": "the longest word",
    "chance": "chance",
    "random_weights": "heads with random weights",
}


title = PlainTitle(
    name="Attention heads",
    in_float32="attention rows",
    cites=("shen2022codesyntax",),
    question=LensQuestion(
        subject="Attention heads",
        measure="relations found at the first try",
        metrics=("first_hit",),
        where=AVERAGE & (pl.col("split") == "test") & (pl.col("k") == 1),
        controls=_CONTROLS,
    ),
    joined=CrossLensNumber(
        title="Best head, edges found",
        question=LensQuestion(
            subject="The best head",
            measure="edges",
            metrics=("first_hit",),
            where=has_dimension_names(RELATION) & (pl.col("split") == "test") & (pl.col("k") == 1),
            controls=_CONTROLS,
        ),
        fact=dimension_value(RELATION),
        constructs=CONSTRUCTS,
        against="the best rule or other control",
        inside=True,
        same="of attention, the relations that it is the head of, each by the head chosen on validation",
    ),
    tokens=tokens,
)
