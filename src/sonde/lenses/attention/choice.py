"""Predictors of each relation, chosen on some edges and scored on others: heads, offsets, keywords.

Choosing on the edges that are scored is an oracle, as published; it is kept as quirks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.lenses.attention.baselines import FARTHEST, Hits, greedy, ranks
from sonde.lenses.attention.observe import METRICS
from sonde.lenses.attention.quirks import FITTED_ON_TEST, LARGER_HEAD, ORACLE
from sonde.lenses.attention.sums import TOP, Key, Relation, follow


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """What one kind of predictor hits of one relation.

    Attributes:
        hits: Edges hit, for each scored row.
        fitted: Edges hit among those that it was chosen on.
        head: The head chosen for each metric and k, counted over the layers; -1 for what is no head.
        name: What was chosen: offsets, keywords, or which of both is better.
    """

    hits: Int[np.ndarray, "row metric k"] | Float[np.ndarray, "row metric k"]
    fitted: Int[np.ndarray, "metric k"]
    head: Int[np.ndarray, "metric k"]
    name: tuple[tuple[str, ...], ...]


_NO_HEAD = np.full((len(METRICS), TOP), -1)
_UNNAMED = (("",) * TOP,) * len(METRICS)


def usable(relation: Relation, quirks: Set[str]) -> bool:
    """Whether there are edges to choose on and edges to score."""
    scored = int(relation.edges[relation.test].sum())
    return scored > 0 and (ORACLE in quirks or scored < int(relation.edges.sum()))


def heads(
    relations: Mapping[Key, Relation], observations: pl.LazyFrame, splits: Mapping[str, str], quirks: Set[str]
) -> tuple[dict[Key, Predicted], dict[Key, Predicted]]:
    """For each metric the best head of each relation, and the one that is best for all of its side together.

    As an oracle they are chosen anew for each k.
    """
    chosen_on = {key: _chosen_on(relation, quirks) for key, relation in relations.items()}
    together = {
        side: _best_head(
            np.sum([hits for (other, _), hits in chosen_on.items() if other == side], axis=0), quirks
        )
        for side in {side for side, _ in relations}
    }
    chosen = {key: np.stack([_best_head(hits, quirks), together[key[0]]]) for key, hits in chosen_on.items()}
    followed = follow(observations, splits, chosen)
    best, one = (
        {
            key: Predicted(
                hits=followed[key][:, place],
                fitted=np.take_along_axis(chosen_on[key], chosen[key][place][:, :, None], 2)[:, :, 0],
                head=chosen[key][place],
                name=_UNNAMED,
            )
            for key in relations
        }
        for place in (0, 1)
    )
    return best, one


def longest(relation: Relation) -> Predicted:
    """The longest words among the candidates."""
    hits = relation.blind[..., 0]
    return Predicted(hits[relation.test], hits[~relation.test].sum(0), _NO_HEAD, _UNNAMED)


def chance(relation: Relation) -> Predicted:
    """Candidates picked at random: the mean over the orders."""
    hits = relation.blind[..., 1:].mean(-1)
    return Predicted(hits[relation.test], hits[~relation.test].sum(0), _NO_HEAD, _UNNAMED)


def _chosen_on(relation: Relation, quirks: Set[str]) -> Int[np.ndarray, "metric k head"]:
    return relation.hits[1 if ORACLE in quirks else 0]


def _best_head(hits: Int[np.ndarray, "metric k head"], quirks: Set[str]) -> Int[np.ndarray, "metric k"]:
    count = hits.shape[2]
    if ORACLE not in quirks:
        # One head a metric, so that its curve over k is that of a head; few edges leave ties, which later
        # ranks decide.
        hits = hits[:, :1] * (int(hits.max()) * TOP + 1) + hits.sum(axis=1, keepdims=True)
    best = count - 1 - hits[:, :, ::-1].argmax(2) if LARGER_HEAD in quirks else hits.argmax(2)
    return np.broadcast_to(best, (len(METRICS), TOP)).copy()


def offsets(relation: Relation, quirks: Set[str]) -> Predicted:
    """Up to k fixed offsets; in programs a dependent stands after its head, in prose on either side."""
    least = -FARTHEST if (relation.offset_first < 0).any() else 1
    hits = [relation.offsets(metric) for metric in range(len(METRICS))]
    return _fitted(relation, hits, (least, FARTHEST), quirks, lambda offset: f"{offset:+d}")


def keywords(relation: Relation, names: Sequence[str], quirks: Set[str]) -> Predicted:
    """Up to k keywords, each predicting its next occurrence."""
    return _fitted(relation, relation.keywords, (0, len(names) - 1), quirks, lambda place: names[place])


def combined(one: Predicted, other: Predicted, names: tuple[str, str]) -> Predicted:
    """For each metric and k the better of two predictors, the first among equals."""
    first = one.fitted >= other.fitted
    return Predicted(
        hits=np.where(first, one.hits, other.hits),
        fitted=np.where(first, one.fitted, other.fitted),
        head=_NO_HEAD,
        name=tuple(tuple(names[0] if better else names[1] for better in row) for row in first.tolist()),
    )


def _fitted(
    relation: Relation,
    hits: Sequence[Hits],
    bounds: tuple[int, int],
    quirks: Set[str],
    named: Callable[[int], str],
) -> Predicted:
    row = relation.row
    scored = relation.test[row]
    fitting = scored if FITTED_ON_TEST in quirks else ~scored
    rows = np.cumsum(relation.test)[row[scored]] - 1
    n_rows = int(relation.test.sum())
    sums: list[Int[np.ndarray, "row k"]] = []
    fitted: list[Int[np.ndarray, " k"]] = []
    name: list[tuple[str, ...]] = []
    for one in hits:
        chosen = greedy(one.take(fitting), TOP, *bounds)
        place = ranks(one, chosen)
        # Rows by rank, then added up: an edge hit at rank 3 is hit at every k from 3 on.
        at = np.minimum(place[scored], TOP + 1).astype(np.int64)
        counts = np.bincount(rows * (TOP + 2) + at, minlength=n_rows * (TOP + 2)).reshape(-1, TOP + 2)
        sums.append(np.cumsum(counts[:, 1 : TOP + 1], axis=1))
        fitted.append((place[fitting][:, None] <= np.arange(1, TOP + 1)).sum(0))
        name.append(tuple(",".join(map(named, chosen[:k])) for k in range(1, TOP + 1)))
    return Predicted(np.stack(sums, axis=1), np.stack(fitted), _NO_HEAD, tuple(name))
