"""Schemas of tables: columns with types and meanings, declared once for polars and the docs.

Besides what every table needs, the module holds the dimensions of scores and the columns of two tables: the
items of the surprisal lens, and the answers of a lens to single tested examples, kept along with its scores.

Dimensions say what a number is about beyond its columns: names with values, and expressions that select rows
by them. A score over one tag has the dimension ``tag``, one over the calls that leave a repository
``origin``, and so on, in the order in which they qualify the number; a score over everything has none.
Values are any text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

ColumnType = pl.DataType | type[pl.DataType]


Columns = Mapping[str, tuple[ColumnType, str]]
"""Columns in their order, each with its type and, in one line of Markdown, what it holds."""


def scan_files(paths: Path | list[Path]) -> pl.LazyFrame:
    """Scan several Parquet files lazily as one table; names are taken literally.

    Unasked, polars reads ``*``, ``?`` and brackets in a path as a pattern.
    """
    return pl.scan_parquet(paths, glob=False, hive_partitioning=False)


def to_schema(columns: Columns) -> dict[str, ColumnType]:
    """Return the polars schema of columns.

    >>> to_schema({"nats": (pl.Float32, "surprisal")})
    {'nats': Float32}
    """
    return {name: kind for name, (kind, _) in columns.items()}


Dimensions = tuple[tuple[str, str], ...]
"""Name and value of each dimension, the outermost first."""


DIMENSIONS = pl.List(pl.Struct({"name": pl.String, "value": pl.String}))
"""Type of the column ``dimensions``."""


REASON = "reason"
"""Dimension of a row that stands for what was not scored: why."""


SELECTION = "selection"
"""Dimension of the one number of several, for example of several layers, that validation chose."""


_COLUMN = pl.col("dimensions")


def dimension_value(name: str) -> pl.Expr:
    """Return an expression for the value of a dimension; null in rows without it.

    >>> rows = [[{"name": "tag", "value": "a;b"}]]
    >>> table = pl.DataFrame({"dimensions": rows}, {"dimensions": DIMENSIONS})
    >>> table.select(tag=dimension_value("tag"), kind=dimension_value("kind")).row(0)
    ('a;b', None)
    """
    element = pl.element().struct
    value = element.field("value").filter(element.field("name") == name)
    return _COLUMN.list.eval(value).list.first()


def get_dimensions(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of the dimensions of a row of scores, by their names."""
    return {dimension["name"]: dimension["value"] for dimension in row["dimensions"]}


def has_dimension_names(*names: str) -> pl.Expr:
    """Return whether a row has exactly these dimensions, whatever their values; without names: none."""
    row_names = _COLUMN.list.eval(pl.element().struct.field("name"))
    conditions = [row_names.list.contains(name) for name in names]
    return pl.all_horizontal(row_names.list.len() == len(names), *conditions)


def has_dimensions(values: Mapping[str, str]) -> pl.Expr:
    """Return whether a row has exactly these dimensions with these values.

    >>> rows = [[{"name": "tag", "value": "a"}], []]
    >>> table = pl.DataFrame({"dimensions": rows}, {"dimensions": DIMENSIONS})
    >>> table.select(some=has_dimensions({"tag": "a"}), none=has_dimensions({})).rows()
    [(True, False), (False, True)]
    """
    conditions = [dimension_value(name).eq_missing(value) for name, value in values.items()]
    return pl.all_horizontal(_COLUMN.list.len() == len(values), *conditions)


def dimensions_text(
    dimensions: pl.Expr = _COLUMN, *, separator: str = " ", exclude: Sequence[str] = ()
) -> pl.Expr:
    """Format the dimensions of a row as text, for example ``"epochs 2, fraction 0.33"``; empty without any.

    Args:
        dimensions: The column, or a part of its lists.
        separator: Text between a name and its value.
        exclude: Names of dimensions to omit.
    """
    element = pl.element().struct
    texts = pl.concat_str(element.field("name"), element.field("value"), separator=separator)
    remaining = texts.filter(~element.field("name").is_in(list(exclude)))
    return dimensions.list.eval(remaining).list.join(", ")


def format_dimensions(dimensions: Dimensions) -> str:
    """Format the dimensions of one score like `dimensions_text`.

    >>> format_dimensions((("shared", "tokens"), ("role", "function")))
    'shared tokens, role function'
    """
    return ", ".join(f"{name} {value}" for name, value in dimensions)


UNIT_FIELDS: Columns = {
    "unit": (pl.Int32, "index of the code token; one past the last for what follows it"),
    "start": (pl.Int32, "first character of the code token, in the item"),
    "end": (pl.Int32, "end of its characters, exclusive"),
    "bytes": (pl.Int32, "UTF-8 bytes of the code token and the whitespace before it"),
    "word": (pl.String, "text of the code token"),
    "kind": (pl.String, "token kind"),
    "role": (pl.String, "token role"),
    "tag": (pl.String, "`parent -> node`"),
    "construct": (pl.String, "innermost construct"),
    "ancestors": (pl.String, "as the column `ancestors`"),
    "origin": (pl.String, "as the column `origin`"),
    "origin_part": (pl.String, "as the column `origin_part`"),
    "call_form": (pl.String, "as the column `call_form`"),
    "library": (pl.String, "as the column `library`"),
    "user_tag": (pl.String, "as the column `user_tag`"),
    "line_place": (
        pl.String,
        "place of the code token in its line: `1`, `2`, `3 to 5`, `6 to 10`, `above 10`",
    ),
    "nats": (
        pl.Float64,
        "surprisal up to the end, given the text up to the beginning; they add up to the text",
    ),
    "part": (
        pl.String,
        "`exact`; `first` if nothing of the text is before it; `mixed` if an end is not known, since a "
        "subword crosses it and there are no logits, or if characters are in no subword",
    ),
    "piece_nats": (pl.Float64, "sum over its subwords; null unless subwords begin and end where it does"),
}
"""Fields of the column ``units``: a code token with the whitespace before it, which is the
same text for any tokenizer."""


COMPLETION_FIELDS: Columns = {
    "cursor": (
        pl.String,
        "the place: `inside a string or comment`, `line start` (whitespace aside), `after .` (also `?.`, "
        "`->`, `::`), `after (`, `inside a name` or `other`",
    ),
    "kind": (pl.String, "token kind of the code token there"),
    "role": (pl.String, "its role"),
    "construct": (pl.String, "innermost construct around it"),
    "start": (pl.Int32, "the subword's first non-whitespace character, which counts"),
    "line_end": (pl.Int32, "end of the line, trailing whitespace aside"),
    "end": (
        pl.Int32,
        "end of what was generated from here as a place in the item; null unless that was asked for",
    ),
}
"""Fields of the column ``completion``: what a completion that begins with the subword is counted from."""


OBSERVATIONS_COLUMNS: Columns = {
    "item_id": (pl.String, "the item"),
    "file": (pl.String, "its path"),
    "cluster": (pl.String, "its unit of resampling"),
    "language": (pl.String, "public name"),
    "position": (pl.Int32, "index among the item's subwords"),
    "start": (pl.Int32, "first character, in the item"),
    "end": (pl.Int32, "end of its characters, exclusive"),
    "subword": (pl.String, "readable surface"),
    "subword_id": (pl.Int32, "its id in the vocabulary"),
    "nats": (pl.Float32, "surprisal"),
    "rank": (
        pl.Int32,
        "rank among the vocabulary: 1 = best, near-ties pessimistic; null if a server does not give it",
    ),
    "entropy": (pl.Float32, "entropy of the prediction, in nats; null if a server does not give it"),
    "context": (pl.Int32, "subwords of the item that the model could see"),
    "bytes": (pl.Int16, "UTF-8 bytes that the subword stands for"),
    "text_characters": (
        pl.Int32,
        (
            "size of the text from the end of the previous subword to the end of this one; adds up "
            "to the text, even if a tokenizer leaves out parts"
        ),
    ),
    "text_bytes": (pl.Int32, "the same in UTF-8 bytes"),
    "covered": (
        pl.Int32,
        "of `text_characters` those that the subword itself stands for; 0 for the unknown subword",
    ),
    "file_nats": (
        pl.Float32,
        "`nats` after the text of the item's file; null, as the next four, unless the run reads that",
    ),
    "file_rank": (pl.Int32, "`rank` there"),
    "file_entropy": (pl.Float32, "`entropy` there"),
    "file_context": (pl.Int32, "subwords that the model could see there, those of the file included"),
    "file_top_nats": (pl.Float32, "surprisal of the best alternative there"),
    "kind": (pl.String, "token kind; `layout` for whitespace, `merged` for subwords over several tokens"),
    "role": (pl.String, "token role"),
    "tag": (pl.String, "`parent -> node`"),
    "merged": (pl.Int16, "number of code tokens in the subword"),
    "token": (pl.Int32, "index of the (first) code token, -1 for layout"),
    "word": (pl.String, "its text if the subword is in one token"),
    "construct": (pl.String, "innermost construct"),
    "ancestors": (pl.String, "distinct kinds of the ancestors, outermost first, joined by `/`"),
    "origin": (pl.String, "of a call: `internal`, `local`, `builtin`, `external` or empty"),
    "origin_part": (pl.String, "of a call: `name` or `arguments`"),
    "call_form": (pl.String, "of a call: `bare` or `method`"),
    "library": (pl.String, "of a call through an import: its library, such as `json`; else empty"),
    "user_tag": (pl.String, "labels of the user, joined by a vertical bar"),
    "units": (
        pl.List(pl.Struct({name: kind for name, (kind, _) in UNIT_FIELDS.items()})),
        "code tokens that end in the subword, each with the whitespace before it, to compare tokenizers",
    ),
    "completion": (
        pl.Struct({name: kind for name, (kind, _) in COMPLETION_FIELDS.items()}),
        "of a decoder, the place before the subword as a cursor; null for a subword of whitespace",
    ),
    "top": (pl.List(pl.String), "best alternatives, best first"),
    "top_nats": (pl.List(pl.Float32), "their surprisal"),
}
"""Columns of the surprisal lens's item table, one row a scored subword."""


OBSERVATIONS_SCHEMA = to_schema(OBSERVATIONS_COLUMNS)


FILE_COLUMNS = tuple(name for name in OBSERVATIONS_SCHEMA if name.startswith("file_"))
"""What a subword cost behind the text of its file; null where that was not asked for."""


IS_FIRST = (pl.col("context") == 0).fill_null(value=False)
"""Whether a model that reads from left to right had nothing of the text before a subword."""


FIRST_PART = ("text", "first")
"""Dimension of the scores of these subwords; they are in no other slice."""


SHARED_TOKENS = ("shared", "tokens")
"""Dimension, before the others, of scores over the code tokens that every model of a run scores."""


SHARED_PLACES = ("shared", "places")
"""Dimension, before the others, of scores over the places at which every model of a run begins a subword."""


ANSWERS_COLUMNS: Columns = {
    "task": (pl.String, "the task"),
    "item_id": (pl.String, "the input that the example is in"),
    "start": (pl.Int32, "first character of the labelled span"),
    "end": (pl.Int32, "end of its characters, exclusive"),
    "whole": (pl.Boolean, "it is the whole text"),
    "layer": (pl.Int16, "the layer chosen on validation, if there are layers"),
    "said": (
        pl.String,
        "the predicted class; no probe was trained on the cluster of its example",
    ),
    "label": (pl.String, "the right class"),
}
"""Columns of ``answers/lens=LENS/model=MODEL/*.parquet``, one row a tested example."""


ANSWERS = to_schema(ANSWERS_COLUMNS)
