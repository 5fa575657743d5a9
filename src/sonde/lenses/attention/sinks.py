"""How much of their attention heads pay to tokens that mean nothing: the first one, and the separators.

A head that finds no word to attend to has to put its attention somewhere, since it adds up to one (Xiao et
al. 2024; Clark et al. 2019). Such a head is no bad follower of syntax, it is at rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from sonde.lenses.attention.sums import cluster_names
from sonde.results import Score, mean_rows

SINKS = ("sink_first", "sink_separator")
"""Metrics, in the order in which the item table has them."""


def sink_scores(
    observations: pl.LazyFrame, splits: Mapping[str, str], clusters: Mapping[str, str], template: Score
) -> Iterator[Score]:
    """Sink mass of each head, every item with equal weight; nothing is chosen, so both splits count.

    Args:
        observations: Rows of the item table that were read.
        splits: The items that count.
        clusters: Cluster of each item.
        template: What the scores share.
    """
    held = observations.filter(pl.col("sinks").is_not_null(), pl.col("item_id").is_in(list(splits)))
    rows = held.select("item_id", "side", "layers", "heads", "sinks").collect()
    numbers = {name: number for number, name in enumerate(cluster_names(splits, clusters))}
    for (side,), part in rows.sort("item_id").partition_by("side", as_dict=True, maintain_order=True).items():
        layers, heads = int(part["layers"][0]), int(part["heads"][0])
        shares = np.frombuffer(b"".join(part["sinks"].to_list()), np.float32)
        by_sink = shares.reshape(part.height, layers * heads, len(SINKS)).transpose(2, 1, 0)
        of = np.array([numbers[clusters.get(item, item)] for item in part["item_id"]], np.int64)
        places = [{"layer": at // heads, "head": at % heads} for at in range(layers * heads)]
        for metric, values in zip(SINKS, by_sink, strict=True):
            if np.isfinite(values).all():
                about = dataclasses.replace(template, side=str(side), split="all", metric=metric)
                yield from mean_rows(about, values.astype(np.float64), of, places, kind="unit")
