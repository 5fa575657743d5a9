"""Sections of the lens `causal`."""

from __future__ import annotations

import polars as pl

from sonde.lenses.causal.findings import NAMES
from sonde.report.run_tables import RunData
from sonde.report.section import LensTitle
from sonde.results.tables import Column

LENS = "causal"


PROPERTY = Column(title="Property", value=lambda row: NAMES.get(row["task"], row["task"]))


def read_all_scores(run: RunData) -> pl.DataFrame:
    """Read every score of the lens, controls included, with the name of each model as shown."""
    return run.every_score.filter(pl.col("lens") == LENS).with_columns(
        shown=pl.col("model").replace(run.labels)
    )


title = LensTitle(
    name="Interventions",
    question=(
        "What does the model use? Something is taken out of its states or put into them, and what that costs "
        "its predictions is measured."
    ),
    counts={
        "": "subword",
        "accuracy": "example",
        "gain": "example",
        "hits": "edge",
        "hits_excess": "edge",
        "recovered": "pair",
        "margin_change": "pair",
        "prefers_right": "pair",
        "aligned": "exchange",
        "spearman": "cell",
    },
    cites=(
        *("belrose2023leace", "elazar2021amnesic", "zhang2024patching", "kramar2024atp"),
        *("nostalgebraist2020logit", "belrose2023tuned"),
    ),
    method_text=(
        "States are changed during a forward pass, and surprisal is measured again. Erasing a property "
        "removes it from the states of one layer so that no linear probe finds it there (LEACE, fitted on "
        "the training split). It is erased at every subword of a function, or at the tokens that the "
        "property is about. Controls erase labels without the property: those of other functions, a class "
        "drawn for each word, the same in another order. Others erase the same number of directions, drawn "
        "uniformly or so that they move states as far (matched). A masked model predicts a seventh of the "
        "code tokens, hidden together; a decoder predicts all."
    ),
)
