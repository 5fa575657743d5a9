"""Tables of items: how items are stored, and how jobs in other processes read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from sonde.corpora import Given, Item, Tag
from sonde.results.schema import Columns, scan_files, to_schema
from sonde.store.run_folder import RunDirectory

_LABEL_SCHEMA = {
    "task": pl.String,
    "label": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "other_start": pl.Int64,
    "other_end": pl.Int64,
    "split": pl.String,
}


ITEMS_COLUMNS: Columns = {
    "corpus": (pl.String, "the corpus, as named by the user"),
    "item_id": (
        pl.String,
        "hash of the content in the file, the language and the unit; equal content is one item",
    ),
    "identifier": (pl.String, "id given by the source, else `item_id`"),
    "language": (pl.String, "public name"),
    "unit": (pl.String, "`function` or `file`"),
    "path": (pl.String, "path of the file inside the corpus"),
    "name": (pl.String, "qualified name of the function, else the file's name"),
    "offset": (pl.Int64, "first character in the file"),
    "cluster": (pl.String, "the unit of resampling"),
    "repository": (pl.String, "repository, in which definitions are looked up"),
    "licence": (pl.String, "licence, if known"),
    "context": (pl.String, "text that the model reads before the item; empty for none"),
    "docstring": (pl.String, "the function's documentation; empty where there is none"),
    "text": (pl.String, "the code"),
    "bytes": (pl.Int64, "size of the text in UTF-8"),
    "characters": (pl.Int64, "size of the text in characters"),
    "tags": (
        pl.List(pl.Struct({"start": pl.Int64, "end": pl.Int64, "label": pl.String})),
        "the user's labels on characters of the text",
    ),
    "given": (
        pl.List(pl.Struct(_LABEL_SCHEMA)),
        "labels from the source; -1 if there is no second place",
    ),
    "cuts": (pl.List(pl.Int64), "characters that start a new subword"),
    "oldest": (
        pl.String,
        "day on which its oldest part was last changed; this and the next two columns are empty without "
        "--cut-off",
    ),
    "newest": (pl.String, "day on which its newest part was last changed"),
    "period": (pl.String, "`before` or `after` the day of --cut-off"),
    "original": (pl.String, "with --transform, `item_id` of the item before it; else empty"),
}
"""Columns of ``items.parquet`` and ``inputs.parquet``, one row an item."""


ITEMS_SCHEMA = to_schema(ITEMS_COLUMNS)


SCORED_ITEMS = (
    "item_id", "language", "unit", "path", "name", "cluster", "repository", "licence", "bytes", "characters",
)  # fmt: skip
"""Columns of the items that lenses score with."""


_DERIVED_COLUMNS = ("corpus", "bytes", "characters", "tags", "given", "cuts")


_ITEM_FIELDS = tuple(name for name in ITEMS_SCHEMA if name not in _DERIVED_COLUMNS)


_ROW, _ORDER = "_row", "_order"


def items_to_frame(groups: Iterable[tuple[str, Sequence[Item]]]) -> pl.DataFrame:
    """Convert the items of corpora to the table of ``items.parquet``."""
    entries = [(corpus, item) for corpus, items in groups for item in items]
    columns = {name: [getattr(item, name) for _, item in entries] for name in _ITEM_FIELDS} | {
        "corpus": [corpus for corpus, _ in entries],
        "bytes": [len(item.text.encode("utf-8", "replace")) for _, item in entries],
        "characters": [len(item.text) for _, item in entries],
        "tags": [
            [{"start": tag.start, "end": tag.end, "label": tag.label} for tag in item.tags]
            for _, item in entries
        ],
        "given": [
            [{name: getattr(given, name) for name in _LABEL_SCHEMA} for given in item.given]
            for _, item in entries
        ],
        "cuts": [list(item.cuts) for _, item in entries],
    }
    return pl.DataFrame({name: columns[name] for name in ITEMS_SCHEMA}, schema=ITEMS_SCHEMA)


def frame_to_items(frame: pl.DataFrame) -> list[Item]:
    """Convert such a table to items, in its order."""
    return [
        Item(
            **{name: row[name] for name in _ITEM_FIELDS},
            tags=tuple(Tag(tag["start"], tag["end"], tag["label"]) for tag in row["tags"]),
            given=tuple(Given(**given) for given in row["given"]),
            cuts=tuple(row["cuts"]),
        )
        for row in frame.iter_rows(named=True)
    ]


def scan_inputs(run: RunDirectory, corpus: str, language: str) -> pl.LazyFrame:
    """Scan the inputs of lenses of one corpus and language: items, and texts that tasks derived."""
    return _select_group(_scan_items(run), corpus, language)


def _scan_items(run: RunDirectory) -> pl.LazyFrame:
    return scan_files([run.intact(path) for path in (run.items, run.inputs)])


def read_inputs(run: RunDirectory, corpus: str, language: str, ids: Sequence[str]) -> list[Item]:
    """Read some inputs of lenses, in the order of ``ids``, without texts far from them in the file."""
    table = _scan_items(run)
    requested_ids = pl.LazyFrame(
        {"item_id": ids, _ORDER: range(len(ids))}, {"item_id": pl.String, _ORDER: pl.Int64}
    )
    names = _select_group(
        table.select("corpus", "language", "item_id").with_row_index(_ROW), corpus, language
    )
    rows = names.join(requested_ids, on="item_id", how="semi").select(_ROW).collect()[_ROW].sort()
    if rows.is_empty():
        return []
    nearby_rows = table.slice(rows[0], rows[-1] - rows[0] + 1)
    return frame_to_items(
        _select_group(nearby_rows, corpus, language).join(requested_ids, on="item_id").sort(_ORDER).collect()
    )


def _select_group(table: pl.LazyFrame, corpus: str, language: str) -> pl.LazyFrame:
    return table.filter((pl.col("corpus") == corpus) & (pl.col("language") == language))
