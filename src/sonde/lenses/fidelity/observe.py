"""Sums of what two models predict, by function and slice, and the places where they differ most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sonde.alignment import split_segments
from sonde.base.errors import CaptureError
from sonde.capture.fidelity import ComparedSubwords
from sonde.lenses.engine.layout import Layout, constructs
from sonde.lenses.engine.lens import CapturedItem
from sonde.results.fidelity import LENS
from sonde.results.schema import Columns, to_schema

STEPS = 64
"""Bins of divergences in a doubling: the ends of one are 1.1 % apart."""


LEAST_KL = 2.0**-40
"""Nats below which all divergences share a bin; float32 rounds by more."""


PLACE = "place"
"""Value of the column ``dimension`` for a single place."""


DIMENSIONS = ("text", "kind", "role", "construct", "position")


_REACHES = ((256, "256 and more"), (64, "64-255"), (16, "16-63"), (1, "1-15"))
"""Subwords of the function before a subword, as slices of the dimension ``position``."""


_FLIPS, _FARTHEST = 6, 2
"""Most places that are kept of a function: flips, and others by their divergence."""


ROWS_COLUMNS: Columns = {
    "item_id": (pl.String, "the item"),
    "cluster": (pl.String, "its cluster"),
    "language": (pl.String, "its language"),
    "dimension": (
        pl.String,
        "what the row sums by: `text`, `kind`, `role`, `construct` or `position`; `place` for one subword",
    ),
    "slice": (pl.String, "the value of the dimension; of `text`: `all`, `code`, `layout` or `first`"),
    "n": (pl.Int32, "subwords"),
    "text_bytes": (pl.Int32, "bytes of text that they answer for"),
    "kl": (pl.Float64, "divergence of the model from the base in nats, KL(base ‖ model), summed"),
    "kl_reverse": (pl.Float64, "KL(model ‖ base) in nats, summed"),
    "nats": (pl.Float64, "surprisal for the model in nats, summed"),
    "base_nats": (pl.Float64, "surprisal for the base in nats, summed"),
    "distance": (pl.Float64, "absolute differences of the two in nats, summed"),
    "squares": (pl.Float64, "squared differences of the probability of the actual subword, summed"),
    "same": (pl.Int32, "subwords of which both models have the same first choice"),
    "won": (pl.Int32, "subwords that are the first choice of the model and not of the base"),
    "lost": (pl.Int32, "subwords that are the first choice of the base and not of the model"),
    "bins": (
        pl.List(pl.Int16),
        "a histogram of the divergences: the bin of each subword, sorted; a doubling has 64 bins",
    ),
    "start": (pl.Int32, "of a place: its first character; else null"),
    "end": (pl.Int32, "one past its last character"),
    "subword": (pl.String, "the subword of the text"),
    "choice": (pl.String, "first choice of the model"),
    "base_choice": (pl.String, "first choice of the base"),
}


_SCHEMA = to_schema(ROWS_COLUMNS)


_KEYS = ("item_id", "cluster", "language")


_SUMMED = (
    "text_bytes", "kl", "kl_reverse", "nats", "base_nats", "distance", "squares", "same", "won", "lost",
)  # fmt: skip


def observe_items(observed: Sequence[CapturedItem], surfaces: Sequence[str]) -> pl.DataFrame:
    """Return the rows of a few items in `ROWS_COLUMNS`.

    Args:
        observed: The items with their comparisons.
        surfaces: Readable surface of each vocabulary id.

    Raises:
        CaptureError: The captures hold no comparison of an item's subwords.
    """
    subwords = _list_subwords(observed, surfaces)
    return pl.concat([_sum_slices(subwords), _select_places(subwords)]).sort(
        "item_id", "dimension", "slice", "start", maintain_order=True
    )


def bin_divergences(kl: pl.Expr) -> pl.Expr:
    """Return the bin of each divergence; `bin_start` is its inverse.

    >>> pl.select(bin_divergences(pl.lit(0.5))).item(), float(bin_start(np.array([-64]))[0])
    (-64, 0.5)
    """
    return (kl.clip(LEAST_KL).log(2.0) * STEPS).floor().cast(pl.Int16)


def bin_start(bins: np.ndarray) -> np.ndarray:
    """Return the smallest divergence of each bin."""
    return np.exp2(bins / STEPS)


def _list_subwords(observed: Sequence[CapturedItem], surfaces: Sequence[str]) -> pl.DataFrame:
    """Return a row for each scored subword, with its labels and what the two models say of it."""
    if not observed:
        return pl.DataFrame(schema={**_SCHEMA, **dict.fromkeys(DIMENSIONS, pl.String)}).drop("slice")
    layout = Layout.from_items([captured.prepared for captured in observed])
    compared = [_get_comparison(captured) for captured in observed]

    def join(name: str) -> np.ndarray:
        return np.concatenate([getattr(answer, name) for answer in compared])

    ids = layout.column(lambda alignment: alignment.subwords.ids)
    position = np.arange(len(layout.item)) - layout.row[layout.item]
    texts = pl.Series([*surfaces, ""], dtype=pl.String)
    choice, base_choice = join("choice"), join("base_choice")
    nats, base_nats = join("nats").astype(np.float64), join("base_nats").astype(np.float64)
    segments = [split_segments(captured.prepared.alignment.subwords) for captured in observed]
    table = pl.DataFrame(
        {
            "item_id": layout.of_items(lambda prepared: prepared.item.item_id),
            "cluster": layout.of_items(lambda prepared: prepared.item.cluster),
            "language": layout.of_items(lambda prepared: prepared.item.language),
            "kind": layout.strings(lambda alignment: alignment.kind),
            "role": layout.strings(lambda alignment: alignment.role),
            "construct": constructs(layout),
            "text": np.where(layout.layout, "layout", "code"),
            "text_bytes": np.concatenate([segment.bytes for segment in segments]),
            "start": layout.column(lambda alignment: alignment.subwords.start),
            "end": layout.column(lambda alignment: alignment.subwords.end),
            "subword": layout.strings(lambda alignment: alignment.subwords.surface),
            "kl": join("kl").astype(np.float64),
            "kl_reverse": join("kl_reverse").astype(np.float64),
            "nats": nats,
            "base_nats": base_nats,
            "distance": np.abs(nats - base_nats),
            "squares": (np.exp(-nats) - np.exp(-base_nats)) ** 2,
            "same": choice == base_choice,
            "won": (choice == ids) & (base_choice != ids),
            "lost": (choice != ids) & (base_choice == ids),
            "choice": texts.gather(choice),
            "base_choice": texts.gather(base_choice),
            "place": position,
            "scored": join("scored"),
        }
    )
    reach = pl.lit("")
    for least, name in reversed(_REACHES):
        reach = pl.when(pl.col("place") >= least).then(pl.lit(name)).otherwise(reach)
    return table.filter("scored").with_columns(
        pl.col("same", "won", "lost").cast(pl.Int32),
        n=pl.lit(1, pl.Int32),
        position=reach,
        bins=bin_divergences(pl.col("kl")),
    )


def _get_comparison(captured: CapturedItem) -> ComparedSubwords:
    item, size = captured.prepared.item, len(captured.prepared.alignment.subwords)
    answer = captured.captures[0].extra.get(LENS) if captured.captures else None
    if not isinstance(answer, ComparedSubwords) or len(answer.kl) != size:
        raise CaptureError(
            f"item {item.path!r} {item.name!r}: no comparison of its {size} subwords; capture and alignment "
            "have to use one tokenizer"
        )
    return answer


def _sum_slices(subwords: pl.DataFrame) -> pl.DataFrame:
    """Sum subwords by item, dimension and slice.

    The first subword of a text, which says how texts begin, is in `text` alone, with a part of its own.
    """
    later = subwords.filter(pl.col("place") > 0) if "place" in subwords.columns else subwords
    parts = [
        (subwords, "text", pl.lit("all")),
        (subwords, "text", pl.col("text")),
        (subwords.filter(pl.col("position") == ""), "text", pl.lit("first")),
        *((later, name, pl.col(name)) for name in DIMENSIONS[1:]),
    ]
    sums = [
        rows.with_columns(dimension=pl.lit(dimension), slice=slice_name)
        .filter(pl.col("slice") != "")
        .group_by(*_KEYS, "dimension", "slice")
        .agg(pl.col("n", *_SUMMED).sum(), pl.col("bins").sort())
        for rows, dimension, slice_name in parts
    ]
    return _fill_columns(pl.concat(sums))


def _select_places(subwords: pl.DataFrame) -> pl.DataFrame:
    """Select the places of each item that are shown: flips first, then others by their divergence."""
    flipped = pl.col("won") + pl.col("lost") > 0
    order = pl.col("kl").rank("ordinal", descending=True)
    kept = ((order.over("item_id", flipped) <= _FLIPS) & flipped) | (order.over("item_id") <= _FARTHEST)
    places = subwords.filter(kept).with_columns(
        dimension=pl.lit(PLACE), slice=pl.col("construct"), bins=pl.concat_list("bins")
    )
    return _fill_columns(places)


def _fill_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows in the columns of the table; what they lack is null."""
    columns = [
        pl.col(name).cast(kind) if name in rows.columns else pl.lit(None, kind).alias(name)
        for name, kind in _SCHEMA.items()
    ]
    return rows.select(columns)
