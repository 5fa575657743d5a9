"""What a run prints of the cloze lens: how often each model knows the name, beside the best control."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.lenses.cloze.compared import ALIASES_APART
from sonde.results.dimensions import dimension, dimensions_named
from sonde.results.formats import PERCENT, Interval, Row
from sonde.results.tables import Column, Table, rests_on
from sonde.results.words import figures

_K = (1, 10)


def headline(scores: pl.DataFrame) -> Iterator[str]:
    """Lines for a person, from the lens's rows of ``scores.parquet``; nothing where there are none."""
    summed = pl.col("aggregation").fill_null("sum") == "sum"
    rates = scores.filter((pl.col("metric") == "p_at_k") & summed)
    single = rates.filter(pl.col("matching").is_in(["single", "candidates"]))
    # A run may have ranked among what its models share alone.
    table = (rates.filter(pl.col("matching") == "unified") if single.is_empty() else single).with_columns(
        template=dimension("template")
    )
    plain = dimensions_named("template") & (pl.col("template") != ALIASES_APART)
    table = table.filter(pl.col("k").is_in(_K) & plain)
    own = table.filter(pl.col("control").is_null())
    for (model, language), rows in sorted(own.group_by("model", "language"), key=lambda one: str(one[0])):
        yield ""
        yield f"{model} on names of {language} APIs: right among the first k, in %"
        statements = (
            Column(title="Statement", value="template"),
            Column(title="k", value=lambda row: f"k={row['k']}"),
        )
        yield from _table(rows.sort("template", "k"), *statements, controls=table)
    yield from _pairs(scores)


def _pairs(scores: pl.DataFrame) -> Iterator[str]:
    """How often the better of two statements is preferred, by the summed log-probability."""
    whole = dimensions_named("pair") & (pl.col("aggregation") == "sum") & pl.col("control").is_null()
    own = scores.filter((pl.col("metric") == "preferred") & whole).with_columns(pair=dimension("pair"))
    for (model, language), rows in sorted(own.group_by("model", "language"), key=lambda one: str(one[0])):
        yield ""
        yield f"{model}, statements in {language}: the better of two preferred, in %"
        pair = Column(title="Pair", value=lambda row: row["pair"].replace("_", " "))
        yield from _table(rows.sort("pair"), pair)


def _table(rows: pl.DataFrame, *about: Column, controls: pl.DataFrame | None = None) -> list[str]:
    """A line a row: what it is about, its share with the interval, what it rests on, and the best control."""
    rests = rests_on("library", "libraries")
    beside = Column(
        title=rests.title,
        value=lambda row: rests.cell(row).text + ("" if controls is None else _best_control(controls, row)),
    )
    share = (
        Column(title="%", format=PERCENT),
        Column(title="95 % interval", format=Interval(digits=1, scale=100, missing="")),
    )
    table = Table(summary="Right, in %", columns=(*about, *share, beside), rows=rows)
    return table.lines(headed=False, indent=2)


def _best_control(table: pl.DataFrame, row: Row) -> str:
    same = [pl.col(name) == row[name] for name in ("model", "language", "template", "k")]
    found = table.filter(pl.col("control").is_not_null(), *same).sort("value", descending=True).head(1)
    best = "".join(f"{one['control']} {figures(one, 100)}" for one in found.iter_rows(named=True))
    return f"  best control: {best}" if best else ""
