"""What a run prints of surprisal: the most confusing constructs of each model, with intervals."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.results.dimensions import dimension, dimensions_named
from sonde.results.words import bounds, standing

_ROWS = 10


def headline(scores: pl.DataFrame) -> Iterator[str]:
    """Lines for a person, from the lens's rows of ``scores.parquet``; nothing where there are none."""
    named = dimensions_named("construct") & (pl.col("metric") == "bits") & pl.col("control").is_null()
    table = scores.filter(named).with_columns(construct=dimension("construct"))
    for (model, language), rows in sorted(
        table.group_by("model", "language"), key=lambda entry: str(entry[0])
    ):
        worst = rows.sort("value", descending=True, nulls_last=True).head(_ROWS)
        yield ""
        masked = (worst["objective"] == "pll").any()
        what = "bits of pseudo-log-likelihood" if masked else "bits"
        yield f"The most confusing {language} constructs for {model}, in {what} a subword"
        for row in worst.iter_rows(named=True):
            count = f"n={row['n']}, {row['n_clusters']} clusters{standing(row)}"
            yield f"  {row['construct']:<22} {row['value']:6.2f}  {bounds(row, digits=2):<16} {count}"
