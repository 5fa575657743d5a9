"""Which items and places of a comparison moved most: what a model finds likelier or less likely than another.

For every lens whose item tables hold a negative log-probability by place (a subword, an answer).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sonde.results.columns import Columns, schema_of

MOVED_COLUMNS: Columns = {
    "base": (pl.String, "the model that is held against"),
    "model": (pl.String, "the other model"),
    "lens": (pl.String, "what measured it"),
    "of": (pl.String, "`place` (a subword, an answer) or `item` (the mean over its places)"),
    "item_id": (pl.String, "the item"),
    "path": (pl.String, "path of its file inside the corpus"),
    "name": (pl.String, "its qualified name"),
    "start": (pl.Int32, "first character of the place, in the item; null for an item or an answer"),
    "end": (pl.Int32, "end of its characters, exclusive; null likewise"),
    "text": (pl.String, "the place, or the beginning of the item"),
    "before": (pl.String, "what stands before it"),
    "after": (pl.String, "what stands behind it"),
    "n": (pl.Int64, "places that the value is a mean over"),
    "base_bits": (pl.Float64, "negative log-probability under the base, in bits"),
    "bits": (pl.Float64, "the same under the model"),
    "difference": (pl.Float64, "`bits` minus `base_bits`: above 0 the model is less sure"),
}
"""Columns of ``moved.parquet``, one row a place or item, those that moved most in either direction."""

KEPT = 50
"""Places, and items, that are kept in either direction."""

_AROUND = 48
_BITS = 1.4426950408889634
_FEWEST = 10
"""Places that an item needs for its mean to be looked at."""


def moved(tables: Sequence[pl.LazyFrame], items: pl.LazyFrame) -> pl.DataFrame | None:
    """What moved most between two item tables over the same items.

    Args:
        tables: That of the model that is held against, and that of the other.
        items: ``item_id, path, name, text``.

    Returns:
        Rows of `MOVED_COLUMNS` without ``base``, ``model`` and ``lens``; None where the tables hold no
        negative log-probabilities by place.
    """
    columns = [set(table.collect_schema().names()) for table in tables]
    key = next((one for one in ("position", "query_id") if all(one in held for held in columns)), None)
    if key is None or not all("nats" in held for held in columns):
        return None
    place = [name for name in ("start", "end") if key == "position"]
    first, second = (
        table.filter(pl.col(key).is_not_null()).select(
            "item_id", key, *place, bits=pl.col("nats").cast(pl.Float64) * _BITS
        )
        for table in tables
    )
    on = ["item_id", key, *place]
    joined = first.rename({"bits": "base_bits"}).join(second, on=on, how="inner")
    apart = joined.with_columns(difference=pl.col("bits") - pl.col("base_bits"))
    named = items.select("item_id", "path", "name", pl.col("text").alias("_text")).unique("item_id")
    by_item = apart.group_by("item_id").agg(
        pl.len().alias("n"), pl.col("base_bits", "bits", "difference").mean()
    )
    parts = [
        _ends(apart.with_columns(n=pl.lit(1, pl.Int64)), "place"),
        _ends(by_item.filter(pl.col("n") >= _FEWEST), "item"),
    ]
    found = pl.concat(parts, how="diagonal_relaxed").lazy().join(named, on="item_id", how="left")
    order = {"item": 1, "place": 0}
    wanted = [name for name in MOVED_COLUMNS if name not in ("base", "model", "lens")]
    schema = schema_of(MOVED_COLUMNS)
    lacking = [pl.lit(None).alias(name) for name in ("start", "end") if not place]
    return (
        found.with_columns(*lacking)
        .with_columns(*_shown())
        .sort(pl.col("of").replace_strict(order), "difference", "item_id", descending=[False, True, False])
        .select(pl.col(name).cast(schema[name]) for name in wanted)
        .collect()
    )


def _ends(rows: pl.LazyFrame, of: str) -> pl.DataFrame:
    """The rows that moved most in either direction."""
    ends = [rows.bottom_k(KEPT, by="difference"), rows.top_k(KEPT, by="difference")]
    found = pl.concat([end.collect(engine="streaming") for end in ends]).unique()
    return found.with_columns(of=pl.lit(of))


def _shown() -> list[pl.Expr]:
    """The place with what stands around it; an item, or a statement that is asked about, by its beginning."""
    text, start, end = pl.col("_text").fill_null(""), pl.col("start"), pl.col("end")
    whole = start.is_null()
    before = (start - _AROUND).clip(0)
    return [
        pl.when(whole)
        .then(text.str.slice(0, 2 * _AROUND))
        .otherwise(text.str.slice(start, end - start))
        .alias("text"),
        pl.when(whole).then(pl.lit("")).otherwise(text.str.slice(before, start - before)).alias("before"),
        pl.when(whole).then(pl.lit("")).otherwise(text.str.slice(end, _AROUND)).alias("after"),
    ]
