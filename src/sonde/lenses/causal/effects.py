"""From what changed in each function to numbers: effects, and by how much they exceed those of controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.results import Mean, Score, means
from sonde.results.dimensions import SELECTION

BEST = (SELECTION, "best")
"""Dimension of numbers of what was chosen on validation."""

BITS, EXCESS, APART = "bits", "excess", "apart"
"""Metrics: how much surprisal rises a subword; by how much more than with a control; and how much further
that is in one construct than elsewhere (a difference in differences)."""

_KEYS = ("subject", "layer", "item_id", "cluster", "split", "group", "n")
_FACTOR = 1 / math.log(2)


def effects_of(scoring: Scoring, method: str, splits: Mapping[str, str]) -> pl.DataFrame:
    """What each change did to each function and group of subwords.

    Returns:
        A row a subject, layer, function and group, with a column a kind of change: how many nats more all its
        subwords cost together; of several draws of a control the mean.
    """
    side = pl.DataFrame(
        {"item_id": list(splits), "split": list(splits.values())},
        schema={"item_id": pl.String, "split": pl.String},
    )
    rows = (
        scoring.observations.filter((pl.col("what") == "effect") & (pl.col("method") == method))
        .select("item_id", "subject", "kind", "layer", "group", "n", "before", "after")
        .collect()
        .join(side, on="item_id")
        .join(scoring.items.select("item_id", "cluster"), on="item_id")
        .with_columns(
            kind=pl.col("kind").str.split(" ").list.first(), delta=pl.col("after") - pl.col("before")
        )
    )
    mean = rows.group_by(*_KEYS, "kind").agg(pl.col("delta").mean())
    return mean.pivot("kind", index=list(_KEYS), values="delta").sort(_KEYS)


def controls_of(effects: pl.DataFrame, own: str) -> list[str]:
    """The controls that a subject's changes have beside them."""
    held = [name for name in effects.columns if name not in (*_KEYS, own)]
    return [name for name in held if effects[name].is_not_null().any()]


def change(metric: str, value: pl.Expr, control: str | None) -> Mean:
    """Bits a subword."""
    return Mean(metric, value, "real", per=pl.col("n"), factor=_FACTOR, fields={"control": control})


def asked_of(own: str, controls: Sequence[str]) -> list[Mean]:
    """The effect, those of the controls, and by how much it exceeds each of them."""
    return [
        change(BITS, pl.col(own), None),
        *(change(BITS, pl.col(name), name) for name in controls),
        *(change(EXCESS, pl.col(own) - pl.col(name), name) for name in controls),
    ]


def by_layer(effects: pl.DataFrame, own: str, template: Score) -> list[Score]:
    """Every number of one subject by layer, on validation and on test."""
    asked = asked_of(own, controls_of(effects, own))
    return list(means(effects, asked, template, columns=("split", "layer")))


def chosen_layer(scores: Sequence[Score], control: str) -> int | None:
    """The layer at which an effect exceeds a control the most on validation."""
    held = {
        score.layer: score.value
        for score in scores
        if score.metric == EXCESS and score.control == control and score.split == "valid"
    }
    return max(held, key=lambda layer: held[layer]) if held else None


def at_best(scores: Sequence[Score], layer: int | None) -> Iterator[Score]:
    """The numbers of the chosen layer on test, said to be of it."""
    for score in scores:
        if score.split == "test" and score.layer == layer:
            yield score.within(BEST)
