"""The properties that are erased: which of their examples count, and where their states stand in the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.base.fingerprint import unit_hash
from sonde.lenses.causal.interventions import unpack_states
from sonde.lenses.engine.lens import ScoringContext
from sonde.stats.estimate import kish
from sonde.tasks.engine.task import TASKS

SAMPLED = 12
"""Tokens of a function, and subwords, whose states are looked at."""

FEWEST = 10
"""Functions of a class below which it is left out."""

CLUSTERS = 20
"""Effective clusters that maps are fitted to, below which there is no verdict and nothing is erased."""

A_DIMENSION = 2
"""Examples a dimension of the states below which nothing is erased: with fewer, a map takes along what only
chance ties to the classes, and whatever it costs says nothing about them."""

Place = tuple[int, int]


def erased_properties(labels: Mapping[str, pl.DataFrame]) -> list[str]:
    """The properties that are erased."""
    return [task for task in labels if TASKS.load(task).target in ("span", "item")]


def is_function_property(task: str) -> bool:
    """Whether a property is one of whole functions."""
    return TASKS.load(task).target == "item"


def collect_labelled_tokens(labels: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, tuple[Place, ...]]]:
    """For each property of tokens, the labelled places of each function."""
    found: dict[str, dict[str, tuple[Place, ...]]] = {}
    for task in erased_properties(labels):
        if not is_function_property(task):
            rows = labels[task].filter(pl.col("label").is_not_null()).sort("item_id", "start")
            held = rows.group_by("item_id", maintain_order=True).agg("start", "end")
            found[task] = {item: tuple(zip(start, end, strict=True)) for item, start, end in held.iter_rows()}
    return found


def sample_spans(item: str, places: Sequence[Place]) -> list[Place]:
    """The places of a function whose states are looked at."""
    return sorted(sorted(places, key=lambda place: unit_hash("token", item, place[0]))[:SAMPLED])


@dataclass(frozen=True, slots=False, eq=False)
class PropertyExamples:
    """The examples of one property, in order.

    Attributes:
        task: The property.
        frame: ``item_id, label, split, cluster``, of tokens also ``start, end``; those with states.
        every: The same of all labelled examples of those functions.
        places: Of tokens those that stand for all of a function's: ``item_id, start, end``, and how many
            labelled ones the function has.
        by_item: Text of each function.
    """

    task: str
    frame: pl.DataFrame
    every: pl.DataFrame
    places: pl.DataFrame
    by_item: Mapping[str, str]

    @classmethod
    def from_labels(
        cls,
        task: str,
        scoring: ScoringContext,
        splits: Mapping[str, str],
        texts: Mapping[str, str] | None = None,
    ) -> PropertyExamples:
        """All examples of a property; classes of too few functions of the training split are left out."""
        side = pl.DataFrame(
            {"item_id": list(splits), "split": list(splits.values())},
            schema={"item_id": pl.String, "split": pl.String},
        )
        labels = scoring.labels[task].filter(pl.col("label").is_not_null())
        rows = labels.join(side, on="item_id").join(scoring.items.select("item_id", "cluster"), on="item_id")
        train = rows.filter(pl.col("split") == "train")
        sizes = train.group_by("label").agg(pl.col("item_id").n_unique())
        kept = sizes.filter(pl.col("item_id") >= FEWEST)["label"].implode()
        keys = key_columns(task)
        found = rows.filter(pl.col("label").is_in(kept)).select(*keys, "label", "split", "cluster").sort(keys)
        return cls(task, found, found, _sampled_spans(task, labels), texts or {})

    def select(self, split: str, rows: pl.DataFrame) -> PropertyExamples:
        """Those of one split that stand for all of their functions' and whose states were read."""
        keys = key_columns(self.task)
        every = self.every.filter(pl.col("split") == split)
        held = every.join(rows.filter(pl.col("what") == state_type(self.task)), on=keys, how="semi")
        if not is_function_property(self.task):
            held = held.join(self.places, on=keys, how="semi")
        return PropertyExamples(self.task, held.sort(keys), every, self.places, self.by_item)

    @cached_property
    def classes(self) -> list[str]:
        """The classes, in order."""
        return sorted(self.every["label"].unique().to_list())

    @cached_property
    def labels(self) -> Int[np.ndarray, " example"]:
        """The number of the class of each example."""
        return number_classes(self.frame, self.classes)

    @property
    def clusters(self) -> list[str]:
        """The cluster of each example."""
        return self.frame["cluster"].to_list()

    @property
    def texts(self) -> list[str]:
        """The text of each example's function."""
        return [self.by_item[item] for item in self.frame["item_id"].to_list()]

    @property
    def starts(self) -> list[tuple[str, int]]:
        """Function and first character of each token."""
        return list(self.frame.select("item_id", "start").iter_rows())

    @property
    def words(self) -> list[str]:
        """Each token as it is written."""
        keys = self.frame.select("item_id", "start", "end")
        return [self.by_item[item][start:end] for item, start, end in keys.iter_rows()]

    @cached_property
    def sequences(self) -> dict[str, list[tuple[int, int]]]:
        """For each function its labelled tokens in order, the first character and the class of each."""
        found: dict[str, list[tuple[int, int]]] = {}
        numbers = number_classes(self.every, self.classes).tolist()
        for (item, start), number in zip(
            self.every.select("item_id", "start").iter_rows(), numbers, strict=True
        ):
            found.setdefault(item, []).append((start, number))
        return found

    @property
    def effective_clusters(self) -> float:
        """Clusters of as many functions each that those of the examples are worth."""
        items = self.frame.select("item_id", "cluster").unique()
        return kish(np.array(list(Counter(items["cluster"].to_list()).values()), dtype=np.float64))


def _sampled_spans(task: str, labels: pl.DataFrame) -> pl.DataFrame:
    held = {} if is_function_property(task) else collect_labelled_tokens({task: labels})[task]
    rows = [
        (item, start, end, len(places))
        for item, places in held.items()
        for start, end in sample_spans(item, places)
    ]
    kinds = {"item_id": pl.String, "start": pl.Int32, "end": pl.Int32, "labelled": pl.Int32}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def key_columns(task: str) -> list[str]:
    """Columns that tell the examples of a property apart."""
    return ["item_id"] if is_function_property(task) else ["item_id", "start", "end"]


def state_type(task: str) -> str:
    """What rows of the states of a property's examples are."""
    return "mean" if is_function_property(task) else "token"


def join_states(task: str, examples: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The examples that have states, beside them."""
    keys = key_columns(task)
    held = rows.filter(pl.col("what") == state_type(task)).select(*keys, "first", "states", "scale")
    return examples.join(held, on=keys).sort(keys)


def number_classes(examples: pl.DataFrame, classes: Sequence[str]) -> Int[np.ndarray, " example"]:
    """The number of each example's class."""
    number = {label: at for at, label in enumerate(classes)}
    return np.array([number[label] for label in examples["label"].to_list()], dtype=np.int64)


def unfitted_reason(train: PropertyExamples, rows: pl.DataFrame) -> str:
    """Why no map is fitted for a property; empty where one is.

    Args:
        train: Its examples of the training split.
        rows: States of the first stage.
    """
    task = train.task
    if train.frame["label"].n_unique() < 2:
        return f"fewer than two classes of {task} have {FEWEST} functions or more to be fitted to"
    if (clusters := train.effective_clusters) < CLUSTERS:
        return (
            f"{task}: a map is fitted to {CLUSTERS} effective clusters at least, and the training split has "
            f"{clusters:.3g}; more functions of more repositories or modules would do (--limit)"
        )
    dimensions = unpack_states(rows.filter(pl.col("what") == state_type(task)).head(1)).shape[-1]
    # Where states lie is fitted to tokens, and for a property of functions to some subwords of each.
    places = train.frame.height * (SAMPLED if is_function_property(task) else 1)
    if places < (needed := A_DIMENSION * dimensions):
        return (
            f"{task}: a map that erases from {dimensions:,} dimensions is fitted to {needed:,} tokens at "
            f"least, and {places:,} of the training split were read; more functions would do (--limit)"
        )
    return ""
