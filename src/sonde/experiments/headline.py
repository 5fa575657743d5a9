"""What a run prints when it is done: the ten most confusing constructs of each model, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

_ROWS = 10


def headline(scores: Path) -> Iterator[str]:
    """Lines for a person, from the surprisal rows of ``scores.parquet``; nothing where there are none."""
    table = (
        pl.scan_parquet(scores)
        .filter((pl.col("lens") == "surprisal") & pl.col("slice").str.starts_with("construct="))
        .filter((pl.col("metric") == "bits") & ~pl.col("slice").str.contains(";"))
        .select("model", "language", "slice", "value", "ci_low", "ci_high", "n", "n_clusters")
        .collect()
    )
    for (model, language), rows in sorted(table.group_by("model", "language")):
        worst = rows.sort("value", descending=True, nulls_last=True).head(_ROWS)
        yield ""
        yield f"The most confusing {language} constructs for {model}, in bits a subword"
        for row in worst.iter_rows(named=True):
            name = row["slice"].partition("=")[2]
            interval = f"[{row['ci_low']:.2f}, {row['ci_high']:.2f}]" if row["ci_low"] is not None else ""
            count = f"n={row['n']}, {row['n_clusters']} clusters"
            yield f"  {name:<22} {row['value']:6.2f}  {interval:<16} {count}"
