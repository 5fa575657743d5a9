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

    def sums(self, predictor: str, control: str = "") -> pl.DataFrame:
        """Sum scored ``edges`` and their hits by ``relation, cluster``.

        Args:
            predictor: Whose hits, in columns ``own``.
            control: A control, whose hits are in columns ``other``; in ``apart`` the edges told apart.
        """
        if (predictor, control) not in self._added:
            names = list(self.predicted[predictor])
            sums_of_relations = [self._sum_hits(name, predictor, control) for name in names]
            parts = (_OWN, _OTHER, _APART) if control else (_OWN,)
            columns = ["edges", *(f"{part} {index}" for part in parts for index in range(len(_PLACES)))]
            self._added[predictor, control] = pl.from_numpy(
                np.concatenate([sums for _, sums in sums_of_relations]), columns
            ).with_columns(
                cluster=np.concatenate([clusters for clusters, _ in sums_of_relations]),
                relation=pl.Series(names).gather(
                    np.repeat(
                        range(len(sums_of_relations)), [len(clusters) for clusters, _ in sums_of_relations]
                    )
                ),
            )
        return self._added[predictor, control]

    def _sum_hits(
        self, name: str, predictor: str, control_name: str
    ) -> tuple[Int[np.ndarray, " cluster"], Float[np.ndarray, "cluster value"]]:
        """Sum edges and hits of one relation by cluster."""
        relation, hits = self.relations[name], self.predicted[predictor][name]
        values = [_scored_rows(relation), hits.hits]
        if control_name:
            control_hits = self.predicted[control_name][name]
            # By edge: in an item one predictor may hit as many as the other, and others.
            values += [control_hits.hits, relation.sum_by_row(hits.compute_disagreement(control_hits))]
        flat = [array.reshape(len(array), -1) for array in values]
        return sum_by_cluster(np.concatenate(flat, axis=1), relation.cluster[relation.test])

    def averaged_names(self, predictor: str) -> list[str]:
        """Return the relations to average over, as far as a predictor was fitted to them."""
        return [name for name in self.averaged_relations if name in self.predicted[predictor]]


_OWN, _OTHER, _APART = "own", "other", "apart"


_PLACES = [(metric, k) for metric in METRICS for k in range(1, TOP + 1)]
"""Every metric with every k, as the columns of `StackPredictions.sums` have them."""


def _shares(control: str = "") -> list[Mean]:
    """Return the means of hit shares, or of their gains over a control."""
    return [
        Mean(
            f"{metric}_gain" if control else metric,
            pl.col(f"{_OWN} {index}"),
            per=pl.col("edges"),
            baseline=pl.col(f"{_OTHER} {index}") if control else None,
            squares=pl.col(f"{_APART} {index}"),
            fields={"k": k, "compared_to": control or None},
        )
        for index, (metric, k) in enumerate(_PLACES)
    ]


def group_by_stack(relations: Mapping[Key, RelationEdges]) -> dict[str, dict[str, RelationEdges]]:
    """Group relations by side."""
    by_side: dict[str, dict[str, RelationEdges]] = {}
    for (side, name), relation in relations.items():
        by_side.setdefault(side, {})[name] = relation
    return by_side


def all_scores(side: StackPredictions, predictor: str, template: Score) -> Iterator[Score]:
    """Score one kind of predictor on each relation, on average and over all edges."""
    yield from relation_scores(side, predictor, template)
    yield from averages(side, predictor, template)
    yield from pooled_scores(side, predictor, template)


def relation_scores(
    side: StackPredictions, predictor: str, template: Score, control: str = ""
) -> list[Score]:
    """Score one kind of predictor on each relation, for each metric and k.

    Args:
        side: What was predicted.
        predictor: Whose hits.
        template: Carries model and the rest.
        control: A control whose hits are subtracted.
    """
    predictions = side.predicted[predictor]
    if not predictions:
        return []
    rows = means(
        side.sums(predictor, control), _shares(control), _with_control(predictor, template), by="relation"
    )
    # Relation by relation; each relation's rows keep their order.
    scores: dict[str, list[Score]] = {name: [] for name in predictions}
    for row in rows:
        name = dict(row.dimensions)["relation"]
        metric, k = METRICS.index(row.metric.removesuffix("_gain")), (row.k or 1) - 1
        predictor_name = None if control else predictions[name].name[metric][k] or None
        head_fields = _head_fields(side.relations[name], int(predictions[name].head[metric, k]))
        scores[name].append(dataclasses.replace(row, chosen=predictor_name, **head_fields))
    return [row for scores_of_relation in scores.values() for row in scores_of_relation]


def gains(side: StackPredictions, control: str, template: Score) -> Iterator[Score]:
    """Score the gain of heads over a control on each relation, and on average."""
    yield from relation_scores(side, HEADS, template, control)
    yield from averages(side, HEADS, template, control=control)


def averages(
    side: StackPredictions, predictor: str, template: Score, *, control: str = ""
) -> Iterator[Score]:
    """Average over relations without weights: over all, the near and the far ones.

    Args:
        side: What was predicted.
        predictor: Whose hits.
        template: Carries model and the rest.
        control: A control whose mean is subtracted.
    """
    names_averaged = side.averaged_names(predictor)
    if not names_averaged:
        return
    near_names = {name for name in names_averaged if abs(mean_offset(side.relations[name])) < NEAR}
    parts: dict[Dimensions, Sequence[str]] = {
        (): names_averaged,
        (("distance", "near"),): [name for name in names_averaged if name in near_names],
        (("distance", "far"),): [name for name in names_averaged if name not in near_names],
    }
    sums, size = side.sums(predictor, control), len(_PLACES)
    values = [
        pl.col(f"{part} {index}") for part in (_OWN, _OTHER)[: 1 + bool(control)] for index in range(size)
    ]
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
        part_template = dataclasses.replace(
            _with_control(predictor, template).within(*part),
            n_relations=len(names),
            compared_to=control or None,
        )
        for index, metric_mean in enumerate(_shares(control)):
            columns = table[:, [*range(index, len(values), size), -1]].reshape(len(table), -1)
            metric_template = dataclasses.replace(
                part_template, metric=metric_mean.metric, **metric_mean.fields
            )
            kind = "difference" if control else "proportion"
            yield from statistic_rows(
                metric_template, _mean_of_ratios(len(names)), columns, weight, kind, clusters=clusters
            )


def pooled_scores(side: StackPredictions, predictor: str, template: Score) -> Iterator[Score]:
    """Score all edges of the averaged relations together, each with equal weight.

    Of the heads also how far they are ahead of each control.
    """
    names = side.averaged_names(predictor)
    if not names:
        return
    pooled_template = dataclasses.replace(
        _with_control(predictor, template).within(EDGES), n_relations=len(names)
    )
    controls = [name for name in side.predicted if predictor == HEADS and name != HEADS]
    for control in ("", *controls):
        rows = side.sums(predictor, control).filter(pl.col("relation").is_in(names))
        yield from means(rows, _shares(control), pooled_template)


def mean_offset(relation: RelationEdges) -> float:
    """Compute the mean offset from the query word to the first target word."""
    return float(relation.offset_first.mean()) if len(relation.offset_first) else math.nan


def offset_scores(relations: Mapping[str, RelationEdges], template: Score) -> Iterator[Score]:
    """Score the mean offset of each relation, and its edges on either side of the split."""
    for name, relation in relations.items():
        offsets = np.abs(relation.offset_first).astype(np.float64)
        distance = "near" if abs(mean_offset(relation)) < NEAR else "far"
        offset_template = dataclasses.replace(
            template.within(("relation", name), ("distance", distance)), split="all", metric="mean_offset"
        )
        clusters = relation.cluster[relation.row]
        yield from mean_rows(offset_template, offsets[None], clusters, kind="nonnegative")
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
    """Score each head on the relation that it follows best on validation."""
    names = list(side.predicted[HEADS])
    if not names:
        return
    chosen_on, test_shares = (
        np.stack([_first_hit_shares(side.relations[name], split) for name in names]) for split in (0, 1)
    )
    best = np.where(np.isnan(chosen_on), -1.0, chosen_on).argmax(0)
    for head, index in enumerate(best.tolist()):
        relation = side.relations[names[index]]
        yield dataclasses.replace(
            template.within((FOLLOWED, names[index])),
            metric="first_hit",
            k=1,
            value=float(test_shares[index, head]),
            n=int(_scored_rows(relation).sum()),
            n_clusters=len(np.unique(relation.cluster[relation.test])),
            **_head_fields(relation, head),
        )


def head_relations(side: StackPredictions, template: Score) -> Iterator[Score]:
    """Score every head on every relation, with nothing chosen."""
    for name in side.predicted[HEADS]:
        relation = side.relations[name]
        relation_template = dataclasses.replace(
            template.within((BY_HEAD, name)),
            metric="first_hit",
            k=1,
            n=int(_scored_rows(relation).sum()),
            n_clusters=len(np.unique(relation.cluster[relation.test])),
        )
        for head, share in enumerate(_first_hit_shares(relation, 1).tolist()):
            yield dataclasses.replace(relation_template, value=share, **_head_fields(relation, head))


def _first_hit_shares(relation: RelationEdges, split: int) -> Float[np.ndarray, " head"]:
    """Compute the share of edges whose first word each head ranks first."""
    edges = int(relation.edges[relation.test == bool(split)].sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return relation.hits[split, METRICS.index("first_hit"), 0] / np.float64(edges)


def _scored_rows(relation: RelationEdges) -> Int[np.ndarray, " row"]:
    return relation.edges[relation.test]


def _head_fields(relation: RelationEdges, head: int) -> dict[str, int]:
    return {"layer": head // relation.heads, "head": head % relation.heads} if head >= 0 else {}


def _with_control(predictor: str, template: Score) -> Score:
    return dataclasses.replace(template, control=None if predictor == HEADS else predictor)


def _mean_of_ratios(size: int) -> Statistic:
    """Build the statistic of the mean over relations of hit shares, or of their gains.

    Totals are hits of each relation, then perhaps those of a control, and its edges last.
    """

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        *hits, edges = totals.reshape(len(totals), -1, size).swapaxes(0, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            first, *rest = (metric_hits / edges for metric_hits in hits)
        # A relation that only the left-out cluster holds has no share there; the others are averaged.
        difference = first - rest[0] if rest else first
        is_finite = np.isfinite(difference)
        with np.errstate(invalid="ignore"):
            return np.where(is_finite, difference, 0.0).sum(axis=1) / is_finite.sum(axis=1)

    return statistic


SINKS = ("sink_first", "sink_separator")
"""Metrics, in the order in which the item table has them."""


def sink_scores(
    observations: pl.LazyFrame, splits: Mapping[str, str], clusters: Mapping[str, str], template: Score
) -> Iterator[Score]:
    """Score the sink mass of each head, every item with equal weight.

    Args:
        observations: Rows of the item table that were read.
        splits: The items that count.
        clusters: Cluster of each item.
        template: What the scores share.
    """
    rows_with_sinks = observations.filter(
        pl.col("sinks").is_not_null(), pl.col("item_id").is_in(list(splits))
    )
    rows = rows_with_sinks.select("item_id", "side", "layers", "heads", "sinks").collect()
    numbers = {name: number for number, name in enumerate(cluster_names(splits, clusters))}
    for (side,), part in rows.sort("item_id").partition_by("side", as_dict=True, maintain_order=True).items():
        layers, heads = int(part["layers"][0]), int(part["heads"][0])
        shares = np.frombuffer(b"".join(part["sinks"].to_list()), np.float32)
        by_sink = shares.reshape(part.height, layers * heads, len(SINKS)).transpose(2, 1, 0)
        cluster_of_item = np.array([numbers[clusters.get(item, item)] for item in part["item_id"]], np.int64)
        head_fields = [{"layer": index // heads, "head": index % heads} for index in range(layers * heads)]
        for metric, values in zip(SINKS, by_sink, strict=True):
            if np.isfinite(values).all():
                sink_template = dataclasses.replace(template, side=str(side), split="all", metric=metric)
                yield from mean_rows(
                    sink_template, values.astype(np.float64), cluster_of_item, head_fields, kind="unit"
                )
