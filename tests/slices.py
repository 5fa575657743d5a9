"""The dimensions of a score as one short text, by which tests look numbers up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from sonde.results.schema import Dimensions

_SHORT: Mapping[tuple[str, str], str] = {
    ("text", "code"): "code",
    ("text", "layout"): "layout",
    ("text", "shared"): "shared",
    ("selection", "best"): "best",
    ("types", "seen"): "types seen",
    ("length", "removed"): "without length",
    ("distance", "near"): "near",
    ("distance", "far"): "far",
    ("average", "edges"): "edges",
}


def slice_of(dimensions: Dimensions) -> str:
    """Return dimensions as one text: `best;share=0.25`; `all` where there are none."""
    return ";".join(map(_part, dimensions)) or "all"


def _part(dimension: tuple[str, str]) -> str:
    name, value = dimension
    if name in ("reason", "part"):
        return value
    if name in ("followed", "epoch", "setting"):
        return {"followed": "head"}.get(name, name)
    return _SHORT.get(dimension) or f"{name}={value}"


def with_slices(scores: pl.DataFrame) -> pl.DataFrame:
    """Return a table of scores with the text of their dimensions in the column ``slice``."""
    held: Sequence[Sequence[Mapping[str, str]]] = scores["dimensions"].to_list()
    texts = [slice_of(tuple((one["name"], one["value"]) for one in each)) for each in held]
    return scores.with_columns(slice=pl.Series(texts, dtype=pl.String))
