"""Predictors of syntactic relations (heads, offsets, keywords), selected by counts of their hits.

Predictors are chosen on some edges and scored on others. An offset predicts the word there, a keyword its
next occurrence. For k > 1 up to k of them are tried, each further one hitting the most edges that are still
missed, as in "Benchmarking Language Models for Code Syntax Understanding", section 3.

Counts by relation are computed from the item table in batches: how many edges each head hits, for all k at
once. There are two passes: the first counts the hits of every head, so that a head can be chosen; the second
follows the chosen heads item by item, so that their scores get intervals. Neither holds the whole table in
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped, UInt8

from sonde.lenses.attention.observe import BASELINES, LENS, METRICS, NEVER, PICKS, unpack
from sonde.lenses.engine.lens import LensSettings, QuirkHook

FARTHEST = 512
"""Offsets are tried up to here (section 3)."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberRuns:
    """The predictors that hit each edge where these are a run of numbers, such as offsets.

    Attributes:
        low: The least number that hits.
        high: The greatest; below `low` where none does.
    """

    low: Int[np.ndarray, " edge"]
    high: Int[np.ndarray, " edge"]

    def __len__(self) -> int:
        return len(self.low)

    def take(self, edges: Bool[np.ndarray, " edge"]) -> NumberRuns:
        """Some of the edges."""
        return NumberRuns(self.low[edges], self.high[edges])

    def hits(self, predictor: int) -> Bool[np.ndarray, " edge"]:
        """Which edges a predictor hits."""
        return (self.low <= predictor) & (predictor <= self.high)

    def best(self, open_edges: Bool[np.ndarray, " edge"], least: int, greatest: int) -> tuple[int, int]:
        """The predictor from ``least`` to ``greatest`` that hits most, nearest to zero among equals.

        Zero is none: it would be the word itself, which attention is not asked for either.
        """
        low = np.maximum(self.low[open_edges], least)
        high = np.minimum(self.high[open_edges], greatest)
        some = low <= high
        size = greatest - least + 2
        steps = np.bincount(low[some] - least, minlength=size) - np.bincount(
            high[some] - least + 1, minlength=size
        )
        hits = np.cumsum(steps)[:-1]
        if least <= 0 <= greatest:
            hits[-least] = 0
        most = int(hits.max(initial=0))
        equal = np.flatnonzero(hits == most) + least
        return int(equal[np.argmin(np.abs(equal))]), most


@dataclass(frozen=True, slots=True, eq=False)
class NumberSets:
    """The predictors that hit each edge where these are any numbers, such as keywords.

    Attributes:
        edges: Number of edges.
        edge: An edge.
        predictor: A predictor, from 0, that hits it; each pair once.
    """

    edges: int
    edge: Int[np.ndarray, " pair"]
    predictor: Int[np.ndarray, " pair"]

    def __len__(self) -> int:
        return self.edges

    def take(self, edges: Bool[np.ndarray, " edge"]) -> NumberSets:
        """Some of the edges."""
        place = np.cumsum(edges) - 1
        kept = edges[self.edge]
        return NumberSets(int(edges.sum()), place[self.edge[kept]], self.predictor[kept])

    def hits(self, predictor: int) -> Bool[np.ndarray, " edge"]:
        """Which edges a predictor hits."""
        found = np.zeros(self.edges, np.bool_)
        found[self.edge[self.predictor == predictor]] = True
        return found

    def best(self, open_edges: Bool[np.ndarray, " edge"], least: int, greatest: int) -> tuple[int, int]:
        """The predictor that hits most, the first among equals."""
        kept = self.predictor[open_edges[self.edge]]
        hits = np.bincount(kept[(least <= kept) & (kept <= greatest)] - least, minlength=greatest - least + 1)
        return int(hits.argmax()) + least, int(hits.max())


Hits = NumberRuns | NumberSets


def select_greedy(hits: Hits, most: int, least: int, greatest: int) -> tuple[int, ...]:
    """Up to ``most`` predictors, each hitting the most edges that those before it miss.

    Args:
        hits: The edges to fit on.
        most: How many are chosen; fewer where no further one hits anything.
        least: First predictor that may be chosen.
        greatest: Last one.
    """
    chosen: list[int] = []
    missed = np.ones(len(hits), np.bool_)
    while len(chosen) < most and missed.any() and least <= greatest:
        predictor, gain = hits.best(missed, least, greatest)
        if gain == 0:
            break
        chosen.append(predictor)
        missed &= ~hits.hits(predictor)
    return tuple(chosen)


def rank_predictors(hits: Hits, chosen: tuple[int, ...]) -> Int[np.ndarray, " edge"]:
    """For each edge the place, from 1, of the first chosen predictor that hits it; else `NEVER`."""
    found = np.full(len(hits), NEVER, np.uint8)
    for place in range(len(chosen), 0, -1):
        found[hits.hits(chosen[place - 1])] = place
    return found


TOP = 20
"""Hits are counted for every k up to here; the published code keeps as many."""


_BATCH_ROWS = 2_000


PLACES = np.arange(1, TOP + 1)
"""Every k."""


Key = tuple[str, str]
"""Side of the model, and relation."""


@dataclass(frozen=True, slots=True, eq=False)
class RelationEdges:
    """All edges of one relation on one side of the model.

    Attributes:
        layers: Layers of the side.
        heads: Heads a layer.
        cluster: Number of the cluster of each row, the same in every relation.
        test: Whether the row is scored; else heads and baselines are chosen on it.
        edges: Edges of each row.
        hits: Edges of the rows chosen on, and of those scored, that each head hits at each k.
        offset_first: Offset of each edge's first word.
        offset_last: Offset of its last word.
        keywords: For each of `METRICS` the keywords that hit each edge.
        blind: Ranks of each edge in the orders of `sonde.lenses.attention.observe.random_ranks`.
    """

    layers: int
    heads: int
    cluster: Int[np.ndarray, " row"]
    test: Bool[np.ndarray, " row"]
    edges: Int[np.ndarray, " row"]
    hits: Int[np.ndarray, "split metric k head"]
    offset_first: Int[np.ndarray, " edge"]
    offset_last: Int[np.ndarray, " edge"]
    keywords: tuple[NumberSets, NumberSets, NumberSets]
    blind: UInt8[np.ndarray, "edge metric order"]

    @property
    def row(self) -> Int[np.ndarray, " edge"]:
        """The row of each edge."""
        return np.repeat(np.arange(len(self.edges)), self.edges)

    def sum_by_row(self, values: Shaped[np.ndarray, "edge metric k"]) -> Float[np.ndarray, "row metric k"]:
        """Values of the scored edges, added up by scored row."""
        size = self.edges[self.test]
        return np.add.reduceat(values, np.cumsum(size) - size, axis=0, dtype=np.float64)

    def offsets(self, metric: int) -> NumberRuns:
        """The offsets that hit each edge by one of `METRICS`."""
        low, high = self.offset_first, self.offset_last
        if METRICS[metric] == "any_hit":
            return NumberRuns(np.minimum(low, high), np.maximum(low, high))
        end = low if METRICS[metric] == "first_hit" else high
        return NumberRuns(end, end)


@dataclass(slots=True)
class _Parts:
    """What the batches say of one relation."""

    layers: int
    heads: int
    hits: Int[np.ndarray, "split metric k head"]
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict)
    edges: int = 0

    def add(self, name: str, values: np.ndarray) -> None:
        self.columns.setdefault(name, []).append(values)

    def column(self, name: str) -> np.ndarray:
        return np.concatenate(self.columns[name])


def get_item_clusters(items: pl.DataFrame) -> dict[str, str]:
    """Cluster of each item, by its id; an item without one stands alone."""
    named = items.select("item_id", pl.col("cluster").replace("", None).fill_null(pl.col("item_id")))
    return dict(named.iter_rows())


def cluster_names(splits: Mapping[str, str], clusters: Mapping[str, str]) -> list[str]:
    """The clusters of some items, each at the place of its number, see `RelationEdges.cluster`."""
    return sorted({clusters.get(item, item) for item in splits})


def collect_hits(
    observations: pl.LazyFrame, splits: Mapping[str, str], clusters: Mapping[str, str]
) -> dict[Key, RelationEdges]:
    """Count the hits of every head, and gather what the baselines look at.

    Args:
        observations: The item table.
        splits: ``"valid"`` or ``"test"`` by item id; other items are left out.
        clusters: As of `get_item_clusters`; an item that has none here stands alone.
    """
    parts: dict[Key, _Parts] = {}
    numbers = {item: number for number, item in enumerate(splits)}
    test = np.array([split == "test" for split in splits.values()], np.bool_)
    numbered = {name: number for number, name in enumerate(cluster_names(splits, clusters))}
    cluster = np.array([numbered[clusters.get(item, item)] for item in splits], np.int64)
    for key, rows in _groups(observations, splits):
        ranks = _ranks(rows)
        layers, heads = ranks.shape[2:]
        held = parts.get(key)
        if held is None:
            held = parts[key] = _Parts(
                layers, heads, np.zeros((2, len(METRICS), TOP, layers * heads), np.int64)
            )
        item = rows["item_id"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
        edges = rows["edges"].cast(pl.Int64).to_numpy()
        scored = np.repeat(test[item], edges)
        for split in (0, 1):
            held.hits[split] += hits_by_k(ranks[scored == bool(split)])
        blind = np.frombuffer(b"".join(rows["blind"].to_list()), np.uint8)
        held.add("blind", blind.reshape(-1, len(METRICS), 1 + PICKS))
        held.add("item", item)
        held.add("edges", edges)
        for name in ("offset_first", "offset_last", "keyword_first", "keyword_last", "keyword_any"):
            held.add(name, _flat(rows[name]))
        start = np.repeat(held.edges + np.cumsum(edges) - edges, rows["keyword_any"].list.len().to_numpy())
        held.add("keyword_edge", _flat(rows["keyword_any_edge"]) + start)
        held.edges += int(edges.sum())
    return {key: _relation(held, test, cluster) for key, held in sorted(parts.items())}


def follow_heads(
    observations: pl.LazyFrame,
    splits: Mapping[str, str],
    chosen: Mapping[Key, Int[np.ndarray, "predictor metric k"]],
) -> dict[Key, Bool[np.ndarray, "edge predictor metric k"]]:
    """Whether the chosen heads hit each edge that is scored, in the order of `RelationEdges`.

    Args:
        observations: The item table.
        splits: As for `collect_hits`.
        chosen: For each relation and several predictors, by metric and k the head, counted over the layers.
    """
    found: dict[Key, list[Bool[np.ndarray, "edge predictor metric k"]]] = {key: [] for key in chosen}
    scored = {item: split for item, split in splits.items() if split == "test"}
    for key, rows in _groups(observations, scored):
        if key not in chosen:
            continue
        ranks = _ranks(rows)
        flat = ranks.reshape(len(ranks), len(METRICS), -1)
        mine = flat[:, np.arange(len(METRICS))[:, None], chosen[key]]
        found[key].append(mine <= PLACES)
    return {key: np.concatenate(some) for key, some in found.items() if some}


def hits_by_k(
    ranks: UInt8[np.ndarray, "edge metric layer head"],
) -> Int[np.ndarray, "metric k head"]:
    """How many edges each head hits within the first k, for all k at once."""
    cells = int(np.prod(ranks.shape[1:]))
    flat = np.minimum(ranks, TOP + 1).reshape(len(ranks), cells)
    # Every cell of the table counts its ranks apart; then they are added up over k.
    codes = flat.astype(np.int32) + (TOP + 2) * np.arange(cells, dtype=np.int32)
    counts = np.bincount(codes.reshape(-1), minlength=(TOP + 2) * cells).reshape(cells, TOP + 2)
    hits = np.cumsum(counts[:, 1 : TOP + 1], axis=1)
    return hits.reshape(len(METRICS), -1, TOP).transpose(0, 2, 1)


def _groups(observations: pl.LazyFrame, splits: Mapping[str, str]) -> Iterator[tuple[Key, pl.DataFrame]]:
    """Rows of one relation and side in each batch, in their order."""
    wanted = observations.filter(pl.col("dropped") == "", pl.col("item_id").is_in(list(splits)))
    for batch in wanted.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
        for (side, relation), rows in batch.partition_by(
            ["side", "relation"], as_dict=True, maintain_order=True
        ).items():
            yield (str(side), str(relation)), rows


def _ranks(rows: pl.DataFrame) -> UInt8[np.ndarray, "edge metric layer head"]:
    return unpack(rows["ranks"].to_list(), int(rows["layers"][0]), int(rows["heads"][0]))


def _flat(lists: pl.Series) -> Int[np.ndarray, " value"]:
    # An empty list would become a null.
    return lists.filter(lists.list.len() > 0).explode().cast(pl.Int64).to_numpy()


def _relation(
    parts: _Parts, test: Bool[np.ndarray, " item"], cluster: Int[np.ndarray, " item"]
) -> RelationEdges:
    item = parts.column("item")
    ends = tuple(_to_number_sets(parts.column(name)) for name in ("keyword_first", "keyword_last"))
    anywhere = NumberSets(parts.edges, parts.column("keyword_edge"), parts.column("keyword_any"))
    return RelationEdges(
        layers=parts.layers,
        heads=parts.heads,
        cluster=cluster[item],
        test=test[item],
        edges=parts.column("edges"),
        hits=parts.hits,
        offset_first=parts.column("offset_first"),
        offset_last=parts.column("offset_last"),
        keywords=(ends[0], ends[1], anywhere),
        blind=parts.column("blind"),
    )


def _to_number_sets(keyword: Int[np.ndarray, " edge"]) -> NumberSets:
    (edge,) = np.nonzero(keyword >= 0)
    return NumberSets(len(keyword), edge, keyword[edge])


HEAD_CHOICE: QuirkHook[HeadSelection, []] = QuirkHook(LENS)
"""How the best head of a relation is chosen."""


ByHead = Int[np.ndarray, "metric k head"]


ByEdge = Bool[np.ndarray, "edge metric k"] | Float[np.ndarray, "edge metric k"]


@dataclass(frozen=True, slots=True, eq=False)
class PredictorHits:
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
    def from_hits(
        cls,
        relation: RelationEdges,
        edges: ByEdge,
        fitted: Float[np.ndarray, "metric k"] | Int[np.ndarray, "metric k"],
        *,
        head: Int[np.ndarray, "metric k"] | None = None,
        name: tuple[tuple[str, ...], ...] | None = None,
    ) -> PredictorHits:
        """From what is hit of each scored edge."""
        hits = relation.sum_by_row(edges)
        return cls(
            edges, hits, fitted, _NO_HEAD if head is None else head, _UNNAMED if name is None else name
        )

    def compute_disagreement(self, other: PredictorHits) -> Float[np.ndarray, "edge metric k"]:
        """In which edges two predictors differ; where a hit is a share, the square of how far."""
        return np.subtract(self.edges, other.edges, dtype=np.float32) ** 2


_NO_HEAD = np.full((len(METRICS), TOP), -1)


_UNNAMED = (("",) * TOP,) * len(METRICS)


def _on_both_sides(relation: RelationEdges) -> bool:
    return 0 < int(relation.edges[relation.test].sum()) < int(relation.edges.sum())


def _on_validation(relation: RelationEdges) -> ByHead:
    return relation.hits[0]


def _weight_first_rank(hits: ByHead) -> ByHead:
    # One head a metric, so that its curve over k is that of a head; few edges leave ties, which later
    # ranks decide.
    return hits[:, :1] * (int(hits.max()) * TOP + 1) + hits.sum(axis=1, keepdims=True)


def _first_of_equals(hits: ByHead) -> Int[np.ndarray, "metric k"]:
    return hits.argmax(2)


@dataclass(frozen=True, slots=True)
class HeadSelection:
    """How the best head of a relation is chosen.

    Attributes:
        usable: Whether a relation has edges to choose on and edges to score.
        hits: The hits of each head on the edges that it is chosen on.
        worth: What heads are compared by, given their hits.
        best: Which head it is.
    """

    usable: Callable[[RelationEdges], bool] = _on_both_sides
    hits: Callable[[RelationEdges], ByHead] = _on_validation
    worth: Callable[[ByHead], ByHead] = _weight_first_rank
    best: Callable[[ByHead], Int[np.ndarray, "metric k"]] = _first_of_equals

    def select(self, hits: ByHead) -> Int[np.ndarray, "metric k"]:
        """The best head for each metric and k."""
        return np.broadcast_to(self.best(self.worth(hits)), (len(METRICS), TOP)).copy()


def select_heads(
    side: str,
    relations: Mapping[str, RelationEdges],
    observations: pl.LazyFrame,
    splits: Mapping[str, str],
    choice: HeadSelection,
) -> tuple[dict[str, PredictorHits], dict[str, PredictorHits]]:
    """For each metric the best head of each relation of a side, and the one that is best for all together."""
    chosen_on = {name: choice.hits(relation) for name, relation in relations.items()}
    if not chosen_on:
        return {}, {}
    together = choice.select(np.sum([*chosen_on.values()], axis=0))
    chosen = {name: np.stack([choice.select(hits), together]) for name, hits in chosen_on.items()}
    followed = follow_heads(observations, splits, {(side, name): picked for name, picked in chosen.items()})
    best, one = (
        {
            name: PredictorHits.from_hits(
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


def predict_longest(relation: RelationEdges) -> PredictorHits:
    """The longest words among the candidates."""
    return _blind(relation, lambda hits: hits[..., 0])


def predict_chance(relation: RelationEdges) -> PredictorHits:
    """Candidates picked at random: the mean over the orders."""
    return _blind(relation, lambda hits: hits[..., 1:].mean(-1, dtype=np.float32))


def _blind(
    relation: RelationEdges, read: Callable[[Bool[np.ndarray, "edge metric order"]], np.ndarray]
) -> PredictorHits:
    """What orders that see no attention hit, one k after the other: together they are many."""
    edges = np.stack([read(relation.blind <= k) for k in PLACES], axis=-1)
    scored = relation.test[relation.row]
    return PredictorHits.from_hits(relation, edges[scored], edges[~scored].sum(0, dtype=np.float64))


def predict_offsets(relation: RelationEdges, settings: LensSettings) -> PredictorHits:
    """Up to k fixed offsets; in programs a dependent stands after its head, in prose on either side."""
    least = -FARTHEST if (relation.offset_first < 0).any() else 1
    hits = [relation.offsets(metric) for metric in range(len(METRICS))]
    return _fit_predictor(relation, hits, (least, FARTHEST), settings, lambda offset: f"{offset:+d}")


def predict_keywords(relation: RelationEdges, names: Sequence[str], settings: LensSettings) -> PredictorHits:
    """Up to k keywords, each predicting its next occurrence."""
    return _fit_predictor(
        relation, relation.keywords, (0, len(names) - 1), settings, lambda place: names[place]
    )


def select_better_predictor(
    one: PredictorHits, other: PredictorHits, names: tuple[str, str]
) -> PredictorHits:
    """For each metric and k the better of two predictors, the first among equals."""
    first = one.fitted >= other.fitted
    return PredictorHits(
        edges=np.where(first, one.edges, other.edges),
        hits=np.where(first, one.hits, other.hits),
        fitted=np.where(first, one.fitted, other.fitted),
        head=_NO_HEAD,
        name=tuple(tuple(names[0] if better else names[1] for better in row) for row in first.tolist()),
    )


def _fit_predictor(
    relation: RelationEdges,
    hits: Sequence[Hits],
    bounds: tuple[int, int],
    settings: LensSettings,
    named: Callable[[int], str],
) -> PredictorHits:
    row = relation.row
    scored = relation.test[row]
    fitting = BASELINES.resolve(settings, ~scored, scored)
    found: list[Bool[np.ndarray, "edge k"]] = []
    fitted: list[Int[np.ndarray, " k"]] = []
    name: list[tuple[str, ...]] = []
    for one in hits:
        chosen = select_greedy(one.take(fitting), TOP, *bounds)
        place = rank_predictors(one, chosen)
        found.append(place[scored][:, None] <= PLACES)
        fitted.append((place[fitting][:, None] <= PLACES).sum(0))
        name.append(tuple(",".join(map(named, chosen[:k])) for k in range(1, TOP + 1)))
    return PredictorHits.from_hits(relation, np.stack(found, axis=1), np.stack(fitted), name=tuple(name))
