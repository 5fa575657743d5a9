"""What a run prints of the cloze lens: how often each model knows the name, beside the best control."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sonde.lenses.cloze.compared import ALIASES_APART
from sonde.results.dimensions import dimension, dimensions_named
from sonde.results.words import bounds, standing

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
        for row in rows.sort("template", "k").iter_rows(named=True):
            yield _line(row, _best_control(table, row))
    yield from _pairs(scores)


def _pairs(scores: pl.DataFrame) -> Iterator[str]:
    """How often the better of two statements is preferred, by the summed log-probability."""
    whole = dimensions_named("pair") & (pl.col("aggregation") == "sum") & pl.col("control").is_null()
    own = scores.filter((pl.col("metric") == "preferred") & whole).with_columns(pair=dimension("pair"))
    for (model, language), rows in sorted(own.group_by("model", "language"), key=lambda one: str(one[0])):
        yield ""
        yield f"{model}, statements in {language}: the better of two preferred, in %"
        for row in rows.sort("pair").iter_rows(named=True):
            name = row["pair"].replace("_", " ")
            yield f"  {name:<14} {100 * row['value']:5.1f}  {bounds(row, 100):<14} {_count(row)}"


def _best_control(table: pl.DataFrame, row: dict[str, Any]) -> str:
    same = [pl.col(name) == row[name] for name in ("model", "language", "template", "k")]
    found = table.filter(pl.col("control").is_not_null(), *same).sort("value", descending=True).head(1)
    return "".join(f"{one['control']} {100 * one['value']:.1f}" for one in found.iter_rows(named=True))


def _line(row: dict[str, Any], control: str) -> str:
    beside = f"  best control: {control}" if control else ""
    numbers = f"{100 * row['value']:5.1f}  {bounds(row, 100):<14} {_count(row)}"
    return f"  {row['template']:<12} k={row['k']:<3} {numbers}{beside}"


def _count(row: dict[str, Any]) -> str:
    return f"n={row['n']}, {row['n_clusters']} libraries{standing(row)}"
