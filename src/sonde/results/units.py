"""Units of comparison between tokenizers, read from item tables and joined by model.

A unit is a code token with the blanks before it (column ``units`` of `sonde.results.schema`).
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import polars.selectors as cs

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


def mark_units(tables: Iterable[pl.DataFrame], cost: str = "") -> tuple[pl.DataFrame, str]:
    """Mark which units have a cost under every model, from the units of one model at a time.

    Args:
        tables: Units by model, see `read_units`.
        cost: ``nats``, or ``piece_nats`` where a model has no logits; empty to choose: exact costs where
            every model has some, since without the logits there are sums over subwords alone.

    Returns:
        The units of all models: ``item_id, unit`` and ``part``: ``compared`` where all have a cost, else
        ``first`` or ``mixed``; and the cost.
    """
    keys, flags = ["item_id", "unit"], ("is_first", "is_exact", "is_cut")
    marked: pl.DataFrame | None = None
    has_logits = True
    for table in tables:
        own = table.select(
            *keys,
            is_first=pl.col("part") == "first",
            is_exact=pl.col("part") == "exact",
            is_cut=pl.col("piece_nats").is_not_null(),
        )
        has_logits &= bool(own["is_exact"].any())
        if marked is None:
            marked = own
            continue
        joined = marked.join(own, on=keys, how="inner", maintain_order="left", suffix="_1")
        marked = joined.select(
            *keys,
            pl.col("is_first") | pl.col("is_first_1"),
            *(pl.col(name) & pl.col(f"{name}_1") for name in flags[1:]),
        )
    assert marked is not None
    cost = cost or ("nats" if has_logits else "piece_nats")
    is_compared = pl.col("is_exact" if cost == "nats" else "is_cut")
    part = (
        pl.when("is_first")
        .then(pl.lit("first"))
        .when(is_compared)
        .then(pl.lit(COMPARED))
        .otherwise(pl.lit("mixed"))
    )
    return marked.select(*keys, part=part.cast(_PARTS)), cost


_PARTS = pl.Enum(["first", COMPARED, "mixed"])


def price_units(table: pl.DataFrame, marked: pl.DataFrame, cost: str) -> pl.DataFrame:
    """Return the units of a model that all models have, with their ``part`` and what they cost (``nats``).

    Args:
        table: Units of the model.
        marked: Units of all models, see `mark_units`.
        cost: The column with the cost of compared units.
    """
    frame = table.drop("part").join(marked, on=["item_id", "unit"], how="inner", maintain_order="left")
    # What is in no row of its own counts by what is known, so that the parts add up to the text.
    return frame.with_columns(
        pl.col("part").cast(pl.String), nats=pl.when(pl.col("part") == COMPARED).then(cost).otherwise("nats")
    )


def compare_units(base: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Compare the code tokens that have a cost under both models.

    Args:
        base: Units of the base model, see `read_units`.
        other: Units of the other model.

    Returns:
        ``item_id, position, start, end, base_bits, bits``.
    """
    marked, cost = mark_units([base, other])
    first, second = (price_units(table, marked, cost) for table in (base, other))
    joined = first.join(
        second.select("item_id", "unit", other_nats="nats"),
        on=["item_id", "unit"],
        how="inner",
        maintain_order="left",
    )
    # What follows the last code token is no place.
    return joined.filter((pl.col("part") == COMPARED) & (pl.col("start") < pl.col("end"))).select(
        "item_id",
        "start",
        "end",
        position="unit",
        base_bits=pl.col("nats").cast(pl.Float64) * BITS_PER_NAT,
        bits=pl.col("other_nats").cast(pl.Float64) * BITS_PER_NAT,
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
        .explode(cs.exclude("item_id"))
        for is_kept, descending in directions
    ]
    return pl.concat(parts)
