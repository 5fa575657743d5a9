"""From answers to scores: how much is right, arm against arm on the same examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.lenses._lens import Scoring
from sonde.lenses._rows import difference_row, mean_rows
from sonde.lenses.finetune.options import PRETRAINED
from sonde.lenses.finetune.rows import EPOCH, EXAMPLE
from sonde.stats.scores import Score

ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """One metric of one arm: a value an example (the mean over seeds), and one a seed."""

    examples: list[str]
    clusters: list[str]
    values: Float[np.ndarray, "seed example"]
    seeds: tuple[int, ...]


def score_all(scoring: Scoring) -> Iterator[Score]:
    """Every row of every task."""
    observations = scoring.observations.collect()
    for task in scoring.labels:
        rows = observations.filter(pl.col("task") == task)
        if rows.is_empty():
            continue
        template = dataclasses.replace(scoring.template, task=task, split="test")
        yield from _task(rows, template)


def _task(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    examples = rows.filter((pl.col("kind") == EXAMPLE) & (pl.col("split") == "test"))
    measured = {name: _measure(part) for name, part in _subjects(examples)}
    for name, metrics in measured.items():
        for metric, one in metrics.items():
            yield from _means(dataclasses.replace(template, metric=metric, control=_control(name)), one)
    own = measured.get(PRETRAINED, {})
    for name, metrics in measured.items():
        if name == PRETRAINED:
            continue
        for metric in (metric for metric in own if metric in metrics):
            gain = dataclasses.replace(template, metric="gain", control=name, params={"name": metric})
            yield _difference(gain, own[metric], metrics[metric])
    yield from _courses(rows, template)
    cut = examples.filter((pl.col("arm") == PRETRAINED) & pl.col("truncated").is_not_null())
    if not cut.is_empty():
        share = cut.with_columns(value=pl.col("truncated").cast(pl.Float64))
        yield from _means(dataclasses.replace(template, metric="truncated"), _pivot(share), alone=True)


def _subjects(examples: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The arms, those without a model by the name of the baseline."""
    named = examples.with_columns(
        subject=pl.when(pl.col("baseline") == "").then(pl.col("arm")).otherwise(pl.col("baseline"))
    )
    for (name,), part in named.partition_by("subject", as_dict=True, maintain_order=True).items():
        yield str(name), part


def _control(subject: str) -> str | None:
    return None if subject == PRETRAINED else subject


def _measure(rows: pl.DataFrame) -> dict[str, _Measured]:
    """The metrics of one arm.

    Of a pointer as in CuBERT's tables: ``true_positive``, the clean functions in which it points at nothing;
    ``classification``, the functions of which it says rightly whether there is an error; ``localisation``,
    the errors that it points at; ``localisation_repair``, those for which it also points at what is right.
    An error beyond the limit is not found.
    """
    metrics: dict[str, tuple[pl.Expr, pl.Expr]] = {ACCURACY: (pl.lit(value=True), pl.col("correct"))}
    buggy = pl.col("buggy")
    if rows["buggy"].is_not_null().all():
        pointed = pl.col("located").is_not_null().all()
        says = pl.when(pointed).then(pl.col("predicted") == "something").otherwise(pl.col("correct") == buggy)
        metrics = {
            "true_positive": (~buggy, ~says),
            "classification": (pl.lit(value=True), says == buggy),
        }
        if rows["located"].is_not_null().all():
            metrics |= {
                "localisation": (buggy, pl.col("located")),
                "localisation_repair": (buggy, pl.col("located") & pl.col("repaired")),
                ACCURACY: (pl.lit(value=True), pl.col("correct")),
            }
    found: dict[str, _Measured] = {}
    for metric, (chosen, value) in metrics.items():
        part = rows.with_columns(value=value.cast(pl.Float64)).filter(chosen)
        if not part.is_empty():
            found[metric] = _pivot(part)
    return found


def _pivot(rows: pl.DataFrame) -> _Measured:
    """A column ``value`` by seed and example."""
    ordered = rows.sort("seed", "example_id")
    first = ordered.filter(pl.col("seed") == ordered["seed"][0])
    seeds = ordered["seed"].unique(maintain_order=True).to_list()
    values = ordered["value"].to_numpy().reshape(len(seeds), first.height)
    return _Measured(first["example_id"].to_list(), first["cluster"].to_list(), values, tuple(seeds))


def _means(template: Score, one: _Measured, *, alone: bool = False) -> Iterator[Score]:
    """The mean over seeds, and each seed by itself where there are several."""
    clusters = _numbered(one.clusters)
    yield from mean_rows(template, one.values.mean(0)[None], clusters, [{"seed": one.seeds[0]}])
    if not alone and len(one.seeds) > 1:
        each = [{"seed": seed, "slice": f"seed={seed}"} for seed in one.seeds]
        yield from mean_rows(template, one.values, clusters, each)


def _difference(template: Score, first: _Measured, second: _Measured) -> Score:
    """The mean over seeds of one arm less that of another, over the same examples."""
    assert first.examples == second.examples
    clusters = _numbered(first.clusters)
    return difference_row(template, first.values.mean(0), second.values.mean(0), clusters, {})


def _courses(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Validation after each epoch at the chosen rate, and the rate."""
    epochs = rows.filter(pl.col("kind") == EPOCH)
    for (arm, seed), part in epochs.partition_by("arm", "seed", as_dict=True, maintain_order=True).items():
        chosen = part.filter(pl.col("chosen")).row(0, named=True)
        own = dataclasses.replace(
            template, split="valid", control=_control(str(arm)), seed=int(seed), n_clusters=0
        )
        yield dataclasses.replace(own, metric="learning_rate", value=chosen["rate"], n=part.height)
        for row in part.filter(pl.col("rate") == chosen["rate"]).iter_rows(named=True):
            at: Mapping[str, Any] = {"k": row["epoch"]}
            yield dataclasses.replace(own, metric="valid", value=row["valid"], n=1, params=at, slice="epoch")
            yield dataclasses.replace(own, metric="loss", value=row["loss"], n=1, params=at, slice="epoch")


def _numbered(clusters: list[str]) -> Int[np.ndarray, " example"]:
    return np.unique(np.array(clusters), return_inverse=True)[1]
