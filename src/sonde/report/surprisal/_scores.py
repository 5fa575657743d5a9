"""The scores and observations of surprisal as its sections read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sonde.report._shared.numbers import count, spelled, with_interval
from sonde.report._shared.run import ModelInfo, RunData
from sonde.results.dimensions import dimension, dimensions_are, dimensions_named
from sonde.results.observations import FIRST, FIRST_PART, OBSERVATIONS_SCHEMA, SHARED_TOKENS
from sonde.results.words import standing

LENS = "surprisal"

MIN_COUNT = 20
"""Occurrences below which a slice is not ranked; said on the page."""

BITS_PER_NAT = 1.4426950408889634

_APART = "Each model is over its own subwords and inputs: numbers of two models are of other text."

PER_SUBWORD, PER_TOKEN = "bits per subword", "bits per code token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The rows of a table that may set several models side by side.

    Attributes:
        rows: The rows, in bits, with ``label``: the value of the dimension.
        unit: What they are in.
        whole: What all that was counted costs, a row a model and language.
        apart: Whether each of several models is over text of its own, so that none stands beside another.
    """

    rows: pl.DataFrame
    unit: str
    whole: pl.DataFrame
    apart: bool

    @property
    def shared(self) -> bool:
        """Whether several models are over the code tokens that all of them have whole."""
        return self.unit == PER_TOKEN

    @property
    def notes(self) -> list[str]:
        """What stands below a table of them, where there are several models."""
        if self.apart:
            return [_APART]
        if not self.shared:
            return []
        return [
            f"{spelled(language)}: over the {count(n)} code tokens that every model of the run has whole, so "
            "that all are over the same text; the numbers over each model's own text are in scores.parquet."
            for language, n in self.whole.group_by("language")
            .agg(pl.col("n").first())
            .sort("language")
            .rows()
        ]


def slices(run: RunData, *by: str, task: str = "", metric: str = "bits") -> Slices:
    """Rows by the values of dimensions: of several models over the code tokens that all of them have whole.

    Tokens that one tokenizer alone cuts out, and inputs that one model alone read, would make other text of
    the same construct. Where the run has no such rows each model is by itself.

    Args:
        run: The run.
        by: The dimensions; the last is ``label``.
        task: Of one task only, where given.
        metric: What the rows over a model's own text are: ``bits`` or ``nats`` of its subwords.
    """

    def named(metric: str, *outer: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        # Bits are scaled by nothing, nats by the bits in one.
        scale = 1.0 if metric == "bits" else BITS_PER_NAT
        parts = (
            run.scores(lens=LENS, metrics=[metric], where=dimensions_named(*outer, *by), task=task),
            run.scores(lens=LENS, metrics=[metric], where=dimensions_named(*outer)).filter(
                pl.col("task") == ""
            ),
        )
        rows, whole = (rows.with_columns(pl.col("value", "ci_low", "ci_high") * scale) for rows in parts)
        return rows.with_columns(label=dimension(by[-1])), whole

    own, whole = named(metric)
    if own["model"].n_unique() < 2:
        return Slices(rows=own, unit=PER_SUBWORD, whole=whole, apart=False)
    shared, of_shared = named("nats_per_token", SHARED_TOKENS[0])
    if shared.is_empty():
        return Slices(rows=own, unit=PER_SUBWORD, whole=whole, apart=True)
    return Slices(rows=shared, unit=PER_TOKEN, whole=of_shared, apart=False)


def own_notes(run: RunData) -> list[str]:
    """What stands below single subwords of several models, which are no units that these have in common."""
    return [_APART] if run.scores(lens=LENS, metrics=["bits"])["model"].n_unique() > 1 else []


def observed(run: RunData, model: ModelInfo, columns: Sequence[str]) -> pl.LazyFrame:
    """The item table of one model, these columns only; empty where the run lacks it or one of them."""
    frame = run.table(LENS, model)
    if frame is None or not set(columns) <= set(frame.collect_schema().names()):
        return pl.DataFrame(schema={name: OBSERVATIONS_SCHEMA[name] for name in columns}).lazy()
    return frame.select(columns)


def first_rows(run: RunData) -> pl.DataFrame:
    """What the first subwords of texts cost, a row a model and language that sets them apart."""
    return run.scores(lens=LENS, metrics=["bits"], where=dimensions_are(dict([FIRST_PART])))


def is_first(run: RunData, model: ModelInfo) -> pl.Expr:
    """Whether a row of `observed`, which needs the column ``context``, is in none of the model's slices."""
    return FIRST if model.name in first_rows(run)["model"] else pl.lit(value=False)


def first_notes(run: RunData) -> list[str]:
    """What stands below a table of slices: how many subwords are in none of them, and what these cost."""
    return [
        f"{row['shown']}, {spelled(row['language'])}: the subword that begins a text, before which the model "
        f"has nothing of it, is in no row; the mean of {count(row['n'])} is {with_interval(row)} "
        f"bits{standing(row)}."
        for row in first_rows(run).sort("shown", "language").iter_rows(named=True)
    ]


SURPRISES = ("surprises most", "surprises least")
"""What the highest and the lowest of several means of surprisal do."""
