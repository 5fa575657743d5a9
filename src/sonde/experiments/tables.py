"""Items as a table and back: the one way in which jobs in other processes get their items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from sonde.corpora import Given, Item, Tag
from sonde.store.rundir import RunDirectory

_GIVEN = {
    "task": pl.String,
    "label": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "other_start": pl.Int64,
    "other_end": pl.Int64,
    "split": pl.String,
}

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
    "given": pl.List(pl.Struct(_GIVEN)),
    "cuts": pl.List(pl.Int64),
}

_COMPUTED = ("corpus", "bytes", "characters", "tags", "given", "cuts")
_COPIED = tuple(name for name in ITEMS_SCHEMA if name not in _COMPUTED)


def items_frame(groups: Iterable[tuple[str, Sequence[Item]]]) -> pl.DataFrame:
    """The table of ``items.parquet`` from corpora with their items."""
    rows = [
        {
            "corpus": corpus,
            **{name: getattr(item, name) for name in _COPIED},
            "bytes": len(item.text.encode("utf-8", "replace")),
            "characters": len(item.text),
            "tags": [{"start": tag.start, "end": tag.end, "label": tag.label} for tag in item.tags],
            "given": [{name: getattr(given, name) for name in _GIVEN} for given in item.given],
            "cuts": list(item.cuts),
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
            given=tuple(Given(**given) for given in row["given"]),
            cuts=tuple(row["cuts"]),
        )
        for row in frame.iter_rows(named=True)
    ]


def scan_inputs(run: RunDirectory, corpus: str, language: str) -> pl.LazyFrame:
    """What lenses read of a corpus in one language: items, and what tasks derived from them."""
    table = pl.scan_parquet([run.items, run.inputs])
    return table.filter((pl.col("corpus") == corpus) & (pl.col("language") == language))
