"""What a number is about beyond its columns: names with values, and expressions that choose rows by them.

A score over one tag has the dimension ``tag``, one over the calls that leave a repository ``origin``, and so
on, in the order in which they qualify the number; a score over everything has none. Values are any text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

Dimensions = tuple[tuple[str, str], ...]
"""Name and value of each dimension, the outermost first."""

DIMENSIONS = pl.List(pl.Struct({"name": pl.String, "value": pl.String}))
"""Type of the column ``dimensions``."""

REASON = "reason"
"""Dimension of a row that stands for what was not scored: why."""

SELECTION = "selection"
"""Dimension of the one number of several, for example of several layers, that validation chose."""

_COLUMN = pl.col("dimensions")


def dimension(name: str) -> pl.Expr:
    """The value of a dimension in a table of scores; null in rows without it.

    >>> rows = [[{"name": "tag", "value": "a;b"}]]
    >>> table = pl.DataFrame({"dimensions": rows}, {"dimensions": DIMENSIONS})
    >>> table.select(tag=dimension("tag"), kind=dimension("kind")).row(0)
    ('a;b', None)
    """
    element = pl.element().struct
    chosen = element.field("value").filter(element.field("name") == name)
    return _COLUMN.list.eval(chosen).list.first()


def dimensions_named(*names: str) -> pl.Expr:
    """Whether the dimensions of a row are exactly those, whatever their values; without names: none."""
    held = _COLUMN.list.eval(pl.element().struct.field("name"))
    same = [held.list.contains(name) for name in names]
    return pl.all_horizontal(held.list.len() == len(names), *same)


def dimensions_are(values: Mapping[str, str]) -> pl.Expr:
    """Whether the dimensions of a row are exactly those, with these values.

    >>> rows = [[{"name": "tag", "value": "a"}], []]
    >>> table = pl.DataFrame({"dimensions": rows}, {"dimensions": DIMENSIONS})
    >>> table.select(some=dimensions_are({"tag": "a"}), none=dimensions_are({})).rows()
    [(True, False), (False, True)]
    """
    same = [dimension(name).eq_missing(value) for name, value in values.items()]
    return pl.all_horizontal(_COLUMN.list.len() == len(values), *same)


def in_words(dimensions: pl.Expr = _COLUMN, *, between: str = " ", without: Sequence[str] = ()) -> pl.Expr:
    """The dimensions of a row for a reader, for example ``"epochs 2, fraction 0.33"``; empty without any.

    Args:
        dimensions: The column, or a part of its lists.
        between: What stands between a name and its value.
        without: Names of dimensions that are left out.
    """
    element = pl.element().struct
    written = pl.concat_str(element.field("name"), element.field("value"), separator=between)
    kept = written.filter(~element.field("name").is_in(list(without)))
    return dimensions.list.eval(kept).list.join(", ")


def named(dimensions: Dimensions) -> str:
    """Return the dimensions of one number as `in_words` has them.

    >>> named((("shared", "tokens"), ("role", "function")))
    'shared tokens, role function'
    """
    return ", ".join(f"{name} {value}" for name, value in dimensions)
