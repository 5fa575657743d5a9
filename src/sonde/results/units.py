"""Units of comparison between tokenizers, read from item tables and joined by model.

A unit is a code token with the blanks before it (column ``units`` of `sonde.results.schema`).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

COMPARED = "compared"
"""Part of a text with a cost under every model."""


def read_units(observations: pl.LazyFrame) -> pl.DataFrame:
    """Read the units of an item table: ``item_id, language, cluster``, and the fields of ``units``."""
    return (
        observations.filter(pl.col("units").is_not_null())
        .select("item_id", "language", "cluster", "units")
        .explode("units")
        .unnest("units")
        .collect()
    )


def choose_cost(tables: Sequence[pl.DataFrame]) -> str:
    """Return the column that all models have: without the logits there are sums over subwords alone."""
    has_logits = all((table["part"] == "exact").any() for table in tables)
    return "nats" if has_logits else "piece_nats"


def join_units(tables: Sequence[pl.DataFrame], cost: str = "") -> pl.DataFrame:
    """Join the units of several models on the same items.

    Args:
        tables: Units by model, see `read_units`.
        cost: ``nats``, or ``piece_nats`` where a model has no logits; empty to choose.

    Returns:
        The units of the first model with ``nats`` (its cost) and ``part``: ``compared`` where all models have
        a cost, else ``first`` or ``mixed``; of every other model its cost as ``nats_1``, ``nats_2`` ...
    """
    cost = cost or choose_cost(tables)
    keys = ["item_id", "unit"]
    frame = tables[0]
    for number, table in enumerate(tables[1:], start=1):
        other = table.select(*keys, pl.col("nats", "part", "piece_nats").name.suffix(f"_{number}"))
        frame = frame.join(other, on=keys, how="inner", maintain_order="left")
    suffixes = ("", *(f"_{number}" for number in range(1, len(tables))))
    is_first = pl.any_horizontal(pl.col(f"part{suffix}") == "first" for suffix in suffixes)
    is_compared = pl.all_horizontal(
        (pl.col(f"part{suffix}") == "exact")
        if cost == "nats"
        else pl.col(f"piece_nats{suffix}").is_not_null()
        for suffix in suffixes
    )
    # What is in no row of its own counts by what is known, so that the parts add up to the text.
    return frame.with_columns(
        part=pl.when(is_first)
        .then(pl.lit("first"))
        .when(is_compared)
        .then(pl.lit(COMPARED))
        .otherwise(pl.lit("mixed")),
        **{
            f"nats{suffix}": pl.when(is_compared & ~is_first)
            .then(f"{cost}{suffix}")
            .otherwise(f"nats{suffix}")
            for suffix in suffixes
        },
    )
