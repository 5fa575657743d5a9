"""What can be predicted of a task without the model, on the very examples that the probes are tested on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool

from sonde.corpora import Item
from sonde.lenses._lens import Scoring
from sonde.lenses.probe.data import Examples
from sonde.tasks import Dataset
from sonde.tasks._surface import surface_predictions


@dataclass(frozen=True, slots=True, eq=False)
class Surfaces:
    """Whether each baseline is right, by baseline and example."""

    correct: Mapping[str, Mapping[str, bool]]

    def of(self, examples: Examples) -> dict[str, Bool[np.ndarray, " test"]]:
        """The baselines on the tested ones of some of the examples."""
        ids = examples.frame[examples.tested]["example_id"].to_list()
        return {
            name: np.array([held[example] for example in ids], dtype=np.bool_)
            for name, held in self.correct.items()
        }


def surfaces_of(examples: Examples, scoring: Scoring) -> Surfaces:
    """Fit every surface baseline to a task's examples, in the very folds of the probes."""
    items = _items(examples, scoring)
    data = Dataset(task=examples.task, version="", examples=examples.frame, inputs=())
    folds = [(parts.train, parts.valid, parts.test) for parts in examples.folds]
    table = surface_predictions(data, items, folds)
    correct = {
        str(name): dict(zip(rows["example_id"].to_list(), rows["correct"].to_list(), strict=True))
        for (name,), rows in table.partition_by("control", as_dict=True).items()
    }
    return Surfaces(correct)


def _items(examples: Examples, scoring: Scoring) -> list[Item]:
    wanted = examples.frame.select(pl.col("item_id").unique())
    texts = scoring.texts.join(wanted.lazy(), on="item_id", how="semi").collect()
    kinds = scoring.items.select("item_id", "language", "unit", "path", "name").unique("item_id")
    return [
        Item(
            item_id=row["item_id"],
            text=row["text"],
            language=row["language"],
            unit=row["unit"],
            path=row["path"],
            name=row["name"],
            offset=0,
            cluster="",
            repository="",
        )
        for row in texts.unique("item_id").join(kinds, on="item_id").iter_rows(named=True)
    ]
