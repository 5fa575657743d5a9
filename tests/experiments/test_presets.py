"""Comparisons whose outcome is known beforehand: rounding changes little, weights drawn anew nearly all."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sonde
from sonde.models import derive

LOST = ("If:if->test", "Attribute:value->attr", "children:parent->child")
"""Relations that heads of the bundled encoder follow and random ones do not; named before they were tried."""


@pytest.mark.slow
def test_what_rounding_and_random_weights_change(tmp_path: Path) -> None:
    derived = [derive("sonde/mini-encoder", tmp_path / kind, kind) for kind in ("int8", "random")]
    run = sonde.run(
        models=["sonde/mini-encoder", *map(str, derived)],
        lenses="attention",
        corpora="stdlib",
        limit=120,
        output=tmp_path / "run",
    )
    assert (run.directory / "comparison" / "comparison.parquet").is_file()
    rows = sonde.compare(run).differences.filter(pl.col("metric") == "first_hit")
    rounded, random = (rows.filter(pl.col("model") == str(path)) for path in derived)
    for relation in LOST:
        named = pl.lit({"name": "relation", "value": relation})
        (row,) = random.filter(pl.col("dimensions").list.contains(named)).to_dicts()
        assert row["outcome"] == "worse", row
    overall = random.row(0, named=True)
    assert random["difference"].max() < 0.05
    assert overall["base_value"] > 0.15
    # Rounding moves no number by more than some points, and the table says what would have been found.
    assert rounded["difference"].abs().max() < 0.2
    decided = rounded.filter(pl.col("outcome") != "undecided").height
    assert decided <= random.filter(pl.col("outcome") == "worse").height / 2
