"""Items as a table and back: the one way in which jobs in other processes get their items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from sonde.corpora import Item, Tag

ITEMS_SCHEMA = {
    "corpus": pl.String,
    "item_id": pl.String,
    "identifier": pl.String,
    "language": pl.String,
    "unit": pl.String,
    "path": pl.String,
    "name": pl.String,
    "offset": pl.Int64,
    "cluster": pl.String,
    "repository": pl.String,
    "licence": pl.String,
    "context": pl.String,
    "docstring": pl.String,
    "text": pl.String,
    "bytes": pl.Int64,
    "characters": pl.Int64,
    "tags": pl.List(pl.Struct({"start": pl.Int64, "end": pl.Int64, "label": pl.String})),
}

_COPIED = tuple(name for name in ITEMS_SCHEMA if name not in ("corpus", "bytes", "characters", "tags"))


def items_frame(groups: Iterable[tuple[str, Sequence[Item]]]) -> pl.DataFrame:
    """The table of ``items.parquet`` from corpora with their items."""
    rows = [
        {
            "corpus": corpus,
            **{name: getattr(item, name) for name in _COPIED},
            "bytes": len(item.text.encode("utf-8", "replace")),
            "characters": len(item.text),
            "tags": [{"start": tag.start, "end": tag.end, "label": tag.label} for tag in item.tags],
        }
        for corpus, items in groups
        for item in items
    ]
    return pl.DataFrame(rows, schema=ITEMS_SCHEMA, orient="row")


def items_from(frame: pl.DataFrame) -> list[Item]:
    """The items of such a table, in its order."""
    return [
        Item(
            **{name: row[name] for name in _COPIED},
            tags=tuple(Tag(tag["start"], tag["end"], tag["label"]) for tag in row["tags"]),
        )
        for row in frame.iter_rows(named=True)
    ]
