"""How many independent clusters a data set is worth, known before any model is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from sonde.languages import corpora_of
from sonde.results.clusters import kish
from sonde.results.verdict import ENOUGH_CLUSTERS

_NAMED = 8
"""Data sets that a line names; more are counted."""


def effective_clusters(examples: pl.DataFrame) -> float:
    """Clusters of equal size that the examples are worth (Kish 1965), from their column ``cluster``.

    It is the number that an interval over all of them rests on, so it can be told before the run whether a
    verdict is possible.
    """
    return kish(examples["cluster"].value_counts()["count"].to_numpy().astype(np.float64))


def lack_of_clusters(worth: Mapping[str, float], remedies: Sequence[str], what: str = "") -> str:
    """One line on the data sets that no verdict can come of, and what would help; empty where one can of all.

    >>> lack_of_clusters({"sri": 4.21, "idn": 12.0, "rea": 1.0}, ["a larger --limit"], "tasks")
    'no verdict can come of 2 of 3 tasks (sri, rea), worth 1.0 to 4.2 clusters of equal size where a verdict \
needs 10; what would help: a larger --limit'

    Args:
        worth: Effective clusters of what each data set tests, by a name that a reader knows it by.
        remedies: What would give more, the nearest first.
        what: What the data sets are, where they are several.
    """
    few = {name: effective for name, effective in worth.items() if effective < ENOUGH_CLUSTERS}
    if not few:
        return ""
    named = ", ".join(list(few)[:_NAMED]) + (f" and {len(few) - _NAMED} more" if len(few) > _NAMED else "")
    which = f"{len(few)} of {len(worth)} {what} ({named})" if len(worth) > 1 else named
    low, high = f"{min(few.values()):.1f}", f"{max(few.values()):.1f}"
    span = low if low == high else f"{low} to {high}"
    return (
        f"no verdict can come of {which}, worth {span} clusters of equal size where "
        f"a verdict needs {ENOUGH_CLUSTERS}; what would help: {', or '.join(remedies)}"
    )


def more_clusters(
    corpus: str, language: str, *, limited: bool = False, files: pl.DataFrame | None = None
) -> list[str]:
    """What would give a data set more clusters, the nearest first.

    Args:
        corpus: What it is drawn from.
        language: Its language.
        limited: Whether a limit keeps it as small as it is.
        files: ``cluster, path`` of what is tested, where whole files could be tested in place of it.
    """
    others = [f"-c {other}" for other in corpora_of(language) if other != corpus]
    remedies = ["a larger --limit"] if limited else []
    if files is not None and effective_clusters(files.unique()) >= ENOUGH_CLUSTERS:
        remedies.append("--unit file, by which each file counts once")
    beside = f", for example {' or '.join(others)}" if others else ""
    return [*remedies, f"more repositories{beside}"]
