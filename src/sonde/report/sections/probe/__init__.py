"""Sections of the lens `probe`."""

from __future__ import annotations

import polars as pl

from sonde.report.controls import LensQuestion
from sonde.report.section import CrossLensNumber, PlainTitle
from sonde.report.sections.probe._scores import BEST, CONSTRUCTS, tokens
from sonde.results.schema import dimension_value

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
            "artefacts": "what the making of the examples left",
            "surface": "the spelling of the token",
            "type": "the usual class of the token",
            "distance": "how far apart the two are",
            "chosen_baseline": "the baseline that validation chose",
        },
        of_layer=True,
    ),
    joined=CrossLensNumber(
        title="Probe, tokens of a class told",
        question=LensQuestion(
            subject="Probes",
            measure="tokens of a class",
            metrics=("confusion",),
            where=(pl.col("split") == "test")
            & pl.col("task").is_in(["ktx", "idn"])
            & (dimension_value("gold") == dimension_value("predicted")),
        ),
        fact=pl.concat_str(pl.col("task").str.to_uppercase(), dimension_value("gold"), separator=" "),
        constructs=CONSTRUCTS,
        against="chance, one in the number of classes",
        level=1 / dimension_value("gold").n_unique(),
        inside=True,
        same="of probes, the classes of keywords, operators and names that stand in it: KFC is every keyword "
        "of control flow, so that it stands for branches and loops alike",
    ),
    tokens=tokens,
)
