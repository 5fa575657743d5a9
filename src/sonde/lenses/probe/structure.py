"""Distances and depths in the syntax trees of whole functions, beside a chain of neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from sonde.lenses.probe.fit import BEST
from sonde.lenses.probe.options import Probing
from sonde.lenses.probe.parsed import Functions
from sonde.results import Score, mean_rows
from sonde.results.intervals import Kind

TASK = "syntax_tree"
"""The task column of these rows."""

NEIGHBOURS, CEILING = "neighbours", "gold_distances"
"""Controls: a chain of neighbours, and the tree's own distances and depths, above which nothing can come."""

METRICS = ("distance_spearman", "uuas", "depth_spearman")


def distances(functions: Functions, options: Probing, template: Score) -> Iterator[Score]:
    """Rank correlations of distances and depths, and the share of links found, of every layer.

    Raises:
        InputError: Too few functions.
    """
    from sonde.training.probes.structural import Sentence, compare, probe_structure, tree_of

    template = dataclasses.replace(template, task=TASK)
    texts = [Sentence(one.states, *tree_of(one.tree.parent, one.tokens.node)) for one in functions.texts]
    found = probe_structure(texts, functions.split, device=options.device)
    clusters = functions.tested_clusters
    chains: list[tuple[float, float, float]] = []
    own_trees: list[tuple[float, float, float]] = []
    for text in functions.tested(texts):
        place = np.arange(len(text.depth), dtype=np.float64)
        chains.append(compare(np.abs(place[:, None] - place), place, text))
        own_trees.append(compare(text.distance.astype(np.float64), text.depth.astype(np.float64), text))
    controls = {NEIGHBOURS: np.array(chains), CEILING: np.array(own_trees)}
    for at, metric in enumerate(METRICS):
        values = getattr(found, metric)
        own = dataclasses.replace(template, metric=metric)
        kind: Kind = "unit" if metric == "uuas" else "correlation"
        layers = [{"layer": at} for at in range(len(values))]
        yield from mean_rows(own, values, clusters, layers, kind)
        best = [{"layer": found.best, "dimensions": (BEST,)}]
        yield from mean_rows(own, values[[found.best]], clusters, best, kind)
        for name, measured in controls.items() if template.control is None else ():
            control = dataclasses.replace(own, control=name)
            yield from mean_rows(control, measured[None, :, at], clusters, [{"dimensions": (BEST,)}], kind)
