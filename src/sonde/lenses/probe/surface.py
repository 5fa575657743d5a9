"""What can be predicted of a task without the model, on the very examples that the probes are tested on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from jaxtyping import Bool

from sonde.corpora import Item
from sonde.lenses._lens import Scoring
from sonde.lenses.probe.data import Examples
from sonde.tasks import Dataset
from sonde.tasks._surface import surface_predictions

Surfaces = Mapping[str, Mapping[str, bool]]
"""Whether each baseline is right, by baseline and example."""


def on_tested(surfaces: Surfaces, examples: Examples) -> dict[str, Bool[np.ndarray, " test"]]:
    """The baselines on the tested ones of some of the examples."""
    ids = examples.frame[examples.tested]["example_id"].to_list()
    return {name: np.array([held[one] for one in ids], np.bool_) for name, held in surfaces.items()}


def surfaces_of(examples: Examples, scoring: Scoring) -> Surfaces:
    """Fit every surface baseline to a task's examples, in the very folds of the probes."""
    items = _items(examples, scoring)
    data = Dataset(task=examples.task, version="", examples=examples.frame, inputs=())
    folds = [(parts.train, parts.valid, parts.test) for parts in examples.folds]
    table = surface_predictions(data, items, folds)
    return {
        str(name): dict(zip(rows["example_id"].to_list(), rows["correct"].to_list(), strict=True))
        for (name,), rows in table.partition_by("control", as_dict=True).items()
    }


def _items(examples: Examples, scoring: Scoring) -> list[Item]:
    wanted = examples.frame.select(pl.col("item_id").unique())
    texts = scoring.texts.join(wanted.lazy(), on="item_id", how="semi").collect()
    kinds = scoring.items.select("item_id", "language", "unit", "path", "name").unique("item_id")
    named = texts.select("item_id", "text").unique("item_id").join(kinds, on="item_id")
    return [Item(**row) for row in named.iter_rows(named=True)]
