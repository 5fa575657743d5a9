"""The examples of one task beside their states, read from the item table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.errors import InputError, UsageError
from sonde.corpora import item_id
from sonde.lenses._states import unpack
from sonde.lenses.probe.observe import IS_WHOLE, SPAN, TOKEN_UNIT, WHOLE
from sonde.lenses.probe.options import Probing
from sonde.training.probes.parts import Parts, grouped_folds

ISOLATED = "isolated"
"""Pooling of tokens that are shown alone."""

COMPARED = frozenset({"labelled_pairs"})
"""Tasks about two whole texts, as clones are: what tells them is how far the states are apart."""

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
    folds: tuple[Parts, ...]

    @classmethod
    def of(cls, task: str, frame: pl.DataFrame) -> Examples:
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
            folds=(Parts.of(frame["split"].to_list()),),
        )

    def cross_fitted(self, folds: int, seed: int) -> Examples:
        """The examples dealt to so many folds by cluster; a split that the source brings stays as it is.

        Raises:
            InputError: There are fewer than three clusters.
        """
        if self.frame["given_split"].any():
            return self
        try:
            return replace(self, folds=grouped_folds(self.labels, self.clusters, folds, seed))
        except InputError as error:
            raise InputError(f"task {self.task!r}: {error}") from error

    def only(self, rows: Int[np.ndarray, " row"]) -> Examples:
        """Some of the examples, each in its fold; classes that none of them has are gone."""
        place = np.full(len(self.labels), -1)
        place[rows] = np.arange(len(rows))
        folds = [
            Parts(*(held[held >= 0] for held in (place[part] for part in (one.train, one.valid, one.test))))
            for one in self.folds
        ]
        # Clusters keep their numbers, which name them.
        kept = Examples.of(self.task, self.frame[rows])
        return replace(kept, folds=tuple(folds), clusters=self.clusters[rows])

    @property
    def tested(self) -> Int[np.ndarray, " tested"]:
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
    def whole(self) -> bool:
        """Whether every example is a whole text."""
        return self.frame.filter(~IS_WHOLE).is_empty()


def _as_number(label: str) -> tuple[float, str]:
    """Numbers in their order, other names after them in theirs."""
    try:
        return float(label), ""
    except ValueError:
        return float("inf"), label


def poolings_of(examples: Examples, options: Probing) -> tuple[str, ...]:
    """How the states of a task's examples are pooled, that of the headline first."""
    if examples.whole:
        return options.pooling
    if not (options.isolated and examples.about_tokens):
        return (SPAN,)
    return (ISOLATED, SPAN) if options.protocol.alone_first else (SPAN, ISOLATED)


def states_of(
    observations: pl.LazyFrame,
    examples: Examples,
    pooling: str,
    *,
    language: str,
    alone: str,
    layer: int | None = None,
) -> tuple[States, Int[np.ndarray, " row"]]:
    """States of the examples, and the rows of those that have one.

    A pair becomes the states of both ends and their product, feature by feature, since whether two things
    belong together is no sum of what each of them is; of two texts that are compared (`COMPARED`) also the
    absolute difference.

    Args:
        observations: The item table.
        examples: The examples.
        pooling: That of whole texts, `SPAN` for tokens in their text, or `ISOLATED` for tokens shown alone.
        language: Of the examples.
        alone: How the text of a token that is shown alone is pooled.
        layer: One layer, 0 the embeddings, negative from the last; None for all.

    Raises:
        InputError: No example has one.
        UsageError: The model has no such layer.
    """
    if pooling == SPAN:
        ends = [examples.frame.select("item_id", "start", "end")]
        if examples.frame["other_start"].is_not_null().any():
            other = pl.col("other_start").alias("start"), pl.col("other_end").alias("end")
            ends.append(examples.frame.select("item_id", *other))
        return _gather(observations, examples.task, SPAN, ends, layer)
    if pooling == ISOLATED:
        ids = {surface: item_id(surface, language, TOKEN_UNIT) for surface in set(examples.types)}
        texts = pl.DataFrame({"item_id": [ids[surface] for surface in examples.types]})
        pooling = alone
    else:
        texts = examples.frame.select("item_id")
    whole = texts.with_columns(start=pl.lit(WHOLE, pl.Int32), end=pl.lit(WHOLE, pl.Int32))
    return _gather(observations, examples.task, pooling, [whole], layer)


def read_once(observations: pl.LazyFrame, examples: Examples, poolings: Sequence[str]) -> pl.LazyFrame:
    """The rows of whole texts for several poolings, held packed: the item table is large, and read from disk.

    Args:
        observations: The item table.
        examples: Whole texts.
        poolings: What `states_of` will be asked for.
    """
    texts = examples.frame["item_id"].unique().implode()
    wanted = pl.col("pooling").is_in(list(poolings)), pl.col("item_id").is_in(texts), pl.col("start") == WHOLE
    return observations.filter(*wanted).collect().lazy()


def _gather(
    observations: pl.LazyFrame, task: str, pooling: str, ends: Sequence[pl.DataFrame], layer: int | None
) -> tuple[States, Int[np.ndarray, " row"]]:
    keys = ("item_id", "start", "end")
    observations = observations if layer is None else _of_layer(observations, layer)
    wanted = pl.concat(ends).unique()
    held = (
        observations.filter(pl.col("pooling") == pooling)
        .filter(pl.col("item_id").is_in(wanted["item_id"].unique().implode()))
        .join(wanted.lazy(), on=keys, how="semi")
        .select(*keys, "states", "scale")
        .collect()
        .unique(keys, keep="first", maintain_order=True)
    )
    if held.is_empty():
        raise InputError(f"task {task!r}: no state was observed by pooling {pooling!r}; see its coverage")
    numbered = held.select(keys).with_row_index("at")
    places = [one.join(numbered, on=keys, how="left", maintain_order="left")["at"] for one in ends]
    present = np.flatnonzero(np.all([place.is_not_null().to_numpy() for place in places], axis=0))
    scale = np.array(held["scale"].to_list(), dtype=np.float32)
    states = unpack(held["states"].to_list(), scale)
    parts = [states[:, place.gather(present).to_numpy().astype(np.int64)] for place in places]
    if len(parts) == 1:
        return parts[0], present
    beside = [np.abs(parts[0] - parts[1])] if task in COMPARED else []
    return np.concatenate([*parts, parts[0] * parts[1], *beside], axis=2), present


def _of_layer(observations: pl.LazyFrame, layer: int) -> pl.LazyFrame:
    """The rows with the states of one layer, so that the others are never held."""
    first = observations.select("scale", "states").head(1).collect()
    if first.is_empty():
        return observations
    layers, size = len(first["scale"][0]), len(first["states"][0])
    if not -layers <= layer < layers:
        raise UsageError(f"layer = {layer} is not one of 0 (the embeddings) to {layers - 1}")
    place, width = layer % layers, size // layers
    return observations.with_columns(
        pl.col("states").bin.slice(place * width, width), pl.col("scale").list.slice(place, 1)
    )
