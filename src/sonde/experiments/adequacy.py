"""Whether what a run reads comes from enough clusters for a verdict; said before a model is loaded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sonde.experiments.labels import read_labels
from sonde.experiments.plan import Reading
from sonde.results.clusters import kish
from sonde.results.verdict import ENOUGH_CLUSTERS
from sonde.store.parts import PartStore


def warnings(readings: Sequence[Reading], unit: str, store: PartStore) -> Iterator[str]:
    """A line for each lens, corpus and language that cannot give a verdict, with what would help.

    Args:
        readings: What the lenses of a run read.
        unit: What an item is.
        store: The folder of the run, with the labels.
    """
    for reading in readings:
        few = {
            task: found for task, found in _clusters(reading, store).items() if worth(found) < ENOUGH_CLUSTERS
        }
        by_size: defaultdict[tuple[int, float], list[str]] = defaultdict(list)
        for task, found in few.items():
            by_size[len(set(found)), round(worth(found), 1)].append(task)
        for (number, effective), tasks in by_size.items():
            about = f" ({', '.join(tasks)})" if any(tasks) else ""
            files = "" if unit == "file" else ", --unit file"
            yield (
                f"no verdict to be had: lens {reading.lens.name!r}{about} reads {number} clusters of "
                f"{reading.group.corpus} in {reading.group.language}, worth {effective} of equal size, where "
                f"{ENOUGH_CLUSTERS} are needed; add repositories (-c again){files}, or take -c stdlib or "
                "-c environment"
            )


def worth(clusters: Iterable[str]) -> float:
    """How many clusters of equal size the clusters of some examples are worth (Kish 1965)."""
    return kish(np.array(list(Counter(clusters).values()), np.float64))


def _clusters(reading: Reading, store: PartStore) -> dict[str, list[str]]:
    """The cluster of each thing that is measured: by task where examples are drawn, else of the items."""
    found: dict[str, list[str]] = {}
    for task in reading.lens.tasks:
        labels = read_labels(store, task, reading.group)
        if "cluster" in labels.columns:
            found[task] = labels["cluster"].to_list()
    return found or {"": [item.cluster for item in reading.inputs]}
