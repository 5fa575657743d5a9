"""Sections of the lens `finetune`."""

from __future__ import annotations

import polars as pl

from sonde.report.controls import LensQuestion
from sonde.report.section import PlainTitle
from sonde.report.sections.finetune._scores import METHODS, SCRATCH
from sonde.results.schema import has_dimensions

title = PlainTitle(
    name="Fine-tuning",
    cites=("kanade2020cubert",),
    question=LensQuestion(
        subject="Fine-tuned models",
        measure="examples right",
        metrics=("localisation_repair", "accuracy"),
        where=has_dimensions({}) & (pl.col("split") == "test"),
        controls={
            **{name: words for name, words in METHODS.items() if name},
            SCRATCH: "the same architecture from scratch",
            "bag_of_tokens": "a bag of tokens",
            "bag_of_bigrams": "tokens and their neighbours",
            "ngram_surprisal": "n-grams of functions with and without bugs",
            "majority": "the commonest class",
            "length": "the length of the code",
            "parse_error": "whether the code parses",
            "artefacts": "what the making of the examples left",
        },
        outcome=True,
    ),
)
