"""Units of comparison between tokenizers, read from item tables and joined by model.

A unit is a code token with the blanks before it (column ``units`` of `sonde.results.schema`).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sonde.results.text_format import BITS_PER_NAT

COMPARED = "compared"
"""Part of a text with a cost under every model."""


PLACES_PER_ITEM = 2
"""Places of an item that are shown in either direction, so that one item does not fill a list."""


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


def compare_units(base: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Compare the code tokens that have a cost under both models.

    Args:
        base: Units of the base model, see `read_units`.
        other: Units of the other model.

    Returns:
        ``item_id, position, start, end, base_bits, bits``.
    """
    joined = join_units([base, other])
    # What follows the last code token is no place.
    return joined.filter((pl.col("part") == COMPARED) & (pl.col("start") < pl.col("end"))).select(
        "item_id",
        "start",
        "end",
        position="unit",
        base_bits=pl.col("nats").cast(pl.Float64) * BITS_PER_NAT,
        bits=pl.col("nats_1").cast(pl.Float64) * BITS_PER_NAT,
    )


def select_changed_places(places: pl.LazyFrame, key: str = "position") -> pl.LazyFrame:
    """Select the places of each item with the largest differences, the most positive and the most negative.

    Args:
        places: ``item_id, difference``, the key and any other columns.
        key: Column that orders places of equal differences.
    """
    difference = pl.col("difference")
    directions = ((difference.is_not_nan() & (difference > 0), True), (difference < 0, False))
    parts = [
        places.filter(is_kept)
        .group_by("item_id")
        .agg(pl.all().sort_by("difference", key, descending=[descending, False]).head(PLACES_PER_ITEM))
        .explode(pl.all().exclude("item_id"))
        for is_kept, descending in directions
    ]
    return pl.concat(parts)
