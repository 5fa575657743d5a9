"""The scores of the cloze lens as its sections read them: who answers, which statements, at which k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sonde.report._shared.at_k import TEMPLATE, TEMPLATES, with_k
from sonde.report._shared.plot import Table
from sonde.report._shared.run import RunData
from sonde.results.dimensions import dimension, dimensions_named
from sonde.results.formats import WithHalf
from sonde.results.tables import Column, sized

LENS = "cloze"

ANSWERERS: Mapping[str, str] = {
    "": "model",
    "majority": "most frequent answers",
    "unigram": "most frequent subtokens",
    "random_weights": "random weights",
    "chance": "chance",
}
"""Controls beside the model itself, in the order in which they are shown."""

COMMON = "model, of what every model was asked"

OF_STATEMENTS = dimension(TEMPLATE).is_not_null()
"""Scores of one kind of statement, or of a part of its queries."""

WHOLE = "candidates"
"""The matching where whole statements were scored."""


def hits(run: RunData) -> pl.DataFrame:
    """P@k of the single answer by template, controls among the rows, with ``k``, ``who`` and ``subject``."""
    return _named(run, headline_rows(_rates(run))).with_columns(
        who=pl.col("control").fill_null("").replace(dict(ANSWERERS))
    )


def common_hits(run: RunData) -> pl.DataFrame:
    """P@k over what every model of the run was asked, as `hits`; none where the run has one model."""
    rows = _rates(run).filter(pl.col("matching") == "common")
    return _named(run, rows).with_columns(who=pl.lit(COMMON))


def _rates(run: RunData) -> pl.DataFrame:
    return run.scores(metrics=["p_at_k"], where=OF_STATEMENTS, lens=LENS, controls=True)


def _named(run: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    held = rows.filter(dimensions_named(TEMPLATE)).with_columns(label=dimension(TEMPLATE))
    held = held.filter(pl.col("label").is_in(list(TEMPLATES)))
    return with_k(run, held).with_columns(statement=pl.col("label").replace(dict(TEMPLATES)))


def headline_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the single answer; of whole statements those by the summed log-probability.

    Where a run ranked among what its models share alone, these are the rows of that ranking.
    """
    summed = rows.filter(pl.col("aggregation").fill_null("sum") == "sum")
    single = summed.filter(pl.col("matching").is_in(["single", WHOLE]))
    return summed.filter(pl.col("matching") == "unified") if single.is_empty() else single


def parts(run: RunData, metrics: Sequence[str], cut: str) -> pl.DataFrame:
    """Scores of one cut of each statement, with ``statement``, ``group`` and ``subject``."""
    rows = headline_rows(run.scores(metrics=metrics, where=OF_STATEMENTS, lens=LENS))
    rows = rows.filter(dimensions_named(TEMPLATE, cut))
    rows = rows.with_columns(template=dimension(TEMPLATE), group=dimension(cut))
    rows = rows.filter(pl.col("template").is_in(list(TEMPLATES)))
    return with_k(run, rows).with_columns(statement=pl.col("template").replace(dict(TEMPLATES)))


def percent(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with value and interval in %."""
    return rows.with_columns(pl.col("value", "ci_low", "ci_high") * 100)


def table_of_k(summary: str, rows: pl.DataFrame, lead: Mapping[str, str]) -> Table:
    """A table as INK prints them: a line a group, a column a k, in %, with half the width of its interval.

    Seven intervals do not fit beside each other; these are even on both sides, so half of one says all.

    Args:
        summary: What it holds.
        rows: Scores with ``k``.
        lead: Heading and column of whatever makes a group.
    """
    records: list[dict[str, Any]] = []
    for part in rows.partition_by(list(lead.values()), maintain_order=True):
        by_k = {row["k"]: row for row in part.iter_rows(named=True)}
        records.append({**by_k[min(by_k)], "by_k": by_k})
    return Table(
        summary=f"{summary}, ± half of the 95 % interval",
        columns=[
            *(Column(title=title, value=name) for title, name in lead.items()),
            *(
                Column(
                    title=f"P@{k}",
                    value=lambda row, k=k: row["by_k"].get(k),
                    format=WithHalf(digits=1, scale=100),
                    help=f"The name that was asked for is among the first {k} answers.",
                )
                for k in sorted(rows["k"].drop_nulls().unique().to_list())
            ),
            *sized(clusters="Libraries"),
        ],
        rows=records,
    )
