"""Attention scores: hits of the chosen predictors by relation and on average, and sink mass.

All scores have clustered intervals. Sink mass is the attention that a head pays to tokens without meaning:
the first one, and the separators. A head that finds no word to attend to has to put its attention somewhere,
since attention sums to one (Xiao et al. 2024; Clark et al. 2019). Such a head is not a poor predictor of
syntax: it is at rest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.lenses.attention.observe import METRICS
from sonde.lenses.attention.predictors import TOP, Key, PredictorHits, RelationEdges, cluster_names
from sonde.results import Mean, Score, cells, mean_rows, means, statistic_rows
from sonde.results.schema import Dimensions
from sonde.stats.estimate import Statistic, sum_by_cluster

NEAR = 10
"""Relations are near where the mean offset is below this, else far (section 2)."""


EDGES = ("average", "edges")
"""Dimension of what is over all edges; without it an average is the mean over relations."""


FOLLOWED = "followed"
"""Dimension of a head: the relation that it follows best on validation."""


BY_HEAD = "by_head"
"""Dimension of any head: the relation whose edges it finds, whether or not it was chosen for it."""


HEADS = "heads"
"""What the model itself is called among the predictors; its scores carry no ``control``."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StackPredictions:
    """Everything that was predicted on one side of a model.

    Attributes:
        relations: The relations.
        predicted: For each kind of predictor, what it hits of each relation.
        averaged_relations: Relations that the average is over.
    """

    relations: Mapping[str, RelationEdges]
    predicted: Mapping[str, Mapping[str, PredictorHits]]
    averaged_relations: Sequence[str]
    _added: dict[tuple[str, str], pl.DataFrame] = dataclasses.field(default_factory=dict)

    def sums(self, predictor: str, over: str = "") -> pl.DataFrame:
        """By ``relation, cluster``: scored ``edges``, and by metric and k those hit.

        Args:
            predictor: Whose hits, in columns ``own``.
            over: A control, whose hits are in columns ``other``; in ``apart`` the edges told apart.
        """
        if (predictor, over) not in self._added:
            names = list(self.predicted[predictor])
            found = [self._sum_hits(name, predictor, over) for name in names]
            parts = (_OWN, _OTHER, _APART) if over else (_OWN,)
            columns = ["edges", *(f"{part} {at}" for part in parts for at in range(len(_PLACES)))]
            self._added[predictor, over] = pl.from_numpy(
                np.concatenate([sums for _, sums in found]), columns
            ).with_columns(
                cluster=np.concatenate([clusters for clusters, _ in found]),
                relation=pl.Series(names).gather(
                    np.repeat(range(len(found)), [len(one) for one, _ in found])
                ),
            )
        return self._added[predictor, over]

    def _sum_hits(
        self, name: str, predictor: str, over: str
    ) -> tuple[Int[np.ndarray, " cluster"], Float[np.ndarray, "cluster value"]]:
        """Of one relation, edges and hits by cluster."""
        relation, mine = self.relations[name], self.predicted[predictor][name]
        values = [_scored_rows(relation), mine.hits]
        if over:
            control = self.predicted[over][name]
            # By edge: in an item one predictor may hit as many as the other, and others.
            values += [control.hits, relation.sum_by_row(mine.compute_disagreement(control))]
        flat = [one.reshape(len(one), -1) for one in values]
        return sum_by_cluster(np.concatenate(flat, axis=1), relation.cluster[relation.test])

    def averaged_names(self, predictor: str) -> list[str]:
        """The relations that averages are over, as far as a predictor was fitted to them."""
        return [name for name in self.averaged_relations if name in self.predicted[predictor]]


_OWN, _OTHER, _APART = "own", "other", "apart"


_PLACES = [(metric, k) for metric in METRICS for k in range(1, TOP + 1)]
"""Every metric with every k, as the columns of `StackPredictions.sums` have them."""


def _shares(over: str = "") -> list[Mean]:
    """The share of the edges that is hit, or by how much it is greater than a control's."""
    return [
        Mean(
            f"{metric}_gain" if over else metric,
            pl.col(f"{_OWN} {at}"),
            per=pl.col("edges"),
            baseline=pl.col(f"{_OTHER} {at}") if over else None,
            squares=pl.col(f"{_APART} {at}"),
            fields={"k": k, "compared_to": over or None},
        )
        for at, (metric, k) in enumerate(_PLACES)
    ]


def group_by_stack(relations: Mapping[Key, RelationEdges]) -> dict[str, dict[str, RelationEdges]]:
    """Relations of each side."""
    found: dict[str, dict[str, RelationEdges]] = {}
    for (side, name), relation in relations.items():
        found.setdefault(side, {})[name] = relation
    return found


def all_scores(side: StackPredictions, predictor: str, template: Score) -> Iterator[Score]:
    """What one kind of predictor hits of each relation, on average and of all edges together."""
    yield from relation_scores(side, predictor, template)
    yield from averages(side, predictor, template)
    yield from pooled_scores(side, predictor, template)


def relation_scores(side: StackPredictions, predictor: str, template: Score, over: str = "") -> list[Score]:
    """Hits of one kind of predictor on each relation, for each metric and k.

    Args:
        side: What was predicted.
        predictor: Whose hits.
        template: Carries model and the rest.
        over: A control whose hits are subtracted.
    """
    found = side.predicted[predictor]
    if not found:
        return []
    rows = means(side.sums(predictor, over), _shares(over), _with_control(predictor, template), by="relation")
    # Relation by relation; each relation's rows keep their order.
    held: dict[str, list[Score]] = {name: [] for name in found}
    for row in rows:
        name = dict(row.dimensions)["relation"]
        metric, k = METRICS.index(row.metric.removesuffix("_gain")), (row.k or 1) - 1
        chosen = None if over else found[name].name[metric][k] or None
        place = _head_fields(side.relations[name], int(found[name].head[metric, k]))
        held[name].append(dataclasses.replace(row, chosen=chosen, **place))
    return [row for some in held.values() for row in some]


def gains(side: StackPredictions, over: str, template: Score) -> Iterator[Score]:
    """How far the heads are ahead of a control on each relation, and on average."""
    yield from relation_scores(side, HEADS, template, over)
    yield from averages(side, HEADS, template, over=over)


def averages(side: StackPredictions, predictor: str, template: Score, *, over: str = "") -> Iterator[Score]:
    """Unweighted mean over relations: all that are averaged, the near and the far ones among them.

    Args:
        side: What was predicted.
        predictor: Whose hits.
        template: Carries model and the rest.
        over: A control whose mean is subtracted.
    """
    held = side.averaged_names(predictor)
    if not held:
        return
    near = {name for name in held if abs(mean_offset(side.relations[name])) < NEAR}
    parts: dict[Dimensions, Sequence[str]] = {
        (): held,
        (("distance", "near"),): [name for name in held if name in near],
        (("distance", "far"),): [name for name in held if name not in near],
    }
    sums, size = side.sums(predictor, over), len(_PLACES)
    values = [pl.col(f"{part} {at}") for part in (_OWN, _OTHER)[: 1 + bool(over)] for at in range(size)]
    for part, names in parts.items():
        if not names:
            continue
        rows = sums.filter(pl.col("relation").is_in(names))
        table = (
            cells(rows, [*values, pl.col("edges")], ["relation"])
            .toarray()
            .reshape(-1, len(values) + 1, len(names))
        )
        weight, clusters = table[:, -1].sum(axis=1), rows["cluster"].unique().sort().to_numpy()
        about = dataclasses.replace(
            _with_control(predictor, template).within(*part), n_relations=len(names), compared_to=over or None
        )
        for at, one in enumerate(_shares(over)):
            own = table[:, [*range(at, len(values), size), -1]].reshape(len(table), -1)
            named = dataclasses.replace(about, metric=one.metric, **one.fields)
            kind = "difference" if over else "proportion"
            yield from statistic_rows(
                named, _mean_of_ratios(len(names)), own, weight, kind, clusters=clusters
            )


def pooled_scores(side: StackPredictions, predictor: str, template: Score) -> Iterator[Score]:
    """Share of all edges of the averaged relations that are hit, each edge with equal weight.

    Of the heads also how far they are ahead of each control.
    """
    names = side.averaged_names(predictor)
    if not names:
        return
    about = dataclasses.replace(_with_control(predictor, template).within(EDGES), n_relations=len(names))
    controls = [other for other in side.predicted if predictor == HEADS and other != HEADS]
    for over in ("", *controls):
        rows = side.sums(predictor, over).filter(pl.col("relation").is_in(names))
        yield from means(rows, _shares(over), about)


def mean_offset(relation: RelationEdges) -> float:
    """Mean offset from what is asked to the first word looked for, over all edges."""
    return float(relation.offset_first.mean()) if len(relation.offset_first) else math.nan


def offset_scores(relations: Mapping[str, RelationEdges], template: Score) -> Iterator[Score]:
    """Mean offset of each relation, near or far, and how many edges it has on either side of the split."""
    for name, relation in relations.items():
        offsets = np.abs(relation.offset_first).astype(np.float64)
        distance = "near" if abs(mean_offset(relation)) < NEAR else "far"
        one = dataclasses.replace(
            template.within(("relation", name), ("distance", distance)), split="all", metric="mean_offset"
        )
        clusters = relation.cluster[relation.row]
        yield from mean_rows(one, offsets[None], clusters, kind="nonnegative")
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


def head_map(side: StackPredictions, template: Score) -> Iterator[Score]:
    """Each head with the relation that it follows best on validation, and how often it does so on test."""
    names = list(side.predicted[HEADS])
    if not names:
        return
    chosen_on, scored = (
        np.stack([_of_heads(side.relations[name], split)[METRICS.index("first_hit"), 0] for name in names])
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
            n=int(_scored_rows(relation).sum()),
            n_clusters=len(np.unique(relation.cluster[relation.test])),
            **_head_fields(relation, head),
        )


def head_relations(side: StackPredictions, template: Score) -> Iterator[Score]:
    """Of every head and relation the share of test edges found at once, by which nothing is chosen."""
    for name in side.predicted[HEADS]:
        relation = side.relations[name]
        shares = _of_heads(relation, 1)[METRICS.index("first_hit"), 0]
        about = dataclasses.replace(
            template.within((BY_HEAD, name)),
            metric="first_hit",
            k=1,
            n=int(_scored_rows(relation).sum()),
            n_clusters=len(np.unique(relation.cluster[relation.test])),
        )
        for head, share in enumerate(shares.tolist()):
            yield dataclasses.replace(about, value=share, **_head_fields(relation, head))


def _of_heads(relation: RelationEdges, split: int) -> Float[np.ndarray, "metric k head"]:
    edges = int(relation.edges[relation.test == bool(split)].sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return relation.hits[split] / np.float64(edges)


def _scored_rows(relation: RelationEdges) -> Int[np.ndarray, " row"]:
    return relation.edges[relation.test]


def _head_fields(relation: RelationEdges, head: int) -> dict[str, int]:
    return {"layer": head // relation.heads, "head": head % relation.heads} if head >= 0 else {}


def _with_control(predictor: str, template: Score) -> Score:
    return dataclasses.replace(template, control=None if predictor == HEADS else predictor)


def _mean_of_ratios(size: int) -> Statistic:
    """The mean over relations of the share hit, or of how much greater it is than another's.

    Totals are hits of each relation, then perhaps those of a control, and its edges last.
    """

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        *hits, edges = totals.reshape(len(totals), -1, size).swapaxes(0, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            own, *other = (one / edges for one in hits)
        # A relation that only the left-out cluster holds has no share there; the others are averaged.
        mine = own - other[0] if other else own
        known = np.isfinite(mine)
        with np.errstate(invalid="ignore"):
            return np.where(known, mine, 0.0).sum(axis=1) / known.sum(axis=1)

    return statistic


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
