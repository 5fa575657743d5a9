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

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped, UInt8

from sonde.lenses.attention.observe import BASELINES, LENS, METRICS, NEVER, PICKS
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
        """Select some of the edges."""
        return NumberRuns(self.low[edges], self.high[edges])

    def hits(self, predictor: int) -> Bool[np.ndarray, " edge"]:
        """Mark the edges that a predictor hits."""
        return (self.low <= predictor) & (predictor <= self.high)

    def best(self, open_edges: Bool[np.ndarray, " edge"], minimum: int, greatest: int) -> tuple[int, int]:
        """Return the predictor with the most hits and their number, nearest to zero among equals.

        Zero is none: it would be the word itself, which attention is not asked for either.
        """
        low = np.maximum(self.low[open_edges], minimum)
        high = np.minimum(self.high[open_edges], greatest)
        has_range = low <= high
        size = greatest - minimum + 2
        steps = np.bincount(low[has_range] - minimum, minlength=size) - np.bincount(
            high[has_range] - minimum + 1, minlength=size
        )
        hits = np.cumsum(steps)[:-1]
        if minimum <= 0 <= greatest:
            hits[-minimum] = 0
        maximum = int(hits.max(initial=0))
        equal = np.flatnonzero(hits == maximum) + minimum
        return int(equal[np.argmin(np.abs(equal))]), maximum


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
        """Select some of the edges."""
        index = np.cumsum(edges) - 1
        is_kept = edges[self.edge]
        return NumberSets(int(edges.sum()), index[self.edge[is_kept]], self.predictor[is_kept])

    def hits(self, predictor: int) -> Bool[np.ndarray, " edge"]:
        """Mark the edges that a predictor hits."""
        is_hit = np.zeros(self.edges, np.bool_)
        is_hit[self.edge[self.predictor == predictor]] = True
        return is_hit

    def best(self, open_edges: Bool[np.ndarray, " edge"], minimum: int, greatest: int) -> tuple[int, int]:
        """Return the predictor with the most hits and their number, the first among equals."""
        predictors = self.predictor[open_edges[self.edge]]
        hits = np.bincount(
            predictors[(minimum <= predictors) & (predictors <= greatest)] - minimum,
            minlength=greatest - minimum + 1,
        )
        return int(hits.argmax()) + minimum, int(hits.max())


Hits = NumberRuns | NumberSets


def select_greedy(hits: Hits, maximum: int, minimum: int, greatest: int) -> tuple[int, ...]:
    """Select up to `maximum` predictors, each hitting the most edges that the others miss.

    Args:
        hits: The edges to fit on.
        maximum: How many are chosen; fewer where no further one hits anything.
        minimum: First predictor that may be chosen.
        greatest: Last one.
    """
    predictors: list[int] = []
    open_edges = np.ones(len(hits), np.bool_)
    while len(predictors) < maximum and open_edges.any() and minimum <= greatest:
        predictor, gain = hits.best(open_edges, minimum, greatest)
        if gain == 0:
            break
        predictors.append(predictor)
        open_edges &= ~hits.hits(predictor)
    return tuple(predictors)


def rank_predictors(hits: Hits, predictors: tuple[int, ...]) -> Int[np.ndarray, " edge"]:
    """Return the rank, from 1, of the first predictor that hits each edge; else `NEVER`."""
    ranks = np.full(len(hits), NEVER, np.uint8)
    for rank in range(len(predictors), 0, -1):
        ranks[hits.hits(predictors[rank - 1])] = rank
    return ranks


TOP = 20
"""Hits are counted for every k up to here; the published code keeps as many."""


_BATCH_ROWS = 2_000


_LISTS = ("offset_first", "offset_last", "keyword_first", "keyword_last", "keyword_any", "keyword_any_edge")
"""Columns of the item table with a value an edge, or a hit of a keyword."""


PLACES = np.arange(1, TOP + 1)
"""Every k."""


Key = tuple[str, str]
"""Side of the model, and relation."""


@dataclass(frozen=True, slots=True, eq=False)
class RelationEdges:
    """All edges of one relation on one side of the model.

    Attributes:
        heads: Heads per layer.
        cluster: Number of the cluster of each row, the same in every relation.
        test: Whether the row is scored; else heads and baselines are chosen on it.
        edges: Edges of each row.
        hits: Edges of the rows chosen on, and of those scored, that each head hits at each k.
        offset_first: Offset of each edge's first word.
        offset_last: Offset of its last word.
        keywords: For each of `METRICS` the keywords that hit each edge.
        blind: Ranks of each edge in the orders of `sonde.lenses.attention.observe.random_ranks`.
    """

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
        """Return the row of each edge."""
        return np.repeat(np.arange(len(self.edges)), self.edges)

    def sum_by_row(self, values: Shaped[np.ndarray, "edge metric k"]) -> Float[np.ndarray, "row metric k"]:
        """Sum values of the scored edges by scored row."""
        size = self.edges[self.test]
        return np.add.reduceat(values, np.cumsum(size) - size, axis=0, dtype=np.float64)

    def offsets(self, metric: int) -> NumberRuns:
        """Return the offsets that hit each edge by one of `METRICS`."""
        low, high = self.offset_first, self.offset_last
        if METRICS[metric] == "any_hit":
            return NumberRuns(np.minimum(low, high), np.maximum(low, high))
        end = low if METRICS[metric] == "first_hit" else high
        return NumberRuns(end, end)


def get_item_clusters(items: pl.DataFrame) -> dict[str, str]:
    """Return the cluster of each item by its id; an item without one stands alone."""
    clusters = items.select("item_id", pl.col("cluster").replace("", None).fill_null(pl.col("item_id")))
    return dict(clusters.iter_rows())


def cluster_names(splits: Mapping[str, str], clusters: Mapping[str, str]) -> list[str]:
    """Return the clusters of some items, each at the place of its number, see `RelationEdges.cluster`."""
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
    hits: dict[Key, Int[np.ndarray, "split metric k head"]] = {}
    heads: dict[Key, int] = {}
    batches: dict[Key, list[dict[str, np.ndarray]]] = {}
    numbers = {item: number for number, item in enumerate(splits)}
    test = np.array([split == "test" for split in splits.values()], np.bool_)
    cluster_numbers = {name: number for number, name in enumerate(cluster_names(splits, clusters))}
    cluster = np.array([cluster_numbers[clusters.get(item, item)] for item in splits], np.int64)
    for batch in _batches(observations, splits):
        item = batch.rows["item_id"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
        edges = batch.rows["edges"].cast(pl.Int64).to_numpy()
        lists = {name: _FlatLists.of(batch.rows[name]) for name in _LISTS}
        blind = batch.rows["blind"].to_list()
        for key, rows in batch.groups:
            ranks = batch.ranks(rows)
            is_test = np.repeat(test[item[rows]], edges[rows])
            counts = np.stack([hits_by_k(ranks[is_test == bool(split)]) for split in (0, 1)])
            hits[key], heads[key] = counts + hits.get(key, 0), ranks.shape[3]
            columns = {name: values.select(rows) for name, values in lists.items()}
            columns |= {"item": item[rows], "edges": edges[rows], "hits": lists["keyword_any"].sizes[rows]}
            columns["blind"] = np.frombuffer(b"".join(blind[rows]), np.uint8).reshape(
                -1, len(METRICS), 1 + PICKS
            )
            batches.setdefault(key, []).append(columns)
    return {
        key: _build_relation(batches[key], hits[key], heads[key], test, cluster) for key in sorted(batches)
    }


def follow_heads(
    observations: pl.LazyFrame,
    splits: Mapping[str, str],
    heads: Mapping[Key, Int[np.ndarray, "predictor metric k"]],
) -> dict[Key, Bool[np.ndarray, "edge predictor metric k"]]:
    """Mark the scored edges that the chosen heads hit, in the order of `RelationEdges`.

    Args:
        observations: The item table.
        splits: As for `collect_hits`.
        heads: For each relation and several predictors, by metric and k the head, counted over the layers.
    """
    hits: dict[Key, list[Bool[np.ndarray, "edge predictor metric k"]]] = {key: [] for key in heads}
    test_items = {item: split for item, split in splits.items() if split == "test"}
    for batch in _batches(observations, test_items):
        for key, rows in batch.groups:
            if key in heads:
                flat = (ranks := batch.ranks(rows)).reshape(len(ranks), len(METRICS), -1)
                head_ranks = flat[:, np.arange(len(METRICS))[:, None], heads[key]]
                hits[key].append(head_ranks <= PLACES)
    return {key: np.concatenate(batches) for key, batches in hits.items() if batches}


def hits_by_k(
    ranks: UInt8[np.ndarray, "edge metric layer head"],
) -> Int[np.ndarray, "metric k head"]:
    """Count the edges that each head hits within the first k, for all k."""
    cells = int(np.prod(ranks.shape[1:]))
    flat = np.minimum(ranks, TOP + 1).reshape(len(ranks), cells)
    # Every cell of the table counts its ranks apart; then they are added up over k.
    codes = flat.astype(np.int32) + (TOP + 2) * np.arange(cells, dtype=np.int32)
    counts = np.bincount(codes.reshape(-1), minlength=(TOP + 2) * cells).reshape(cells, TOP + 2)
    hits = np.cumsum(counts[:, 1 : TOP + 1], axis=1)
    return hits.reshape(len(METRICS), -1, TOP).transpose(0, 2, 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Rows of the item table, those of a relation and side next to each other.

    Attributes:
        rows: The rows.
        groups: Each relation and side with its rows.
        packed_ranks: The ranks of each row, as bytes.
        shapes: Layers and heads of each row.
    """

    rows: pl.DataFrame
    groups: Sequence[tuple[Key, slice]]
    packed_ranks: Sequence[bytes]
    shapes: Int[np.ndarray, "row 2"]

    def ranks(self, rows: slice) -> UInt8[np.ndarray, "edge metric layer head"]:
        """Return the ranks of a group."""
        ranks = np.frombuffer(b"".join(self.packed_ranks[rows]), np.uint8)
        return ranks.reshape(-1, len(METRICS), *self.shapes[rows.start].tolist())


def _batches(observations: pl.LazyFrame, splits: Mapping[str, str]) -> Iterator[_Batch]:
    """Yield the rows of some items in batches; the rows of a group keep their order."""
    ids = pl.Series(list(splits), dtype=pl.String).implode()
    rows_read = observations.filter(pl.col("dropped") == "", pl.col("item_id").is_in(ids))
    for batch in rows_read.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
        if batch.is_empty():
            continue
        rows = batch.sort("side", "relation", maintain_order=True)
        groups: list[tuple[Key, slice]] = []
        for key, run in itertools.groupby(
            zip(rows["side"].to_list(), rows["relation"].to_list(), strict=True)
        ):
            begin = groups[-1][1].stop if groups else 0
            groups.append((key, slice(begin, begin + sum(1 for _ in run))))
        shapes = rows.select("layers", "heads").cast(pl.Int64).to_numpy()
        yield _Batch(rows, groups, rows["ranks"].to_list(), shapes)


@dataclass(frozen=True, slots=True, eq=False)
class _FlatLists:
    """A column of lists, end to end.

    Attributes:
        values: The values of all rows.
        sizes: How many each row has.
        begins: Where each row's begin; the end of the last one behind them.
    """

    values: Int[np.ndarray, " value"]
    sizes: Int[np.ndarray, " row"]
    begins: Int[np.ndarray, " row_and_end"]

    @classmethod
    def of(cls, lists: pl.Series) -> _FlatLists:
        """Flatten a column."""
        sizes = lists.list.len().to_numpy().astype(np.int64)
        # An empty list would become a null.
        values = lists.filter(lists.list.len() > 0).explode().cast(pl.Int64).to_numpy()
        return cls(values, sizes, np.concatenate([[0], np.cumsum(sizes)]))

    def select(self, rows: slice) -> Int[np.ndarray, " value"]:
        """Return the values of neighbouring rows."""
        return self.values[self.begins[rows.start] : self.begins[rows.stop]]


def _build_relation(
    batches: Sequence[Mapping[str, np.ndarray]],
    hits: Int[np.ndarray, "split metric k head"],
    heads: int,
    test: Bool[np.ndarray, " item"],
    cluster: Int[np.ndarray, " item"],
) -> RelationEdges:
    columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    item, edges = columns["item"], columns["edges"]
    first, last = (_to_number_sets(columns[name]) for name in ("keyword_first", "keyword_last"))
    first_edge = np.repeat(np.cumsum(edges) - edges, columns["hits"])
    anywhere = NumberSets(int(edges.sum()), columns["keyword_any_edge"] + first_edge, columns["keyword_any"])
    return RelationEdges(
        heads=heads,
        cluster=cluster[item],
        test=test[item],
        edges=edges,
        hits=hits,
        offset_first=columns["offset_first"],
        offset_last=columns["offset_last"],
        keywords=(first, last, anywhere),
        blind=columns["blind"],
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
    """Hits of one kind of predictor on one relation.

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
        fit_hits: Float[np.ndarray, "metric k"] | Int[np.ndarray, "metric k"],
        *,
        head: Int[np.ndarray, "metric k"] | None = None,
        name: tuple[tuple[str, ...], ...] | None = None,
    ) -> PredictorHits:
        """Build the hits from those of each scored edge."""
        hits = relation.sum_by_row(edges)
        return cls(
            edges, hits, fit_hits, _NO_HEAD if head is None else head, _UNNAMED if name is None else name
        )

    def compute_disagreement(self, predictor: PredictorHits) -> Float[np.ndarray, "edge metric k"]:
        """Compute the squared difference of two predictors on each edge."""
        return np.subtract(self.edges, predictor.edges, dtype=np.float32) ** 2


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
    """Rules for choosing the best head of a relation.

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
        """Return the best head for each metric and k."""
        return np.broadcast_to(self.best(self.worth(hits)), (len(METRICS), TOP)).copy()


def select_heads(
    side: str,
    relations: Mapping[str, RelationEdges],
    observations: pl.LazyFrame,
    splits: Mapping[str, str],
    choice: HeadSelection,
) -> tuple[dict[str, PredictorHits], dict[str, PredictorHits]]:
    """Select the best head of each relation of a side, and the best one for all together."""
    chosen_on = {name: choice.hits(relation) for name, relation in relations.items()}
    if not chosen_on:
        return {}, {}
    common_heads = choice.select(np.sum([*chosen_on.values()], axis=0))
    heads = {name: np.stack([choice.select(hits), common_heads]) for name, hits in chosen_on.items()}
    hits_of_heads = follow_heads(
        observations, splits, {(side, name): head_rows for name, head_rows in heads.items()}
    )
    best, common = (
        {
            name: PredictorHits.from_hits(
                relation,
                hits_of_heads[side, name][:, row],
                np.take_along_axis(chosen_on[name], heads[name][row][:, :, None], 2)[:, :, 0],
                head=heads[name][row],
            )
            for name, relation in relations.items()
        }
        for row in (0, 1)
    )
    return best, common


def predict_longest(relation: RelationEdges) -> PredictorHits:
    """Predict the longest of the candidate words."""
    return _measure_orders(relation, relation.blind[:, :, :1, None] <= PLACES)


def predict_chance(relation: RelationEdges) -> PredictorHits:
    """Predict random candidates: the mean over the orders."""
    orders = relation.blind[:, :, 1:]
    cells = orders.shape[0] * orders.shape[1]
    ranks = np.minimum(orders, TOP + 1).reshape(cells, -1).astype(np.int32)
    codes = ranks + (TOP + 2) * np.arange(cells, dtype=np.int32)[:, None]
    counts = np.bincount(codes.reshape(-1), minlength=(TOP + 2) * cells).reshape(cells, TOP + 2)
    hits = np.cumsum(counts[:, 1 : TOP + 1], axis=1).reshape(*orders.shape[:2], 1, TOP)
    return _measure_orders(relation, hits.astype(np.float32) / np.float32(orders.shape[2]))


def _measure_orders(
    relation: RelationEdges,
    edges: Bool[np.ndarray, "edge metric 1 k"] | Float[np.ndarray, "edge metric 1 k"],
) -> PredictorHits:
    """Measure the hits of word orders that see no attention."""
    hits, is_test = edges[:, :, 0], relation.test[relation.row]
    return PredictorHits.from_hits(relation, hits[is_test], hits[~is_test].sum(0, dtype=np.float64))


def predict_offsets(relation: RelationEdges, settings: LensSettings) -> PredictorHits:
    """Predict by up to k fixed offsets; in programs a dependent follows its head."""
    minimum = -FARTHEST if (relation.offset_first < 0).any() else 1
    hits = [relation.offsets(metric) for metric in range(len(METRICS))]
    return _fit_predictor(relation, hits, (minimum, FARTHEST), settings, lambda offset: f"{offset:+d}")


def predict_keywords(relation: RelationEdges, names: Sequence[str], settings: LensSettings) -> PredictorHits:
    """Predict by up to k keywords, each by its next occurrence."""
    return _fit_predictor(
        relation, relation.keywords, (0, len(names) - 1), settings, lambda index: names[index]
    )


def select_better_predictor(
    left: PredictorHits, right: PredictorHits, names: tuple[str, str]
) -> PredictorHits:
    """Select the better of two predictors for each metric and k, the first among equals."""
    first_wins = left.fitted >= right.fitted
    return PredictorHits(
        edges=np.where(first_wins, left.edges, right.edges),
        hits=np.where(first_wins, left.hits, right.hits),
        fitted=np.where(first_wins, left.fitted, right.fitted),
        head=_NO_HEAD,
        name=tuple(
            tuple(names[0] if is_first else names[1] for is_first in row) for row in first_wins.tolist()
        ),
    )


def _fit_predictor(
    relation: RelationEdges,
    hits: Sequence[Hits],
    bounds: tuple[int, int],
    settings: LensSettings,
    format_name: Callable[[int], str],
) -> PredictorHits:
    row = relation.row
    is_test = relation.test[row]
    fit_rows = BASELINES.resolve(settings, ~is_test, is_test)
    edge_hits: list[Bool[np.ndarray, "edge k"]] = []
    fit_hits: list[Int[np.ndarray, " k"]] = []
    name: list[tuple[str, ...]] = []
    for metric_hits in hits:
        predictors = select_greedy(metric_hits.take(fit_rows), TOP, *bounds)
        ranks = rank_predictors(metric_hits, predictors)
        edge_hits.append(ranks[is_test][:, None] <= PLACES)
        fit_hits.append((ranks[fit_rows][:, None] <= PLACES).sum(0))
        name.append(tuple(",".join(map(format_name, predictors[:k])) for k in range(1, TOP + 1)))
    return PredictorHits.from_hits(
        relation, np.stack(edge_hits, axis=1), np.stack(fit_hits), name=tuple(name)
    )
