"""From chosen predictors to scores: each relation and their average, with intervals clustered by function."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from sonde.lenses.attention.choice import Predicted
from sonde.lenses.attention.observe import METRICS
from sonde.lenses.attention.sums import TOP, Key, Relation
from sonde.results.clusters import ClusterSums
from sonde.results.estimate import Estimates, differences, jackknife, ratios
from sonde.results.rows import rows_of
from sonde.results.scores import Score

NEAR = 10
"""Relations are near where the mean offset is below this, else far (section 2)."""

EDGES = "edges"
"""The slice over all edges, where ``all`` is the mean over relations."""

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

    relations: Mapping[str, Relation]
    predicted: Mapping[str, Mapping[str, Predicted]]
    averaged: Sequence[str]


def by_side(relations: Mapping[Key, Relation]) -> dict[str, dict[str, Relation]]:
    """Relations of each side."""
    found: dict[str, dict[str, Relation]] = {}
    for (side, name), relation in relations.items():
        found.setdefault(side, {})[name] = relation
    return found


def relation_scores(side: Side, predictor: str, template: Score) -> Iterator[Score]:
    """Hits of one kind of predictor on each relation, for each metric and k."""
    for name, found in side.predicted[predictor].items():
        relation = side.relations[name]
        estimates = ratios(_sums(relation, found), "proportion")
        templates = [
            dataclasses.replace(
                template,
                slice=f"relation={name}",
                control=None if predictor == HEADS else predictor,
                metric=METRICS[metric],
                params={"k": k, "name": found.name[metric][k - 1] or None},
                **_place(relation, int(found.head[metric, k - 1])),
            )
            for metric in range(len(METRICS))
            for k in range(1, TOP + 1)
        ]
        yield from _filled(estimates, templates, int(_scored(relation).sum()))


def gains(side: Side, over: str, template: Score) -> Iterator[Score]:
    """How far the heads are ahead of a control on each relation, and on average."""
    for name, found in side.predicted[HEADS].items():
        relation, other = side.relations[name], side.predicted[over][name]
        apart = np.abs(found.hits.astype(np.int64) - other.hits).sum(axis=0).reshape(-1)
        estimates = differences(
            _sums(relation, found), _sums(relation, other), "difference", discordant=apart.astype(np.float64)
        )
        templates = [
            dataclasses.replace(
                template,
                slice=f"relation={name}",
                metric=f"{METRICS[metric]}_gain",
                params={"k": k, "other": over},
                **_place(relation, int(found.head[metric, k - 1])),
            )
            for metric in range(len(METRICS))
            for k in range(1, TOP + 1)
        ]
        yield from _filled(estimates, templates, int(_scored(relation).sum()))
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
    slices = {"all": held, "near": [name for name in held if name in near]}
    slices["far"] = [name for name in held if name not in near]
    for slice_name, names in slices.items():
        if not names:
            continue
        items, weights = _weights([side.relations[name] for name in names])
        for metric in range(len(METRICS)):
            for k in range(1, TOP + 1):
                kinds = [predictor, over] if over else [predictor]
                hits = [
                    _by_item([(side.relations[n], side.predicted[kind][n]) for n in names], items, metric, k)
                    for kind in kinds
                ]
                estimates = _mean_of_ratios(hits, weights)
                yield from _filled(
                    estimates,
                    [
                        dataclasses.replace(
                            template,
                            slice=slice_name,
                            control=None if predictor == HEADS else predictor,
                            metric=METRICS[metric] + ("_gain" if over else ""),
                            params={"k": k, "name": f"{len(names)} relations", "other": over or None},
                        )
                    ],
                    int(weights.sum()),
                )


def pooled(side: Side, predictor: str, template: Score) -> Iterator[Score]:
    """Share of all edges of the averaged relations that are hit, each edge with equal weight.

    Of the heads also how far they are ahead of each control.
    """
    names = [name for name in side.averaged if name in side.predicted[predictor]]
    if not names:
        return
    items, weights = _weights([side.relations[name] for name in names])
    edges = weights.sum(1)

    def hits(kind: str) -> Float[np.ndarray, "item cell"]:
        total = np.zeros((len(items), len(METRICS) * TOP))
        for name in names:
            relation, found = side.relations[name], side.predicted[kind][name]
            rows = np.searchsorted(items, relation.item[relation.test])
            total[rows] += found.hits.reshape(len(rows), -1)
        return total

    own = _cells(items, hits(predictor), edges)
    cells = [(metric, k) for metric in range(len(METRICS)) for k in range(1, TOP + 1)]
    control = None if predictor == HEADS else predictor
    templates = [
        dataclasses.replace(
            template,
            slice=EDGES,
            control=control,
            metric=METRICS[metric],
            params={"k": k, "name": f"{len(names)} relations"},
        )
        for metric, k in cells
    ]
    yield from _filled(ratios(own, "proportion"), templates, int(edges.sum()))
    for over in side.predicted if predictor == HEADS else ():
        if over == HEADS:
            continue
        parts = [
            np.abs(side.predicted[HEADS][name].hits - side.predicted[over][name].hits).sum(0)
            for name in names
        ]
        apart = np.sum(parts, axis=0, dtype=np.float64).reshape(-1)
        estimates = differences(own, _cells(items, hits(over), edges), "difference", discordant=apart)
        ahead = [
            dataclasses.replace(one, metric=f"{one.metric}_gain", params={**one.params, "other": over})
            for one in templates
        ]
        yield from _filled(estimates, ahead, int(edges.sum()))


def mean_offset(relation: Relation) -> float:
    """Mean offset from what is asked to the first word looked for, over all edges."""
    return float(relation.offset_first.mean()) if len(relation.offset_first) else math.nan


def offset_scores(relations: Mapping[str, Relation], template: Score) -> Iterator[Score]:
    """Mean offset of each relation, near or far, and how many edges it has on either side of the split."""
    for name, relation in relations.items():
        offsets = np.abs(relation.offset_first).astype(np.float64)
        start = np.cumsum(relation.edges) - relation.edges
        sums = ClusterSums(
            group=np.zeros(len(relation.edges), np.int64),
            cluster=relation.item,
            x=np.add.reduceat(offsets, start),
            w=relation.edges.astype(np.float64),
            n_groups=1,
        )
        distance = "near" if abs(mean_offset(relation)) < NEAR else "far"
        one = dataclasses.replace(
            template,
            slice=f"relation={name}",
            split="all",
            metric="mean_offset",
            params={"name": distance},
        )
        yield from _filled(ratios(sums, "nonnegative"), [one], int(relation.edges.sum()))
        for split, rows in (("valid", ~relation.test), ("test", relation.test)):
            edges = int(relation.edges[rows].sum())
            yield dataclasses.replace(
                template,
                slice=f"relation={name}",
                split=split,
                metric="edges",
                value=edges,
                n=edges,
                n_clusters=int(rows.sum()),
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
        edges = _scored(relation)
        yield dataclasses.replace(
            template,
            slice="head",
            metric="first_hit",
            params={"k": 1, "name": names[place]},
            value=float(scored[place, head]),
            n=int(edges.sum()),
            n_clusters=len(edges),
            **_place(relation, head),
        )


def _shares(relation: Relation, split: int) -> Float[np.ndarray, "metric k head"]:
    edges = int(relation.edges[relation.test == bool(split)].sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return relation.hits[split] / np.float64(edges)


def _scored(relation: Relation) -> Int[np.ndarray, " row"]:
    return relation.edges[relation.test]


def _place(relation: Relation, head: int) -> dict[str, int]:
    return {"layer": head // relation.heads, "head": head % relation.heads} if head >= 0 else {}


def _cells(
    items: Int[np.ndarray, " item"], hits: Float[np.ndarray, "item cell"], edges: Float[np.ndarray, " item"]
) -> ClusterSums:
    """One group a metric and k, one cluster an item."""
    groups = hits.shape[1]
    return ClusterSums(
        group=np.tile(np.arange(groups), len(items)),
        cluster=np.repeat(items, groups),
        x=hits.reshape(-1),
        w=np.repeat(edges, groups).astype(np.float64),
        n_groups=groups,
    )


def _sums(relation: Relation, found: Predicted) -> ClusterSums:
    items = relation.item[relation.test]
    return _cells(items, found.hits.reshape(len(items), -1).astype(np.float64), _scored(relation))


def _weights(
    relations: Sequence[Relation],
) -> tuple[Int[np.ndarray, " item"], Float[np.ndarray, "item name"]]:
    """The items that some relation occurs in, and the edges of each relation in each."""
    items = np.unique(np.concatenate([relation.item[relation.test] for relation in relations]))
    weights = np.zeros((len(items), len(relations)))
    for column, relation in enumerate(relations):
        weights[np.searchsorted(items, relation.item[relation.test]), column] = _scored(relation)
    return items, weights


def _by_item(
    found: Sequence[tuple[Relation, Predicted]], items: Int[np.ndarray, " item"], metric: int, k: int
) -> Float[np.ndarray, "item name"]:
    hits = np.zeros((len(items), len(found)))
    for column, (relation, predicted) in enumerate(found):
        rows = np.searchsorted(items, relation.item[relation.test])
        hits[rows, column] = predicted.hits[:, metric, k - 1]
    return hits


def _mean_of_ratios(
    hits: Sequence[Float[np.ndarray, "item name"]], weights: Float[np.ndarray, "item name"]
) -> Estimates:
    size = weights.shape[1]

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = [totals[:, at : at + size] / totals[:, -size:] for at in range(0, size * len(hits), size)]
        # A relation that only the left-out item holds has no share there; the others are averaged.
        mine = parts[0] if len(parts) == 1 else parts[0] - parts[1]
        known = np.isfinite(mine)
        with np.errstate(invalid="ignore"):
            return np.where(known, mine, 0.0).sum(axis=1) / known.sum(axis=1)

    kind = "unit" if len(hits) == 1 else "difference"
    return jackknife(statistic, np.concatenate([*hits, weights], axis=1), weights.sum(1), kind)


def _filled(estimates: Estimates, templates: Sequence[Score], n: int) -> Iterator[Score]:
    return rows_of(estimates, templates, [n] * len(templates))
