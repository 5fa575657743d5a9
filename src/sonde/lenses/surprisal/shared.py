"""Models with different tokenizers on the same items: only the characters that all of them cover.

A lossy tokenizer is not charged for what it leaves out (blanks, words that it does not hold), so bits a
character of the whole text would favour it. Here a piece counts by the share of its characters that all
models cover; blanks at its side weigh nothing, since tokenizers put them into other pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from sonde.base.fingerprint import fingerprint
from sonde.languages._text import blank, encode
from sonde.lenses.surprisal.rows import BITS, ratio
from sonde.results import Score, means

SHARED = ("text", "shared")
"""Dimension of these scores."""

_COLUMNS = ("item_id", "language", "cluster", "position", "start", "end", "nats", "covered")
_RATIOS = (
    ratio("bits_per_byte", "nats", "bytes", factor=BITS),
    ratio("bits_per_character", "nats", "characters", factor=BITS),
    ratio("coverage", "characters", "text", "proportion"),
)
_CHARACTERS_AT_A_TIME = 5_000_000


def shared(
    own: pl.LazyFrame, beside: Sequence[pl.LazyFrame], texts: pl.LazyFrame, template: Score
) -> Iterator[Score]:
    """The overall numbers on what all models of a run cover; nothing where there is one model.

    Args:
        own: The item table of the model that is scored.
        beside: That of every other model.
        texts: ``item_id, text``.
        template: What the scores share.
    """
    if not beside:
        return
    everyone = [own, *beside]
    named = [one.select("item_id").unique().collect() for one in everyone]
    common = reduce(lambda some, more: some.join(more, on="item_id"), named).sort("item_id")
    sums: list[pl.DataFrame] = []
    for held in _few(texts.join(common.lazy(), on="item_id").sort("item_id").collect()):
        laid = _Laid.of(held)
        tables = [laid.pieces(one) for one in everyone]
        covered = np.logical_and.reduce([laid.covered(one) for one in tables])
        sums.append(laid.sums(tables[0], covered))
    if sums:
        items = fingerprint("item set", common["item_id"].to_list())
        named_so = dataclasses.replace(template, item_set=items).within(SHARED)
        kept = pl.col("characters")
        yield from means(pl.concat(sums), _RATIOS, named_so, columns=("language",), counted=kept)


def _few(texts: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Items by the few, since a character takes some bytes for each model."""
    part = texts["text"].str.len_chars().cum_sum() // _CHARACTERS_AT_A_TIME
    yield from texts.with_columns(_part=part).partition_by("_part", maintain_order=True, include_key=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Laid:
    """Texts laid end to end.

    Attributes:
        items: ``item_id``, and ``_base``: the place of its first character.
        ink: Characters that are no blanks.
        bytes: UTF-8 bytes of each character.
    """

    items: pl.DataFrame
    ink: Bool[np.ndarray, " character"]
    bytes: Int[np.ndarray, " character"]

    @classmethod
    def of(cls, texts: pl.DataFrame) -> _Laid:
        text = "".join(texts["text"])
        starts = np.frombuffer(encode(text), np.uint8) & 0xC0 != 0x80
        lengths = np.diff(np.append(np.flatnonzero(starts), len(starts)))
        base = texts["text"].str.len_chars().cast(pl.Int64).cum_sum().shift(1, fill_value=0)
        return cls(texts.select("item_id", _base=base), ~blank(text), lengths)

    def pieces(self, observations: pl.LazyFrame) -> pl.DataFrame:
        """The scored pieces of these items, where the items lie."""
        # Pads, which published code scores, are no part of a text.
        placed = (
            observations.filter(pl.col("kind") != "pad")
            .select(_COLUMNS)
            .join(self.items.lazy(), on="item_id")
        )
        moved = placed.with_columns(pl.col("start", "end").cast(pl.Int64) + pl.col("_base"))
        return moved.sort("_base", "position").collect()

    def covered(self, pieces: pl.DataFrame) -> Bool[np.ndarray, " character"]:
        """Characters that some piece stands for."""
        held = pieces.filter(pl.col("covered") > 0)
        steps = np.zeros(len(self.ink) + 1, np.int64)
        np.add.at(steps, held["start"].to_numpy(), 1)
        np.subtract.at(steps, held["end"].to_numpy(), 1)
        return np.cumsum(steps)[:-1] > 0

    def sums(self, pieces: pl.DataFrame, kept: Bool[np.ndarray, " character"]) -> pl.DataFrame:
        """By language and cluster: nats of the kept characters, and how many of what they are."""
        start, end = pieces["start"].to_numpy(), pieces["end"].to_numpy()
        weights = _share(start, end, kept, self.ink)
        own = pieces.select("language", "cluster", nats=pl.col("nats").cast(pl.Float64) * pl.Series(weights))
        firsts = pieces.group_by("_base").agg(pl.col("language", "cluster").first()).sort("_base")
        base = firsts["_base"].to_numpy()
        texts = firsts.select(
            "language",
            "cluster",
            characters=pl.Series(np.add.reduceat(kept.astype(np.int64), base)),
            bytes=pl.Series(np.add.reduceat(np.where(kept, self.bytes, 0), base)),
            text=pl.Series(np.diff(np.append(base, len(kept)))),
        )
        keys = ["language", "cluster"]
        return own.group_by(keys).sum().join(texts.group_by(keys).sum(), on=keys)


def _share(
    start: Int[np.ndarray, " piece"],
    end: Int[np.ndarray, " piece"],
    kept: Bool[np.ndarray, " character"],
    ink: Bool[np.ndarray, " character"],
) -> Float[np.ndarray, " piece"]:
    """The share of each piece's characters that is kept: of those with ink where it has some.

    A piece of no characters goes with the character behind it.
    """

    def counted(mask: Bool[np.ndarray, " character"]) -> Int[np.ndarray, " piece"]:
        before = np.concatenate([[0], np.cumsum(mask)])
        return before[np.minimum(stop, len(mask))] - before[start]

    stop = np.where(end > start, end, start + 1)
    inked = counted(ink)
    above = np.where(inked > 0, counted(kept & ink), counted(kept))
    return above / np.where(inked > 0, inked, stop - start)
