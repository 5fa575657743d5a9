"""Models with different tokenizers on the same items: only the characters that all of them cover.

A lossy tokenizer is not charged for what it leaves out (blanks, words that it does not hold), so bits a
character of the whole text would favour it. Here a piece counts by the share of its characters that all
models cover; blanks at its side weigh nothing, since tokenizers put them into other pieces.

Constructs and the like are compared over code tokens with the blanks before them
(`sonde.lenses.surprisal.units`), which are the same text for every tokenizer. Units with a cost under every
model are compared; the others are a row of their own (``mixed``), as is what begins a text (``first``). With
these the parts of a text add up to its cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, UInt8

from sonde.base.fingerprint import fingerprint
from sonde.languages.engine.text import encode, whitespace_mask
from sonde.lenses.surprisal.origin import OriginSummary, scores_by_origin
from sonde.lenses.surprisal.score import (
    CALL_KEYS,
    KEYS,
    PARTS,
    build_bit_rate,
    ratio_of_sums,
    score_dimension,
    sum_calls,
    sum_parts,
    sum_slices,
)
from sonde.results import Score, means
from sonde.results.group_means import Accumulator, to_fixed_point
from sonde.results.memorisation import PERIOD
from sonde.results.schema import SHARED_TOKENS
from sonde.results.units import COMPARED, mark_units, price_units, read_units

SHARED = ("text", "shared")
"""Dimension of the scores of shared characters."""


_COLUMNS = ("item_id", "language", "cluster", "position", "start", "end", "nats", "covered")


_OF_TOKENS = ("kind", "role", "tag", "construct", "library", "line_place")


_PER_BYTE = build_bit_rate("bits_per_byte", "bytes")


_RATIOS = (
    _PER_BYTE,
    build_bit_rate("bits_per_character", "characters"),
    ratio_of_sums("coverage", "characters", "text", "proportion"),
)


_PER_TOKEN = (ratio_of_sums("nats_per_token", "nats", "n"), _PER_BYTE)


_CHARACTERS_AT_A_TIME = 5_000_000


def score_common_text(
    model_rows: pl.LazyFrame,
    other_rows: Sequence[pl.LazyFrame],
    texts: pl.LazyFrame,
    template: Score,
    minimum: int,
    summary: OriginSummary | None,
    periods: pl.DataFrame,
    shared: dict[str, Any],
) -> Iterator[Score]:
    """Score the characters that all models of a run cover; yield nothing for a single model.

    Args:
        model_rows: The item table of the model that is scored.
        other_rows: That of every other model.
        texts: ``item_id, text``.
        template: What the scores share.
        minimum: Fewest code tokens that a slice needs for a row of its own.
        summary: How calls are summed up; None where code tokens are not scored.
        periods: ``item_id, period`` of items from before and after a day.
        shared: What the models have in common, found for the first of them that is scored, so that the
            tables of all are not read again for every model.
    """
    if not other_rows:
        return
    if "text" not in shared:
        shared["text"] = _find_common_text([model_rows, *other_rows], texts, with_units=summary is not None)
    common: _CommonText = shared["text"]
    sums: list[pl.DataFrame] = []
    units = _accumulators()
    batches = batch_texts(texts.join(common.items.lazy(), on="item_id").sort("item_id").collect())
    for batch, part in zip(batches, common.parts, strict=True):
        layout = _TextLayout.from_texts(batch)
        covered = np.unpackbits(part.covered, count=len(layout.ink)).astype(np.bool_)
        sums.append(layout.sums(layout.pieces(model_rows), covered))
        if part.units is not None:
            table = _read_batch_units(model_rows, batch)
            for name, rows in _sum_units(price_units(table, part.units, common.cost), periods):
                units[name].add(rows)
    if sums:
        template = dataclasses.replace(
            template, item_set=fingerprint("item set", common.items["item_id"].to_list())
        )
        size = pl.col("characters")
        yield from means(pl.concat(sums), _RATIOS, template.within(SHARED), columns=("language",), size=size)
        if summary is not None:
            unit_sums = {name: accumulator.total() for name, accumulator in units.items()}
            yield from _score_units(unit_sums, template.within(SHARED_TOKENS), minimum, summary)


@dataclass(frozen=True, slots=True, eq=False)
class _CommonPart:
    """What all models have in common in a batch of texts.

    Attributes:
        covered: Which characters all of them cover, packed into bits.
        units: Their units, see `sonde.results.units.mark_units`; None where code tokens are not scored.
    """

    covered: UInt8[np.ndarray, " byte"]
    units: pl.DataFrame | None


@dataclass(frozen=True, slots=True, eq=False)
class _CommonText:
    """What all models have in common.

    Attributes:
        items: ``item_id`` of the items that all of them read, in order.
        parts: The batches of their texts.
        cost: Column with the cost of units.
    """

    items: pl.DataFrame
    parts: list[_CommonPart]
    cost: str


def _find_common_text(
    all_rows: Sequence[pl.LazyFrame], texts: pl.LazyFrame, *, with_units: bool
) -> _CommonText:
    """Find what the models have in common, each table read once."""
    items = find_common_items(all_rows)
    parts: list[_CommonPart] = []
    cost = ""
    for batch in batch_texts(texts.join(items.lazy(), on="item_id").sort("item_id").collect()):
        layout = _TextLayout.from_texts(batch)
        covered = np.ones(len(layout.ink), np.bool_)
        for rows in all_rows:
            covered &= layout.mark_characters(layout.pieces(rows).filter(pl.col("covered") > 0))
        units = None
        if with_units:
            units, cost = mark_units((_read_batch_units(rows, batch) for rows in all_rows), cost)
        parts.append(_CommonPart(np.packbits(covered), units))
    return _CommonText(items, parts, cost)


def find_common_items(all_rows: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Return the ``item_id`` of the items that are in all tables, sorted."""
    item_ids = (rows.select("item_id").unique() for rows in all_rows)
    return reduce(lambda left, right: left.join(right, on="item_id"), item_ids).sort("item_id").collect()


def _read_batch_units(rows: pl.LazyFrame, batch: pl.DataFrame) -> pl.DataFrame:
    return read_units(rows.filter(pl.col("item_id").is_in(batch["item_id"].implode())))


def _accumulators() -> dict[str, Accumulator]:
    """Return empty sums of units by dimension."""
    return {
        **{name: Accumulator(KEYS, ("nats",)) for name in (*_PARTS_OF_TEXT, *_DIMENSIONS)},
        "calls": Accumulator(CALL_KEYS, ("nats",)),
    }


_PARTS_OF_TEXT = ("all", "text")


_DIMENSIONS = (*_OF_TOKENS, *PARTS, "name", PERIOD)


def _sum_units(units: pl.DataFrame, periods: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield sums of units by dimension."""
    units = units.with_columns(to_fixed_point(pl.col("nats")), pl.col("bytes").cast(pl.Int64))
    sums = (pl.len().cast(pl.Int64).alias("n"), pl.col("nats", "bytes").sum())
    yield "text", sum_slices(units, pl.lit("all"), sums)
    yield "text", sum_slices(units.filter(pl.col("part") != COMPARED), pl.col("part"), sums)
    compared = units.filter((pl.col("part") == COMPARED) & (pl.col("word") != "")).join(
        periods.select("item_id", PERIOD), on="item_id", how="left"
    )
    keys = {
        "all": pl.lit("all"),
        **{column: pl.col(column) for column in _OF_TOKENS},
        "name": pl.when(pl.col("kind") == "identifier").then("word").otherwise(pl.lit("")),
        PERIOD: pl.col(PERIOD).fill_null(""),
    }
    for dimension, key in keys.items():
        yield dimension, sum_slices(compared, key, sums)
    for dimension, (column, mark) in PARTS.items():
        yield dimension, sum_parts(compared, column, mark, sums)
    yield "calls", sum_calls(compared.drop("part"))


def _score_units(
    sums: dict[str, pl.DataFrame], template: Score, minimum: int, summary: OriginSummary
) -> Iterator[Score]:
    """Yield the cost of a code token, in all and by dimension, and of the parts of the text by byte."""
    yield from means(sums["all"], _PER_TOKEN, template, columns=("language",))
    yield from score_dimension(sums["text"], "text", (_PER_BYTE,), template, 1)
    for name in _DIMENSIONS:
        yield from score_dimension(sums[name], name, _PER_TOKEN, template, minimum)
    yield from scores_by_origin(sums["calls"], template, summary, metric="nats_per_token")


def batch_texts(texts: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Split texts into batches, since a character takes some bytes for each model."""
    part = texts["text"].str.len_chars().cum_sum() // _CHARACTERS_AT_A_TIME
    yield from texts.with_columns(_part=part).partition_by("_part", maintain_order=True, include_key=False)


@dataclass(frozen=True, slots=True, eq=False)
class _TextLayout:
    """Texts laid end to end.

    Attributes:
        items: ``item_id``, and ``_base``: the place of its first character.
        ink: Characters other than spaces.
        bytes: UTF-8 bytes of each character.
    """

    items: pl.DataFrame
    ink: Bool[np.ndarray, " character"]
    bytes: Int[np.ndarray, " character"]

    @classmethod
    def from_texts(cls, texts: pl.DataFrame) -> _TextLayout:
        text = "".join(texts["text"])
        starts = np.frombuffer(encode(text), np.uint8) & 0xC0 != 0x80
        lengths = np.diff(np.append(np.flatnonzero(starts), len(starts)))
        base = texts["text"].str.len_chars().cast(pl.Int64).cum_sum().shift(1, fill_value=0)
        return cls(texts.select("item_id", _base=base), ~whitespace_mask(text), lengths)

    def pieces(self, observations: pl.LazyFrame) -> pl.DataFrame:
        """Return the scored pieces of these items, with positions in the layout."""
        # Pads, which published code scores, are no part of a text.
        item_rows = (
            observations.filter(pl.col("kind") != "pad")
            .select(*_COLUMNS)
            .join(self.items.lazy(), on="item_id")
        )
        layout_rows = item_rows.with_columns(pl.col("start", "end").cast(pl.Int64) + pl.col("_base"))
        return layout_rows.sort("_base", "position").collect()

    def mark_characters(self, pieces: pl.DataFrame) -> Bool[np.ndarray, " character"]:
        """Mark the characters of these pieces."""
        steps = np.zeros(len(self.ink) + 1, np.int64)
        np.add.at(steps, pieces["start"].to_numpy(), 1)
        np.subtract.at(steps, pieces["end"].to_numpy(), 1)
        return np.cumsum(steps)[:-1] > 0

    def sums(self, pieces: pl.DataFrame, is_kept: Bool[np.ndarray, " character"]) -> pl.DataFrame:
        """Sum nats, characters and bytes of the kept characters by language and cluster."""
        start, end = pieces["start"].to_numpy(), pieces["end"].to_numpy()
        weights = _share(start, end, is_kept, self.ink)
        piece_sums = pieces.select(
            "language", "cluster", nats=pl.col("nats").cast(pl.Float64) * pl.Series(weights)
        )
        item_rows = pieces.group_by("_base").agg(pl.col("language", "cluster").first()).sort("_base")
        base = item_rows["_base"].to_numpy()
        texts = item_rows.select(
            "language",
            "cluster",
            characters=pl.Series(np.add.reduceat(is_kept.astype(np.int64), base)),
            bytes=pl.Series(np.add.reduceat(np.where(is_kept, self.bytes, 0), base)),
            text=pl.Series(np.diff(np.append(base, len(is_kept)))),
        )
        keys = ["language", "cluster"]
        return piece_sums.group_by(keys).sum().join(texts.group_by(keys).sum(), on=keys)


def _share(
    start: Int[np.ndarray, " piece"],
    end: Int[np.ndarray, " piece"],
    is_kept: Bool[np.ndarray, " character"],
    ink: Bool[np.ndarray, " character"],
) -> Float[np.ndarray, " piece"]:
    """Return the share of each piece's characters that is kept; blanks count only without ink.

    A piece without characters goes with the next character.
    """

    def count_characters(mask: Bool[np.ndarray, " character"]) -> Int[np.ndarray, " piece"]:
        cumulative = np.concatenate([[0], np.cumsum(mask)])
        return cumulative[np.minimum(stop, len(mask))] - cumulative[start]

    stop = np.where(end > start, end, start + 1)
    ink_count = count_characters(ink)
    kept_count = np.where(ink_count > 0, count_characters(is_kept & ink), count_characters(is_kept))
    return kept_count / np.where(ink_count > 0, ink_count, stop - start)
