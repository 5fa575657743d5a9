"""The scores of the cloze lens as its sections read them: who answers, which statements, at which k."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.report._run import RunData

LENS = "cloze"

TEMPLATES: Mapping[str, str] = {
    "call": "calls",
    "import": "imports",
    "alias": "aliases",
    "adversarial": "adversarial aliases",
}

ANSWERERS: Mapping[str, str] = {
    "": "model",
    "majority": "most frequent answers",
    "unigram": "most frequent pieces",
    "random_weights": "random weights",
    "chance": "chance",
}
"""Controls beside the model itself, in the order in which they are shown."""

TEMPLATE = "template="


def hits(run: RunData) -> pl.DataFrame:
    """P@k of the single answer by template, controls among the rows, with ``k``, ``who`` and ``subject``."""
    rows = run.scores(metrics=["p_at_k"], prefix=TEMPLATE, lens=LENS, controls=True)
    rows = headline_rows(rows).filter(pl.col("label").is_in(list(TEMPLATES)))
    return rows.with_columns(
        k=pl.col("params").struct.field("k"),
        who=pl.col("control").fill_null(""),
        subject=run.subject,
    )


def headline_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the single answer; of whole statements those by the summed log-probability."""
    single = pl.col("params_name").is_in(["single", "candidates"])
    return rows.filter(single & (pl.col("params").struct.field("other").fill_null("sum") == "sum"))


def differences(run: RunData, name: str) -> pl.DataFrame:
    """Paired differences under a slice such as ``template=alias-adversarial``, with ``k`` and ``subject``."""
    rows = run.scores(metrics=["p_at_k"], slices=[name], lens=LENS)
    return rows.with_columns(k=pl.col("params").struct.field("k"), subject=run.subject)
