"""How many independent clusters a data set is worth, known before any model is read."""

from __future__ import annotations

import numpy as np
import polars as pl

from sonde.results.clusters import kish
from sonde.results.verdict import ENOUGH_CLUSTERS


def effective_clusters(examples: pl.DataFrame) -> float:
    """Clusters of equal size that the examples are worth (Kish 1965), from their column ``cluster``.

    It is the number that an interval over all of them rests on, so it can be told before the run whether a
    verdict is possible.
    """
    return kish(examples["cluster"].value_counts()["count"].to_numpy().astype(np.float64))


def lack_of_clusters(examples: pl.DataFrame) -> str:
    """Why no verdict can come of these tested examples and what would help; empty where one can."""
    effective = effective_clusters(examples)
    if effective >= ENOUGH_CLUSTERS:
        return ""
    held = examples["cluster"].n_unique()
    return (
        f"{examples.height:,} examples are tested, from {held} cluster{'s' if held != 1 else ''}, worth "
        f"{effective:.1f} of equal size; below {ENOUGH_CLUSTERS} no verdict is given: draw from more "
        "repositories or name another corpus beside this one"
    )
