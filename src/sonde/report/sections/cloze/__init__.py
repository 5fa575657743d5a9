"""Sections of the lens `cloze`."""

from __future__ import annotations

import polars as pl

from sonde.report.charts import TEMPLATE
from sonde.report.controls import LensQuestion
from sonde.report.section import CrossLensNumber, PlainTitle
from sonde.report.sections.cloze._scores import WHOLE, tokens
from sonde.results.schema import dimension_value, has_dimension_names, has_dimensions

_MATCHING = pl.col("matching").is_in(["single", WHOLE, "unified"])


_CONTROLS = {
    "majority": "the most frequent answers",
    "unigram": "the most frequent subtokens",
    "random_weights": "the same model with random weights",
    "chance": "chance",
}


title = PlainTitle(
    name="Names of APIs",
    in_float32="ranks",
    cites=("zhuo2023ink",),
    question=LensQuestion(
        subject="Guesses at API names",
        measure="names right at the first try",
        metrics=("p_at_k",),
        where=has_dimensions({})
        & (pl.col("k") == 1)
        & _MATCHING
        & (pl.col("aggregation").fill_null("sum") == "sum"),
        controls=_CONTROLS,
    ),
    joined=CrossLensNumber(
        title="API names right at the first try",
        question=LensQuestion(
            subject="Guesses at API names",
            measure="names",
            metrics=("p_at_k",),
            where=has_dimension_names(TEMPLATE)
            & (pl.col("k") == 1)
            & _MATCHING
            & (pl.col("aggregation").fill_null("sum") == "sum"),
            controls=_CONTROLS,
        ),
        fact=dimension_value(TEMPLATE),
        constructs={"call": ("call",), "import": ("import",)},
        against="the best control",
        same="of names of APIs, the statements that call or import one",
    ),
    tokens=tokens,
)
