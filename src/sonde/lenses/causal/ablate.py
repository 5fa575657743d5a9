"""Ablation of the attention heads that follow a syntactic relation, compared with other heads.

The ablated heads are those that follow a syntactic relation best, chosen on functions that are not tested.
They are compared with other heads of the same layers whose output vectors have about the same length. The
output of a head at a position is replaced by its output at a position of the same kind in another function
(resample ablation; Chan et al. 2022), or by its mean if no such position was seen. The cost is measured at
the dependents of the relation and elsewhere.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.capture.interventions import Change, Put
from sonde.capture.requests import (
    HeadOutputs,
    Lookups,
    Pass,
    Plain,
    Prepared,
    WordAttention,
    WordLookups,
)
from sonde.lenses.causal.effects import (
    ANSWERS,
    DIFFERENCE,
    SURPRISAL,
    EffectMetrics,
    add_effects,
    compute_effects,
    effect_means,
    excess_over_control,
    group_captures,
    list_controls,
    list_draws,
    surprisal_requests,
)
from sonde.lenses.causal.interventions import (
    FittedIntervention,
    FittedInterventions,
    RowBuilder,
    read_options,
    sample_positions,
    unpack_states,
)
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ScoringContext
from sonde.lenses.engine.observations import find_overlapping_subwords
from sonde.results import left_out, mean_differences, means
from sonde.results.scores import Score

NAME, TASK = "ablate", "syntax_relations"


HEADS, RANDOM, ALL = "heads", "random", "all of them"


RELATIONS = 10
"""Relations whose heads are ablated, those with the most edges."""


MINIMUM_EDGES = 30
"""Edges of a relation below which no head is chosen for it."""


READ_SUBWORDS, VALUES = 12, 32
"""Subwords of a function at which heads are read; and vectors kept for each kind of place."""


LAYOUT = "layout"


MEAN = ""
"""The mark of the mean, which is put where no place of the kind was seen."""


ELSEWHERE = "elsewhere"


_GENERIC = "children:"
"""Relations of every node with what is in it: no head is looked for that follows them."""


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """Describe how many relations' heads are ablated, and how many controls each has."""
    if TASK not in labels:
        return ""
    return (
        f"the best heads of up to {RELATIONS} relations are ablated, each compared with up to "
        f"{read_options(settings).draws} other heads of its layer"
    )


def collect_edges(labels: Mapping[str, pl.DataFrame]) -> dict[str, list[tuple[str, int, int]]]:
    """Group edges by function: the relation, and the first characters of head and dependent."""
    edges: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    if TASK in labels:
        rows = labels[TASK].filter(pl.col("label").is_not_null() & ~pl.col("label").str.starts_with(_GENERIC))
        for item, label, start, other_start in rows.select(
            "item_id", "label", "start", "other_start"
        ).iter_rows():
            edges[item].append((label, start, other_start))
    return edges


def _tokens(prepared_item: Prepared) -> list[tuple[int, int]]:
    return list(zip(prepared_item.tokens.start.tolist(), prepared_item.tokens.end.tolist(), strict=True))


def build_lookups(
    prepared_item: Prepared, edges: Sequence[tuple[str, int, int]]
) -> tuple[WordLookups, list[str]] | None:
    """Return the code tokens of a function and the relations of its edges between two of them.

    None if it has no such edge.
    """
    tokens = _tokens(prepared_item)
    if not tokens or not edges:
        return None
    first, stop = find_overlapping_subwords(tokens, prepared_item.alignment.subwords)
    ends = prepared_item.tokens.end
    token_edges: list[tuple[str, int, int]] = []
    for label, start, other_start in edges:
        head, dependent = (
            int(np.searchsorted(ends, position, side="right")) for position in (start, other_start)
        )
        if max(head, dependent) < len(tokens) and head != dependent:
            token_edges.append((label, head, dependent))
    if not token_edges:
        return None
    names = [label for label, _, _ in token_edges]
    head, dependent = (np.array([edge[end] for edge in token_edges], dtype=np.int64) for end in (1, 2))
    later, earlier = np.maximum(head, dependent), np.minimum(head, dependent)
    candidates = stop > first
    # A model that sees all is asked by the head for the dependent, a decoder by the later for the earlier.
    return WordLookups(
        first,
        stop,
        candidates,
        Lookups(head, head, dependent, dependent),
        Lookups(later, later, earlier, earlier),
    ), names


def request_edges(prepared_items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]) -> WordAttention:
    """Request attention along the edges of relations."""
    edges = collect_edges(labels)
    return WordAttention(
        {
            prepared_item.item.item_id: lookups[0]
            for prepared_item in prepared_items
            if (lookups := build_lookups(prepared_item, edges.get(prepared_item.item.item_id, ())))
        }
    )


def select_followed_heads(fits: FittedInterventions) -> list[FittedIntervention]:
    """Select the interventions on the head that follows each relation."""
    return [
        intervention
        for intervention in fits.for_method(NAME)
        if intervention.kind == HEADS and not intervention.together
    ]


def _kind(prepared_item: Prepared, position: int) -> str:
    return prepared_item.alignment.kind[position] or LAYOUT


def fit_requests(
    prepared_items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Request attention along the edges of relations, and the outputs of heads at some subwords."""
    if TASK not in labels:
        return []
    spans = {
        prepared_item.item.item_id: tuple(
            (position, position + 1) for position in sample_positions("head", prepared_item, READ_SUBWORDS)
        )
        for prepared_item in prepared_items
    }
    return [Pass(Plain(), (request_edges(prepared_items, labels), HeadOutputs(spans)))]


def add_fit_rows(
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add how often each head hits each relation, and what heads give."""
    if TASK not in labels:
        return
    edges = collect_edges(labels)
    for captured_item in captured_items:
        item = captured_item.prepared.item.item_id
        capture = next((capture for capture in captured_item.captures if capture.heads is not None), None)
        if capture is None or capture.heads is None:
            continue
        for position, outputs in zip(
            sample_positions("head", captured_item.prepared, READ_SUBWORDS),
            capture.heads.transpose(1, 0, 2, 3),
            strict=True,
        ):
            rows.add_states(
                outputs.reshape(len(outputs), -1), item_id=item, what="head",
                kind=_kind(captured_item.prepared, position),
                start=position, end=position + 1, n=outputs.shape[1],
            )  # fmt: skip
        item_lookups = build_lookups(captured_item.prepared, edges.get(item, ()))
        words = capture.words.get("encoder") or capture.words.get("decoder")
        if item_lookups is None or words is None:
            continue
        hits = (words.ranks[..., 0] == 1).astype(np.float32)
        names = np.array(item_lookups[1])
        for relation in dict.fromkeys(item_lookups[1]):
            is_relation = names == relation
            rows.add_states(
                hits[:, :, is_relation].sum(2),
                item_id=item,
                what="edge",
                subject=relation,
                n=int(is_relation.sum()),
            )


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """Fit the ablation of the best head of each relation, and of other heads of its layer."""
    settings, draws = scoring.settings, read_options(scoring.settings).draws
    not_test = pl.Series([item for item, side in splits.items() if side != "test"], dtype=pl.String).implode()
    train = pl.Series([item for item, side in splits.items() if side == "train"], dtype=pl.String).implode()
    edges = scoring.observations.filter(
        (pl.col("what") == "edge") & pl.col("item_id").is_in(not_test)
    ).collect()
    head_rows = scoring.observations.filter(
        (pl.col("what") == "head") & pl.col("item_id").is_in(train)
    ).collect()
    if edges.is_empty() or head_rows.is_empty():
        return
    # Which vectors are kept hangs on the places alone, not on the order in which functions were read.
    positions = head_rows.select("item_id", "start").iter_rows()
    head_rows = head_rows[np.argsort([unit_hash("kept", item, at) for item, at in positions])]
    count = int(head_rows["n"][0])
    states = unpack_states(head_rows)
    outputs = states.reshape(*states.shape[:2], count, -1)
    norms = np.linalg.norm(outputs, axis=3).mean(1)
    best_heads = _select_heads(edges)
    kinds = head_rows["kind"].to_list()
    for relation, (layer, head) in best_heads.items():
        yield _fit(relation, HEADS, layer, (head,), outputs, kinds)
        other_heads = sorted(
            (other_head for other_head in range(count) if other_head != head),
            key=lambda other_head: abs(norms[layer, other_head] - norms[layer, head]),
        )
        for draw, other_head in enumerate(other_heads[:draws]):
            yield _fit(relation, f"{RANDOM} {draw}", layer, (other_head,), outputs, kinds)
    by_layer: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for layer, head in best_heads.values():
        by_layer[layer][head] += 1
    # Of a layer at most half of its heads, so that there are as many others.
    heads_by_layer = {
        layer: tuple(sorted(head for head, _ in heads.most_common(max(1, count // 2))))
        for layer, heads in sorted(by_layer.items())
    }
    if count < 2 or len(best_heads) < 2:
        return
    for layer, heads in heads_by_layer.items():
        yield _fit(ALL, HEADS, layer, heads, outputs, kinds, is_joint=True)
        rng = np.random.default_rng(derive_seed("heads", settings.seed, layer) % 2**63)
        other_heads = np.array([head for head in range(count) if head not in heads])
        for draw in range(draws):
            random_heads = tuple(sorted(rng.choice(other_heads, len(heads), replace=False).tolist()))
            yield _fit(ALL, f"{RANDOM} {draw}", layer, random_heads, outputs, kinds, is_joint=True)


def _select_heads(edges: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """Return, for the relations with the most edges, the head that hits the most of them."""
    sizes = (
        edges.group_by("subject", maintain_order=True)
        .agg(pl.col("n").sum())
        .filter(pl.col("n") >= MINIMUM_EDGES)
    )
    relations = sizes.sort(["n", "subject"], descending=[True, False])["subject"].to_list()[:RELATIONS]
    best_heads: dict[str, tuple[int, int]] = {}
    for relation in relations:
        hits = unpack_states(edges.filter(pl.col("subject") == relation)).sum(1)
        layer, head = np.unravel_index(int(hits.argmax()), hits.shape)
        best_heads[relation] = int(layer), int(head)
    return best_heads


def _fit(
    relation: str,
    kind: str,
    layer: int,
    heads: tuple[int, ...],
    outputs: Float[np.ndarray, "layer place head d_head"],
    kinds: Sequence[str],
    *,
    is_joint: bool = False,
) -> FittedIntervention:
    """Fit the replacement of heads: some of their output vectors by kind of position, and the mean."""
    vectors = outputs[layer][:, list(heads)].reshape(len(kinds), -1)
    kind_counts: Counter[str] = Counter()
    positions: list[int] = []
    for position, position_kind in enumerate(kinds):
        kind_counts[position_kind] += 1
        if kind_counts[position_kind] <= VALUES:
            positions.append(position)
    values = np.concatenate([vectors[positions], vectors.mean(0, keepdims=True)])
    marks = (*(kinds[position] for position in positions), MEAN)
    return FittedIntervention(
        NAME, relation, kind, layer, heads, values=values, marks=marks, together=is_joint
    )


def _index(prepared_item: Prepared, marks: Sequence[str]) -> Int[np.ndarray, " subword"]:
    """Return the number of the vector that replaces each subword's output, the same for all heads.

    It is a vector of the subword's kind, or the mean. Controls are paired by it.
    """
    by_mark: defaultdict[str, list[int]] = defaultdict(list)
    for index, mark in enumerate(marks):
        by_mark[mark].append(index)
    numbers = np.full(len(prepared_item.alignment.subwords), by_mark[MEAN][0], dtype=np.int64)
    for index in range(len(numbers)):
        if candidates := by_mark.get(_kind(prepared_item, index)):
            numbers[index] = candidates[
                int(unit_hash("resample", prepared_item.item.item_id, index) * len(candidates))
            ]
    return numbers


def effect_requests(
    fits: FittedInterventions,
    prepared_items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request the surprisal of the measured functions with each set of heads replaced."""
    measured_items = [
        prepared_item for prepared_item in prepared_items if prepared_item.item.item_id in fits.measured_items
    ]
    index: dict[tuple[str, ...], dict[str, Int[np.ndarray, " subword"]]] = {}
    changes: defaultdict[str, list[Change]] = defaultdict(list)
    for intervention in fits.for_method(NAME):
        if intervention.marks not in index:
            index[intervention.marks] = {
                prepared_item.item.item_id: _index(prepared_item, intervention.marks)
                for prepared_item in measured_items
            }
        assert intervention.values is not None
        put = Put(intervention.values.astype(np.float32), index[intervention.marks])
        changes[intervention.name].append(Change(intervention.layer, put, "heads", intervention.heads))
    return surprisal_requests(
        prepared_items,
        {name: tuple(item_changes) for name, item_changes in changes.items()},
        fits.measured_items,
    )


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add effects at the dependents of each relation, and elsewhere."""
    edges = collect_edges(labels)
    interventions = list({intervention.name: intervention for intervention in fits.for_method(NAME)}.values())
    relations = list(
        dict.fromkeys(intervention.subject for intervention in interventions if not intervention.together)
    )
    for captured_item in captured_items:
        item = captured_item.prepared.item.item_id
        if item not in fits.measured_items:
            continue
        captures = group_captures(captured_item)
        dependents = _dependents(captured_item.prepared, edges.get(item, ()))
        no_subword = np.zeros(len(captured_item.prepared.alignment.subwords), dtype=np.bool_)
        for intervention in interventions:
            names = [*relations, ELSEWHERE]
            is_dependent = dependents.get(intervention.subject, no_subword)
            arrays = [
                np.where(dependents.get(name, no_subword), number, -1)
                for number, name in enumerate(relations)
            ]
            arrays.append(np.where(is_dependent, -1, len(relations)))
            add_effects(rows, item, [intervention], captures, (names, arrays))


def _dependents(
    prepared_item: Prepared, edges: Sequence[tuple[str, int, int]]
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Mark, for each relation, the subwords of its dependents' first tokens."""
    tokens = _tokens(prepared_item)
    dependents: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}
    if not tokens:
        return dependents
    first, stop = find_overlapping_subwords(tokens, prepared_item.alignment.subwords)
    for label, _, start in edges:
        token = int(np.searchsorted(prepared_item.tokens.end, start, side="right"))
        if token < len(tokens):
            is_dependent = dependents.setdefault(
                label, np.zeros(len(prepared_item.alignment.subwords), dtype=np.bool_)
            )
            is_dependent[first[token] : stop[token]] = True
    return dependents


FEWEST_DEPENDENTS = 30
"""Minimum number of dependents' subwords for a row of a relation."""


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Yield the scores of every relation on test alone: validation took part in choosing heads."""
    template = dataclasses.replace(scoring.template, task=TASK, split="test", method=NAME)
    if TASK not in scoring.labels:
        return
    heads = {
        intervention.subject: intervention
        for intervention in fits.for_method(NAME)
        if intervention.kind == HEADS
    }
    if not heads:
        yield left_out(template, "no relation has enough edges that a head could be chosen for it")
        return
    for effect_metrics in (SURPRISAL, ANSWERS):
        effects = compute_effects(scoring, NAME, fits.splits, effect_metrics).filter(
            pl.col("split") == "test"
        )
        for relation, intervention in heads.items():
            rows = effects.filter(pl.col("subject") == relation)
            if not rows.is_empty():
                yield from _of_relation(
                    rows, relation, intervention, template.within(("relation", relation)), effect_metrics
                )


def _of_relation(
    rows: pl.DataFrame,
    relation: str,
    intervention: FittedIntervention,
    template: Score,
    effect_metrics: EffectMetrics,
) -> Iterator[Score]:
    score_means = functools.partial(means, minimum=FEWEST_DEPENDENTS, size=pl.col("n"))
    if intervention.together:
        # The groups of dependents overlap; what is no dependent of "all of them" is everything.
        all_subwords = rows.filter(pl.col("group") == ELSEWHERE)
        yield from score_means(all_subwords, effect_means(all_subwords, HEADS, effect_metrics), template)
        return
    (head,) = intervention.heads
    head_template = dataclasses.replace(template, layer=intervention.layer, head=head)
    # The others of a layer are what they are, and no draws: only sets of heads are drawn at random.
    rows = rows.drop(list_draws(rows, RANDOM))
    where = pl.when(pl.col("group") == relation).then(pl.lit("here")).otherwise(pl.lit(ELSEWHERE))
    compared_rows = rows.filter(pl.col("group").is_in([relation, ELSEWHERE])).with_columns(where=where)
    metrics = effect_means(rows, HEADS, effect_metrics)
    yield from score_means(compared_rows, metrics, head_template, by="where")
    if effect_metrics is not SURPRISAL:
        return
    other_rows = rows.filter(~pl.col("group").is_in([relation, ELSEWHERE]))
    yield from score_means(other_rows, metrics[:1], head_template, by={"at": pl.col("group")})
    if RANDOM in list_controls(rows, HEADS) and compared_rows["where"].n_unique() == 2:
        difference = [excess_over_control(rows, HEADS, RANDOM, DIFFERENCE)]
        yield from mean_differences(compared_rows, difference, head_template, ("where", "here", ELSEWHERE))
