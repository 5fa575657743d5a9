"""sonde.lenses.probe.examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Num

from sonde.base.errors import InputError
from sonde.training.probes.splits import Splits, make_grouped_folds

IS_WHOLE = (pl.col("start") == 0) & (pl.col("end") == pl.col("characters")) & pl.col("other_start").is_null()
"""Whether an example is about the whole of its text."""


States = Float[np.ndarray, "layer example d_model"]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """A task's examples as arrays, in one order.

    Attributes:
        task: Public name.
        frame: Their rows in `sonde.tasks.EXAMPLE_SCHEMA`.
        classes: Names of the classes, numbers in their order.
        labels: Class of each example.
        values: The number before classes; NaN where there is none.
        lengths: Code tokens and characters of each text.
        clusters: What is resampled as one, by its number among all clusters of the task.
        folds: Rows that train, choose and are tested, in each fold; one fold where a split is given.
    """

    task: str
    frame: pl.DataFrame
    classes: tuple[str, ...]
    labels: Int[np.ndarray, " example"]
    values: Float[np.ndarray, " example"]
    lengths: Float[np.ndarray, "example length"]
    clusters: Int[np.ndarray, " example"]
    folds: tuple[Splits, ...]

    @classmethod
    def from_frame(cls, task: str, frame: pl.DataFrame) -> Examples:
        """Examples of a table, in its own splits; rows without a label are left out."""
        frame = frame.filter(pl.col("label").is_not_null())
        classes = tuple(sorted(frame["label"].unique().to_list(), key=_as_number))
        number = {label: index for index, label in enumerate(classes)}
        return cls(
            task=task,
            frame=frame,
            classes=classes,
            labels=np.array([number[label] for label in frame["label"].to_list()], dtype=np.int64),
            values=frame["value"].fill_null(float("nan")).to_numpy(),
            lengths=frame.select("tokens", "characters").to_numpy().astype(np.float64),
            clusters=frame["cluster"].rank("dense").to_numpy().astype(np.int64) - 1,
            folds=(Splits.from_names(frame["split"].to_list()),),
        )

    def assign_folds(self, folds: int, seed: int) -> Examples:
        """The examples dealt to so many folds by cluster; a split that the source brings stays as it is.

        Raises:
            InputError: There are fewer than three clusters.
        """
        if self.frame["given_split"].any():
            return self
        try:
            return replace(self, folds=make_grouped_folds(self.labels, self.clusters, folds, seed))
        except InputError as error:
            raise InputError(f"task {self.task!r}: {error}") from error

    def select(self, rows: Int[np.ndarray, " row"]) -> Examples:
        """Some of the examples, each in its fold; classes that none of them has are gone."""
        place = np.full(len(self.labels), -1)
        place[rows] = np.arange(len(rows))
        folds = [
            Splits(*(held[held >= 0] for held in (place[part] for part in (one.train, one.valid, one.test))))
            for one in self.folds
        ]
        # Clusters keep their numbers, which name them.
        kept = Examples.from_frame(self.task, self.frame[rows])
        return replace(kept, folds=tuple(folds), clusters=self.clusters[rows])

    @property
    def tested_rows(self) -> Int[np.ndarray, " tested"]:
        """Rows that are tested, fold after fold: the order of all that is predicted."""
        return np.concatenate([parts.test for parts in self.folds])

    @property
    def types(self) -> list[str]:
        """Surface of each token; empty for other tasks."""
        return self.frame["type"].to_list()

    @property
    def about_tokens(self) -> bool:
        """Whether the examples are tokens."""
        return bool((self.frame["type"] != "").any())

    @property
    def are_texts(self) -> bool:
        """Whether every example is a whole text."""
        return self.frame.filter(~IS_WHOLE).is_empty()


def _as_number(label: str) -> tuple[float, str]:
    """Numbers in their order, other names after them in theirs."""
    try:
        return float(label), ""
    except ValueError:
        return float("inf"), label


@dataclass(frozen=True, slots=True, eq=False)
class FittedProbes:
    """Probes on every layer, of one fold or of several whose tested examples follow each other.

    Attributes:
        kind: ``linear``, ``mlp``, or what a published protocol calls its own.
        predicted: Class that each layer's probe gives to each tested example.
        correct: Whether it is right; a share of the seeds where there are several.
        valid: Validation accuracy of each layer, the mean over folds.
        l2: Penalty of each layer, the one that most folds chose.
        layers: The layer that each fold chose on its own validation part.
        sizes: Examples that each fold tests.
    """

    kind: str
    predicted: Int[np.ndarray, "layer tested"]
    correct: Bool[np.ndarray, "layer tested"] | Float[np.ndarray, "layer tested"]
    valid: Float[np.ndarray, " layer"]
    l2: Float[np.ndarray, " layer"]
    layers: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def best(self) -> int:
        """The layer that most folds chose; of equals the better one on validation."""
        times = Counter(self.layers)
        return max(times, key=lambda layer: (times[layer], self.valid[layer], -layer))

    def at_best_layer(self, table: Num[np.ndarray, "layer tested"]) -> Num[np.ndarray, " tested"]:
        """Of a table by layer, what the layer says that was chosen in the fold of each tested example."""
        return table[np.repeat(self.layers, self.sizes), np.arange(table.shape[1])]
