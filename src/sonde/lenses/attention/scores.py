"""From chosen predictors to scores: each relation and their average, with clustered intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from sonde.lenses.attention.choice import Predicted
from sonde.lenses.attention.observe import METRICS
from sonde.lenses.attention.sums import TOP, Key, RelationEdges
from sonde.results.clusters import ClusterSums, sums_of
from sonde.results.dimensions import Dimensions
from sonde.results.estimate import Estimates, differences, jackknife, ratios
from sonde.results.intervals import Column
from sonde.results.rows import rows_of
from sonde.results.scores import Score

NEAR = 10
"""Relations are near where the mean offset is below this, else far (section 2)."""

EDGES = ("average", "edges")
"""Dimension of what is over all edges; without it an average is the mean over relations."""

FOLLOWED = "followed"
"""Dimension of a head: the relation that it follows best on validation."""

HEADS = "heads"
"""What the model itself is called among the predictors; its scores carry no ``control``."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Everything that was predicted on one side of a model.

    Attributes:
        relations: The relations.
        predicted: For each kind of predictor, what it hits of each relation.
        averaged: Relations that the average is over.
    """

    relations: Mapping[str, RelationEdges]
    predicted: Mapping[str, Mapping[str, Predicted]]
    averaged: Sequence[str]


def by_side(relations: Mapping[Key, RelationEdges]) -> dict[str, dict[str, RelationEdges]]:
    """Relations of each side."""
    found: dict[str, dict[str, RelationEdges]] = {}
    for (side, name), relation in relations.items():
        found.setdefault(side, {})[name] = relation
    return found


def relation_scores(side: Side, predictor: str, template: Score) -> Iterator[Score]:
    """Hits of one kind of predictor on each relation, for each metric and k."""
    found = side.predicted[predictor]
    rows: list[Score] = []
    for metric, k, estimates in _estimated(side, [[name] for name in found], predictor):
        templates = [
            dataclasses.replace(
                template.within(("relation", name)),
                control=None if predictor == HEADS else predictor,
                metric=METRICS[metric],
                k=k,
                chosen=one.name[metric][k - 1] or None,
                **_place(side.relations[name], int(one.head[metric, k - 1])),
            )
            for name, one in found.items()
        ]
        rows += rows_of(estimates, templates, _edges(side, found))
    yield from _by_relation(rows, found)


def gains(side: Side, over: str, template: Score) -> Iterator[Score]:
    """How far the heads are ahead of a control on each relation, and on average."""
    found = side.predicted[HEADS]
    rows: list[Score] = []
    for metric, k, estimates in _estimated(side, [[name] for name in found], HEADS, over):
        templates = [
            dataclasses.replace(
                template.within(("relation", name)),
                metric=f"{METRICS[metric]}_gain",
                k=k,
                compared_to=over,
                **_place(side.relations[name], int(one.head[metric, k - 1])),
            )
            for name, one in found.items()
        ]
        rows += rows_of(estimates, templates, _edges(side, found))
    yield from _by_relation(rows, found)
    yield from averages(side, HEADS, template, over=over)


def averages(side: Side, predictor: str, template: Score, *, over: str = "") -> Iterator[Score]:
    """Unweighted mean over relations: all that are averaged, the near and the far ones among them.

    Args:
        side: What was predicted.
        predictor: Whose hits.
        template: Carries model and the rest.
        over: A control whose mean is subtracted.
    """
    held = [name for name in side.averaged if name in side.predicted[predictor]]
    near = {name for name in held if abs(mean_offset(side.relations[name])) < NEAR}
    parts: dict[Dimensions, Sequence[str]] = {
        (): held,
        (("distance", "near"),): [name for name in held if name in near],
        (("distance", "far"),): [name for name in held if name not in near],
    }
    for part, names in parts.items():
        if not names:
            continue
        table = _Table.of([side.relations[name] for name in names])
        weights = table.added([_scored(side.relations[name]) for name in names])
        for metric in range(len(METRICS)):
            for k in range(1, TOP + 1):
                hits = [
                    table.added([side.predicted[kind][name].hits[:, metric, k - 1] for name in names])
                    for kind in ([predictor, over] if over else [predictor])
                ]
                yield from rows_of(
                    _mean_of_ratios(hits, weights),
                    [
                        dataclasses.replace(
                            template.within(*part),
                            control=None if predictor == HEADS else predictor,
                            metric=METRICS[metric] + ("_gain" if over else ""),
                            k=k,
                            n_relations=len(names),
                            compared_to=over or None,
                        )
                    ],
                    [weights.sum()],
                )


def pooled(side: Side, predictor: str, template: Score) -> Iterator[Score]:
    """Share of all edges of the averaged relations that are hit, each edge with equal weight.

    Of the heads also how far they are ahead of each control.
    """
    names = [name for name in side.averaged if name in side.predicted[predictor]]
    if not names:
        return
    edges = [sum(_edges(side, names))]
    controls = [other for other in side.predicted if predictor == HEADS and other != HEADS]
    for over in ("", *controls):
        for metric, k, estimates in _estimated(side, [names], predictor, over):
            one = dataclasses.replace(
                template.within(EDGES),
                control=None if predictor == HEADS else predictor,
                metric=METRICS[metric] + ("_gain" if over else ""),
                k=k,
                n_relations=len(names),
                compared_to=over or None,
            )
            yield from rows_of(estimates, [one], edges)


def mean_offset(relation: RelationEdges) -> float:
    """Mean offset from what is asked to the first word looked for, over all edges."""
    return float(relation.offset_first.mean()) if len(relation.offset_first) else math.nan


def offset_scores(relations: Mapping[str, RelationEdges], template: Score) -> Iterator[Score]:
    """Mean offset of each relation, near or far, and how many edges it has on either side of the split."""
    for name, relation in relations.items():
        offsets = np.abs(relation.offset_first).astype(np.float64)
        sums = sums_of(offsets[None], relation.cluster[relation.row])
        distance = "near" if abs(mean_offset(relation)) < NEAR else "far"
        one = dataclasses.replace(
            template.within(("relation", name), ("distance", distance)), split="all", metric="mean_offset"
        )
        yield from rows_of(ratios(sums, "nonnegative"), [one], [relation.edges.sum()])
        for split, rows in (("valid", ~relation.test), ("test", relation.test)):
            edges = int(relation.edges[rows].sum())
            yield dataclasses.replace(
                template.within(("relation", name)),
                split=split,
                metric="edges",
                value=edges,
                n=edges,
                n_clusters=len(np.unique(relation.cluster[rows])),
            )


def head_map(side: Side, template: Score) -> Iterator[Score]:
    """Each head with the relation that it follows best on validation, and how often it does so on test."""
    names = list(side.predicted[HEADS])
    if not names:
        return
    chosen_on, scored = (
        np.stack([_shares(side.relations[name], split)[METRICS.index("first_hit"), 0] for name in names])
        for split in (0, 1)
    )
    best = np.where(np.isnan(chosen_on), -1.0, chosen_on).argmax(0)
    for head, place in enumerate(best.tolist()):
        relation = side.relations[names[place]]
        yield dataclasses.replace(
            template.within((FOLLOWED, names[place])),
            metric="first_hit",
            k=1,
            value=float(scored[place, head]),
            n=int(_scored(relation).sum()),
            n_clusters=len(np.unique(relation.cluster[relation.test])),
            **_place(relation, head),
        )


def _shares(relation: RelationEdges, split: int) -> Float[np.ndarray, "metric k head"]:
    edges = int(relation.edges[relation.test == bool(split)].sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return relation.hits[split] / np.float64(edges)


def _scored(relation: RelationEdges) -> Int[np.ndarray, " row"]:
    return relation.edges[relation.test]


def _place(relation: RelationEdges, head: int) -> dict[str, int]:
    return {"layer": head // relation.heads, "head": head % relation.heads} if head >= 0 else {}


def _edges(side: Side, names: Iterable[str]) -> list[int]:
    """Scored edges of each relation."""
    return [int(_scored(side.relations[name]).sum()) for name in names]


def _by_relation(rows: Iterable[Score], names: Iterable[str]) -> list[Score]:
    """Rows relation by relation; each relation's keep their order."""
    place = {name: at for at, name in enumerate(names)}
    return sorted(rows, key=lambda row: place[dict(row.dimensions)["relation"]])


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Which row of each of several relations belongs to which cluster.

    Attributes:
        clusters: Clusters that hold a scored edge of any of the relations.
        place: Of each relation, the place of each scored row's cluster among them.
    """

    clusters: Int[np.ndarray, " cluster"]
    place: Sequence[Int[np.ndarray, " row"]]

    @classmethod
    def of(cls, relations: Sequence[RelationEdges]) -> _Table:
        held = [relation.cluster[relation.test] for relation in relations]
        clusters = np.unique(np.concatenate(held))
        return cls(clusters, [np.searchsorted(clusters, one) for one in held])

    def added(self, values: Sequence[Float[np.ndarray, " row"]]) -> Float[np.ndarray, "cluster relation"]:
        """Values of each relation's scored rows, added up by cluster."""
        size = len(self.clusters)
        columns = [np.bincount(at, one, size) for at, one in zip(self.place, values, strict=True)]
        return np.stack(columns, axis=1)


def _estimated(
    side: Side, groups: Sequence[Sequence[str]], predictor: str, over: str = ""
) -> Iterator[tuple[int, int, Estimates]]:
    """For each metric and k an estimate a group of relations.

    Groups share one intraclass correlation, metrics and values of k do not: what another metric finds has no
    part in an interval.

    Args:
        side: What was predicted.
        groups: Relations whose edges are taken together.
        predictor: Whose hits.
        over: A control that is subtracted.
    """
    if not groups:
        return
    tables = [_Table.of([side.relations[name] for name in group]) for group in groups]
    number = np.repeat(np.arange(len(groups)), [len(table.clusters) for table in tables])
    cluster = np.concatenate([table.clusters for table in tables])

    def added(values: Callable[[str], Column]) -> Column:
        each = zip(tables, groups, strict=True)
        parts = [table.added([values(name) for name in group]).sum(axis=1) for table, group in each]
        return np.concatenate(parts)

    edges = added(lambda name: _scored(side.relations[name]))

    def hit(kind: str, metric: int, k: int) -> ClusterSums:
        x = added(lambda name: side.predicted[kind][name].hits[:, metric, k - 1])
        return ClusterSums(number, cluster, x, edges, len(groups))

    def told_apart(name: str) -> Float[np.ndarray, "metric k"]:
        return side.predicted[predictor][name].told_apart(side.predicted[over][name])

    # By edge: in an item one predictor may hit as many as the other, and others.
    apart = np.array([sum(map(told_apart, group)) for group in groups]) if over else None
    for metric in range(len(METRICS)):
        for k in range(1, TOP + 1):
            own = hit(predictor, metric, k)
            if apart is None:
                yield metric, k, ratios(own, "proportion")
            else:
                other, discordant = hit(over, metric, k), apart[:, metric, k - 1]
                yield metric, k, differences(own, other, "difference", discordant=discordant)


def _mean_of_ratios(
    hits: Sequence[Float[np.ndarray, "cluster name"]], weights: Float[np.ndarray, "cluster name"]
) -> Estimates:
    size = weights.shape[1]

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = [totals[:, at : at + size] / totals[:, -size:] for at in range(0, size * len(hits), size)]
        # A relation that only the left-out cluster holds has no share there; the others are averaged.
        mine = parts[0] if len(parts) == 1 else parts[0] - parts[1]
        known = np.isfinite(mine)
        with np.errstate(invalid="ignore"):
            return np.where(known, mine, 0.0).sum(axis=1) / known.sum(axis=1)

    kind = "proportion" if len(hits) == 1 else "difference"
    return jackknife(statistic, np.concatenate([*hits, weights], axis=1), weights.sum(1), kind)
