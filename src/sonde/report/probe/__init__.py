"""Sections of the lens `probe`."""

from __future__ import annotations

import polars as pl

from sonde.report._shared.against import LensQuestion
from sonde.report._shared.title import PlainTitle
from sonde.report.probe._scores import BEST

title = PlainTitle(
    name="Probes",
    cites=("karmakar2024inspect", "hewitt2019control"),
    question=LensQuestion(
        subject="Probes",
        measure="examples right",
        metrics=("accuracy",),
        where=BEST & (pl.col("split") == "test") & pl.col("method").ne_missing("mlp"),
        controls={
            "majority": "the commonest class",
            "length": "the length of the code",
            "bag_of_tokens": "a bag of tokens",
            "parse_error": "whether the code parses",
            "surface": "the spelling of the token",
        },
    ),
)
