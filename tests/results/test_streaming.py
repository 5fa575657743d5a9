"""Sums batch by batch are those of the whole table, whatever the batches are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sonde.results import group_means
from sonde.results.group_means import Accumulator, iterate_item_batches, to_fixed_point


@pytest.fixture
def table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    item = np.sort(rng.integers(0, 200, 5_000))
    return pl.DataFrame(
        {"item_id": item.astype(str), "cluster": (item % 7).astype(str), "nats": rng.gamma(2, 1, 5_000)}
    ).sort("item_id", maintain_order=True)


def test_batches_never_part_an_item(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_means, "_BATCH_ROWS", 64)
    batches = list(iterate_item_batches(table.lazy()))
    assert len(batches) > 20
    assert pl.concat(batches).equals(table)
    seen = [item for batch in batches for item in batch["item_id"].unique()]
    assert len(seen) == len(set(seen))


def test_an_empty_table_is_one_empty_batch(table: pl.DataFrame) -> None:
    (only,) = iterate_item_batches(table.clear().lazy())
    assert only.is_empty() and only.columns == table.columns


def test_sums_do_not_depend_on_the_order_of_rows_or_batches(
    table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_means, "_PENDING_ROWS", 20)
    totals = []
    for seed in range(3):
        sums = Accumulator(("cluster",), ("nats",))
        for batch in table.sample(fraction=1, shuffle=True, seed=seed).iter_slices(100 + 57 * seed):
            part = batch.with_columns(to_fixed_point(pl.col("nats")), n=pl.lit(1))
            sums.add(part.group_by("cluster").agg(pl.col("nats", "n").sum()))
        totals.append(sums.total())
    assert totals[0].equals(totals[1]) and totals[0].equals(totals[2])
    expected = table.group_by("cluster").agg(pl.col("nats").sum(), n=pl.len()).sort("cluster")
    assert totals[0]["nats"].to_list() == pytest.approx(expected["nats"].to_list(), rel=1e-6)
    assert totals[0]["n"].to_list() == expected["n"].to_list()
