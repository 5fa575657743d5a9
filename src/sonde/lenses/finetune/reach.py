"""What of a test set can be answered rightly within the limit, and how much of it cannot."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.results import Mean
from sonde.training.finetuning.recipe import KEEP

OUT_OF_REACH, CEILING, TRUNCATED = "out_of_reach", "ceiling", "truncated"
"""Metrics: the share of the examples whose label rests on what is not read, the most that any answers could
get right, and the share of which something is not read."""

REACHABLE = ("reachable", "true")
"""Dimension of scores over the examples whose label rests on what is read, where others are asked as well."""


def beyond(examples: pl.DataFrame) -> pl.Series:
    """Ids of the examples whose label rests on something that one of the methods does not read."""
    return examples.filter(~pl.col("reached"))["example_id"].unique()


def without(examples: pl.DataFrame, out: pl.Series) -> pl.DataFrame:
    """The other examples."""
    return examples.filter(~pl.col("example_id").is_in(out.implode()))


def asked(examples: pl.DataFrame, cut: str) -> pl.DataFrame:
    """The examples that count: all of them, or those within reach."""
    return examples if cut == KEEP else without(examples, beyond(examples))


def cut_off(examples: pl.DataFrame) -> Iterator[tuple[Mean, pl.DataFrame]]:
    """How much of a test set one training does not read, with the examples that it is a share of.

    Of a pointer, something is cut off where there is an error of which it or all its repairs are not read.
    """
    first = examples.filter(pl.col("seed") == pl.col("seed").min())
    known = first.filter(pl.col("reached").is_not_null())
    if not known.is_empty():
        yield Mean(OUT_OF_REACH, ~pl.col("reached")), known
    wrong = first.filter(pl.col("truncated").is_not_null() & pl.col("buggy").fill_null(value=True))
    if not wrong.is_empty():
        yield Mean(TRUNCATED, pl.col("truncated")), wrong


def ceilings(examples: pl.DataFrame) -> dict[str, float]:
    """The most that any answers of one method could get right, by metric; nothing where it reads everything.

    Examples of which the same is read get the same answer, so of contradictory ones the most frequent label
    is right at best. An error that is not read is not found.
    """
    rows = examples.filter((pl.col("seed") == pl.col("seed").min()) & pl.col("read").is_not_null())
    if rows.is_empty():
        return {}
    pointer = rows["buggy"].is_not_null().all()
    counted = rows.group_by("read", "buggy" if pointer else "label").len()
    best = float(counted.group_by("read").agg(pl.col("len").max())["len"].sum()) / rows.height
    if not pointer:
        return {"accuracy": best}
    found = {"classification": best, "accuracy": _share(~(rows["buggy"] & rows["truncated"]))}
    wrong = rows.filter("buggy")
    if not wrong.is_empty():
        found["localisation"] = _share(wrong["locatable"])
        found["localisation_repair"] = _share(~wrong["truncated"])
    return found


def _share(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).sum()) / len(values)
