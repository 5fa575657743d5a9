"""Which examples are trained on, chosen on and tested on."""

from __future__ import annotations

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.lenses.finetune.options import FinetuneOptions

TEST, EXTERNAL = "test", "external"
TESTED = (TEST, EXTERNAL)
"""Splits that are scored: the corpus's own, and an external test set."""


def splits_of(examples: pl.DataFrame, options: FinetuneOptions) -> dict[str, pl.DataFrame]:
    """The examples of each split; of train and valid as much as is asked for, chosen by hash."""
    parts = {
        name: examples.filter(pl.col("split").is_in(held)).sort("example_id")
        for name, held in (("train", ("train",)), ("valid", ("valid",)), ("test", TESTED))
    }
    train = parts["train"]
    size = max(1, round(options.fraction * train.height))
    return {
        "train": _some(train, "fraction", size),
        "valid": _some(parts["valid"], "valid", options.valid),
        "test": parts["test"],
    }


def _some(rows: pl.DataFrame, why: str, size: int) -> pl.DataFrame:
    if rows.height <= size:
        return rows
    drawn = pl.Series([unit_hash(why, name) for name in rows["example_id"].to_list()])
    return rows[drawn.arg_sort()[:size].sort()]
