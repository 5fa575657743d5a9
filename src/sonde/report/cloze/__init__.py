"""Sections of the lens `cloze`."""

from __future__ import annotations

import polars as pl

from sonde.report._shared.against import LensQuestion
from sonde.report._shared.title import PlainTitle
from sonde.report.cloze._scores import WHOLE
from sonde.results.dimensions import dimensions_are

title = PlainTitle(
    name="Names of APIs",
    in_float32="ranks",
    cites=("zhuo2023ink",),
    question=LensQuestion(
        subject="Guesses at API names",
        measure="names right at the first try",
        metrics=("p_at_k",),
        where=dimensions_are({})
        & (pl.col("k") == 1)
        & pl.col("matching").is_in(["single", WHOLE, "unified"])
        & (pl.col("aggregation").fill_null("sum") == "sum"),
        controls={
            "majority": "the most frequent answers",
            "unigram": "the most frequent subtokens",
            "random_weights": "the same model with random weights",
            "chance": "chance",
        },
    ),
)
