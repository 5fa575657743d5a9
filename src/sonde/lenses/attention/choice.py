"""Predictors of each relation, chosen on some edges and scored on others: heads, offsets, keywords."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from sonde.lenses._lens import LensSettings
from sonde.lenses.attention.baselines import FARTHEST, Hits, greedy, ranks
from sonde.lenses.attention.observe import METRICS
from sonde.lenses.attention.seams import BASELINES
from sonde.lenses.attention.sums import PLACES, TOP, RelationEdges, follow

ByHead = Int[np.ndarray, "metric k head"]
ByEdge = Bool[np.ndarray, "edge metric k"] | Float[np.ndarray, "edge metric k"]


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """What one kind of predictor hits of one relation.

    Attributes:
        edges: Whether it hits each scored edge; of chance, how often.
        hits: Edges hit, for each scored row.
        fitted: Edges hit among those that it was chosen on.
        head: The head chosen for each metric and k, counted over the layers; -1 for what is no head.
        name: What was chosen: offsets, keywords, or which of both is better.
    """

    edges: ByEdge
    hits: Float[np.ndarray, "row metric k"]
    fitted: Float[np.ndarray, "metric k"] | Int[np.ndarray, "metric k"]
    head: Int[np.ndarray, "metric k"]
    name: tuple[tuple[str, ...], ...]

    @classmethod
    def of(
        cls,
        relation: RelationEdges,
        edges: ByEdge,
        fitted: Float[np.ndarray, "metric k"] | Int[np.ndarray, "metric k"],
        *,
        head: Int[np.ndarray, "metric k"] | None = None,
        name: tuple[tuple[str, ...], ...] | None = None,
    ) -> Predicted:
        """From what is hit of each scored edge."""
        hits = relation.added(edges)
        return cls(
            edges, hits, fitted, _NO_HEAD if head is None else head, _UNNAMED if name is None else name
        )

    def told_apart(self, other: Predicted) -> Float[np.ndarray, "edge metric k"]:
        """In which edges two predictors differ; where a hit is a share, the square of how far."""
        return np.subtract(self.edges, other.edges, dtype=np.float32) ** 2


_NO_HEAD = np.full((len(METRICS), TOP), -1)
_UNNAMED = (("",) * TOP,) * len(METRICS)


def _on_both_sides(relation: RelationEdges) -> bool:
    return 0 < int(relation.edges[relation.test].sum()) < int(relation.edges.sum())


def _on_validation(relation: RelationEdges) -> ByHead:
    return relation.hits[0]


def _of_first_place(hits: ByHead) -> ByHead:
    # One head a metric, so that its curve over k is that of a head; few edges leave ties, which later
    # ranks decide.
    return hits[:, :1] * (int(hits.max()) * TOP + 1) + hits.sum(axis=1, keepdims=True)


def _first_of_equals(hits: ByHead) -> Int[np.ndarray, "metric k"]:
    return hits.argmax(2)


@dataclass(frozen=True, slots=True)
class HeadChoice:
    """How the best head of a relation is chosen.

    Attributes:
        usable: Whether a relation has edges to choose on and edges to score.
        hits: The hits of each head on the edges that it is chosen on.
        worth: What heads are compared by, given their hits.
        best: Which head it is.
    """

    usable: Callable[[RelationEdges], bool] = _on_both_sides
    hits: Callable[[RelationEdges], ByHead] = _on_validation
    worth: Callable[[ByHead], ByHead] = _of_first_place
    best: Callable[[ByHead], Int[np.ndarray, "metric k"]] = _first_of_equals

    def of(self, hits: ByHead) -> Int[np.ndarray, "metric k"]:
        """The best head for each metric and k."""
        return np.broadcast_to(self.best(self.worth(hits)), (len(METRICS), TOP)).copy()


def heads(
    side: str,
    relations: Mapping[str, RelationEdges],
    observations: pl.LazyFrame,
    splits: Mapping[str, str],
    choice: HeadChoice,
) -> tuple[dict[str, Predicted], dict[str, Predicted]]:
    """For each metric the best head of each relation of a side, and the one that is best for all together."""
    chosen_on = {name: choice.hits(relation) for name, relation in relations.items()}
    if not chosen_on:
        return {}, {}
    together = choice.of(np.sum([*chosen_on.values()], axis=0))
    chosen = {name: np.stack([choice.of(hits), together]) for name, hits in chosen_on.items()}
    followed = follow(observations, splits, {(side, name): picked for name, picked in chosen.items()})
    best, one = (
        {
            name: Predicted.of(
                relation,
                followed[side, name][:, place],
                np.take_along_axis(chosen_on[name], chosen[name][place][:, :, None], 2)[:, :, 0],
                head=chosen[name][place],
            )
            for name, relation in relations.items()
        }
        for place in (0, 1)
    )
    return best, one


def longest(relation: RelationEdges) -> Predicted:
    """The longest words among the candidates."""
    return _blind(relation, lambda hits: hits[..., 0])


def chance(relation: RelationEdges) -> Predicted:
    """Candidates picked at random: the mean over the orders."""
    return _blind(relation, lambda hits: hits[..., 1:].mean(-1, dtype=np.float32))


def _blind(
    relation: RelationEdges, read: Callable[[Bool[np.ndarray, "edge metric order"]], np.ndarray]
) -> Predicted:
    """What orders that see no attention hit, one k after the other: together they are many."""
    edges = np.stack([read(relation.blind <= k) for k in PLACES], axis=-1)
    scored = relation.test[relation.row]
    return Predicted.of(relation, edges[scored], edges[~scored].sum(0, dtype=np.float64))


def offsets(relation: RelationEdges, settings: LensSettings) -> Predicted:
    """Up to k fixed offsets; in programs a dependent stands after its head, in prose on either side."""
    least = -FARTHEST if (relation.offset_first < 0).any() else 1
    hits = [relation.offsets(metric) for metric in range(len(METRICS))]
    return _fitted(relation, hits, (least, FARTHEST), settings, lambda offset: f"{offset:+d}")


def keywords(relation: RelationEdges, names: Sequence[str], settings: LensSettings) -> Predicted:
    """Up to k keywords, each predicting its next occurrence."""
    return _fitted(relation, relation.keywords, (0, len(names) - 1), settings, lambda place: names[place])


def combined(one: Predicted, other: Predicted, names: tuple[str, str]) -> Predicted:
    """For each metric and k the better of two predictors, the first among equals."""
    first = one.fitted >= other.fitted
    return Predicted(
        edges=np.where(first, one.edges, other.edges),
        hits=np.where(first, one.hits, other.hits),
        fitted=np.where(first, one.fitted, other.fitted),
        head=_NO_HEAD,
        name=tuple(tuple(names[0] if better else names[1] for better in row) for row in first.tolist()),
    )


def _fitted(
    relation: RelationEdges,
    hits: Sequence[Hits],
    bounds: tuple[int, int],
    settings: LensSettings,
    named: Callable[[int], str],
) -> Predicted:
    row = relation.row
    scored = relation.test[row]
    fitting = BASELINES.as_asked(settings, ~scored, scored)
    found: list[Bool[np.ndarray, "edge k"]] = []
    fitted: list[Int[np.ndarray, " k"]] = []
    name: list[tuple[str, ...]] = []
    for one in hits:
        chosen = greedy(one.take(fitting), TOP, *bounds)
        place = ranks(one, chosen)
        found.append(place[scored][:, None] <= PLACES)
        fitted.append((place[fitting][:, None] <= PLACES).sum(0))
        name.append(tuple(",".join(map(named, chosen[:k])) for k in range(1, TOP + 1)))
    return Predicted.of(relation, np.stack(found, axis=1), np.stack(fitted), name=tuple(name))
