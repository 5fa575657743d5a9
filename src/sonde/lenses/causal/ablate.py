"""Ablation of the attention heads that follow a syntactic relation, compared with other heads.

The ablated heads are those that follow a syntactic relation best, chosen on functions that are not tested.
They are compared with other heads of the same layers whose output vectors have about the same length. The
output of a head at a position is replaced by its output at a position of the same kind in another function
(resample ablation; Chan et al. 2022), or by its mean if no such position was seen. The cost is measured at
the dependents of the relation and elsewhere.
"""

from __future__ import annotations

import dataclasses
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
    APART,
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


POSITIONS, VALUES = 12, 32
"""Subwords of a function at which heads are read; and vectors kept for each kind of place."""


LAYOUT = "layout"


MEAN = ""
"""The mark of the mean, which is put where no place of the kind was seen."""


ELSEWHERE = "elsewhere"


_GENERIC = "children:"
"""Relations of every node with what is in it: no head is looked for that follows them."""


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """Describe how many relations' heads are ablated, and their controls."""
    if TASK not in labels:
        return ""
    return (
        f"the best heads of up to {RELATIONS} relations are ablated, each beside up to "
        f"{read_options(settings).draws} others of its layer"
    )


def collect_edges(labels: Mapping[str, pl.DataFrame]) -> dict[str, list[tuple[str, int, int]]]:
    """Collect the edges of each function: relation, start of head and of dependent."""
    edges: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    if TASK in labels:
        rows = labels[TASK].filter(pl.col("label").is_not_null() & ~pl.col("label").str.starts_with(_GENERIC))
        for item, label, start, dependent in rows.select(
            "item_id", "label", "start", "other_start"
        ).iter_rows():
            edges[item].append((label, start, dependent))
    return edges


def _tokens(item: Prepared) -> list[tuple[int, int]]:
    return list(zip(item.tokens.start.tolist(), item.tokens.end.tolist(), strict=True))


def build_lookups(
    item: Prepared, edges: Sequence[tuple[str, int, int]]
) -> tuple[WordLookups, list[str]] | None:
    """Build lookups along the edges between a function's code tokens."""
    tokens = _tokens(item)
    if not tokens or not edges:
        return None
    first, stop = find_overlapping_subwords(tokens, item.alignment.subwords)
    ends = item.tokens.end
    token_edges: list[tuple[str, int, int]] = []
    for label, start, dependent_start in edges:
        head, dependent = (
            int(np.searchsorted(ends, position, side="right")) for position in (start, dependent_start)
        )
        if max(head, dependent) < len(tokens) and head != dependent:
            token_edges.append((label, head, dependent))
    if not token_edges:
        return None
    names = [label for label, _, _ in token_edges]
    head, dependent = (np.array([edge[column] for edge in token_edges], dtype=np.int64) for column in (1, 2))
    last_token, first_token = np.maximum(head, dependent), np.minimum(head, dependent)
    candidates = stop > first
    # A model that sees all is asked by the head for the dependent, a decoder by the later for the earlier.
    return WordLookups(
        first,
        stop,
        candidates,
        Lookups(head, head, dependent, dependent),
        Lookups(last_token, last_token, first_token, first_token),
    ), names


def _kind(item: Prepared, position: int) -> str:
    return item.alignment.kind[position] or LAYOUT


def _select_read_positions(function: Prepared) -> list[int]:
    """Return subwords of a function at which heads are read."""
    size, item_id = len(function.alignment.subwords), function.item.item_id
    return sorted(sorted(range(size), key=lambda position: unit_hash("head", item_id, position))[:POSITIONS])


def fit_requests(
    items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Request attention along the edges, and head outputs at some subwords."""
    if TASK not in labels:
        return []
    edges = collect_edges(labels)
    lookups_by_item = {
        item.item.item_id: build_lookups(item, edges.get(item.item.item_id, ())) for item in items
    }
    lookups = {
        item: item_lookups[0] for item, item_lookups in lookups_by_item.items() if item_lookups is not None
    }
    spans = {
        item.item.item_id: tuple((position, position + 1) for position in _select_read_positions(item))
        for item in items
    }
    return [Pass(Plain(), (WordAttention(lookups), HeadOutputs(spans)))]


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
    for function in captured_items:
        item_id = function.prepared.item.item_id
        capture = next(
            (capture_read for capture_read in function.captures if capture_read.heads is not None), None
        )
        if capture is None or capture.heads is None:
            continue
        for position, outputs in zip(
            _select_read_positions(function.prepared), capture.heads.transpose(1, 0, 2, 3), strict=True
        ):
            rows.add_states(
                outputs.reshape(len(outputs), -1), item_id=item_id, what="head",
                kind=_kind(function.prepared, position),
                start=position, end=position + 1, n=outputs.shape[1],
            )  # fmt: skip
        item_lookups = build_lookups(function.prepared, edges.get(item_id, ()))
        words = capture.words.get("encoder") or capture.words.get("decoder")
        if item_lookups is None or words is None:
            continue
        hits = (words.ranks[..., 0] == 1).astype(np.float32)
        names = np.array(item_lookups[1])
        for relation in dict.fromkeys(item_lookups[1]):
            of_relation = names == relation
            rows.add_states(
                hits[:, :, of_relation].sum(2),
                item_id=item_id,
                what="edge",
                subject=relation,
                n=int(of_relation.sum()),
            )


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """Fit the best head of each relation, similar heads, and their replacement values."""
    settings, draws = scoring.settings, read_options(scoring.settings).draws
    fit_ids = pl.Series([item for item, side in splits.items() if side != "test"], dtype=pl.String).implode()
    train = pl.Series([item for item, side in splits.items() if side == "train"], dtype=pl.String).implode()
    edges = scoring.observations.filter(
        (pl.col("what") == "edge") & pl.col("item_id").is_in(fit_ids)
    ).collect()
    outputs_rows = scoring.observations.filter(
        (pl.col("what") == "head") & pl.col("item_id").is_in(train)
    ).collect()
    if edges.is_empty() or outputs_rows.is_empty():
        return
    # Which vectors are kept hangs on the places alone, not on the order in which functions were read.
    positions = outputs_rows.select("item_id", "start").iter_rows()
    outputs_rows = outputs_rows[
        np.argsort([unit_hash("kept", item, position) for item, position in positions])
    ]
    count = int(outputs_rows["n"][0])
    states = unpack_states(outputs_rows)
    outputs = states.reshape(*states.shape[:2], count, -1)
    norms = np.linalg.norm(outputs, axis=3).mean(1)
    best_heads = _select_heads(edges)
    kinds = outputs_rows["kind"].to_list()
    for relation, (layer, head) in best_heads.items():
        yield _fit(relation, HEADS, layer, (head,), outputs, kinds)
        other_heads = sorted(
            (other_head for other_head in range(count) if other_head != head),
            key=lambda other_head: abs(norms[layer, other_head] - norms[layer, head]),
        )
        for number, other_head in enumerate(other_heads[:draws]):
            yield _fit(relation, f"{RANDOM} {number}", layer, (other_head,), outputs, kinds)
    by_layer: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for layer, head in best_heads.values():
        by_layer[layer][head] += 1
    # Of a layer at most half of its heads, so that there are as many others.
    best = {
        layer: tuple(sorted(head for head, _ in heads.most_common(max(1, count // 2))))
        for layer, heads in sorted(by_layer.items())
    }
    if count < 2 or len(best_heads) < 2:
        return
    for layer, heads in best.items():
        yield _fit(ALL, HEADS, layer, heads, outputs, kinds, whole_layer=True)
        rng = np.random.default_rng(derive_seed("heads", settings.seed, layer) % 2**63)
        other_heads = np.array([head for head in range(count) if head not in heads])
        for number in range(draws):
            random_heads = tuple(sorted(rng.choice(other_heads, len(heads), replace=False).tolist()))
            yield _fit(ALL, f"{RANDOM} {number}", layer, random_heads, outputs, kinds, whole_layer=True)


def _select_heads(edges: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """Select the head with the most hits for each of the relations with the most edges."""
    sizes = (
        edges.group_by("subject", maintain_order=True)
        .agg(pl.col("n").sum())
        .filter(pl.col("n") >= MINIMUM_EDGES)
    )
    largest = sizes.sort(["n", "subject"], descending=[True, False])["subject"].to_list()[:RELATIONS]
    heads: dict[str, tuple[int, int]] = {}
    for relation in largest:
        hits = unpack_states(edges.filter(pl.col("subject") == relation)).sum(1)
        layer, head = np.unravel_index(int(hits.argmax()), hits.shape)
        heads[relation] = int(layer), int(head)
    return heads


def _fit(
    relation: str,
    kind: str,
    layer: int,
    heads: tuple[int, ...],
    outputs: Float[np.ndarray, "layer place head d_head"],
    kinds: Sequence[str],
    *,
    whole_layer: bool = False,
) -> FittedIntervention:
    """Fit the replacement values of heads: some vectors per kind of place, and the mean."""
    layer_outputs = outputs[layer][:, list(heads)].reshape(len(kinds), -1)
    counts: Counter[str] = Counter()
    indices: list[int] = []
    for index, kind_of_place in enumerate(kinds):
        counts[kind_of_place] += 1
        if counts[kind_of_place] <= VALUES:
            indices.append(index)
    values = np.concatenate([layer_outputs[indices], layer_outputs.mean(0, keepdims=True)])
    marks = (*(kinds[index] for index in indices), MEAN)
    return FittedIntervention(
        NAME, relation, kind, layer, heads, values=values, marks=marks, together=whole_layer
    )


def _index(item: Prepared, marks: Sequence[str]) -> Int[np.ndarray, " subword"]:
    """Return the vector index of each subword, by kind and the same for all heads."""
    indices_by_mark: defaultdict[str, list[int]] = defaultdict(list)
    for index, mark in enumerate(marks):
        indices_by_mark[mark].append(index)
    vector_index = np.full(len(item.alignment.subwords), indices_by_mark[MEAN][0], dtype=np.int64)
    for index in range(len(vector_index)):
        if indices := indices_by_mark.get(_kind(item, index)):
            vector_index[index] = indices[int(unit_hash("resample", item.item.item_id, index) * len(indices))]
    return vector_index


def effect_requests(
    fits: FittedInterventions,
    items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request surprisal of the measured functions with each set of heads replaced."""
    measured_items = [item for item in items if item.item.item_id in fits.measured]
    index: dict[tuple[str, ...], dict[str, Int[np.ndarray, " subword"]]] = {}
    changes: defaultdict[str, list[Change]] = defaultdict(list)
    for fit_of_heads in fits.for_method(NAME):
        if fit_of_heads.marks not in index:
            index[fit_of_heads.marks] = {
                item.item.item_id: _index(item, fit_of_heads.marks) for item in measured_items
            }
        assert fit_of_heads.values is not None
        put = Put(fit_of_heads.values.astype(np.float32), index[fit_of_heads.marks])
        changes[fit_of_heads.name].append(Change(fit_of_heads.layer, put, "heads", fit_of_heads.heads))
    return surprisal_requests(
        items, {name: tuple(changes_of_name) for name, changes_of_name in changes.items()}, fits.measured
    )


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add what changed at the dependents of each relation, and elsewhere."""
    edges = collect_edges(labels)
    interventions = list({intervention.name: intervention for intervention in fits.for_method(NAME)}.values())
    relations = list(
        dict.fromkeys(intervention.subject for intervention in interventions if not intervention.together)
    )
    for function in captured_items:
        item_id = function.prepared.item.item_id
        if item_id not in fits.measured:
            continue
        captures = group_captures(function)
        dependents = _dependents(function.prepared, edges.get(item_id, ()))
        nowhere = np.zeros(len(function.prepared.alignment.subwords), dtype=np.bool_)
        for intervention in interventions:
            names = [*relations, ELSEWHERE]
            is_dependent = dependents.get(intervention.subject, nowhere)
            arrays = [
                np.where(dependents.get(name, nowhere), number, -1) for number, name in enumerate(relations)
            ]
            arrays.append(np.where(is_dependent, -1, len(relations)))
            add_effects(rows, item_id, [intervention], captures, (names, arrays))


def _dependents(
    item: Prepared, edges: Sequence[tuple[str, int, int]]
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Mark the subwords of the dependents' first tokens of each relation."""
    tokens = _tokens(item)
    masks: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}
    if not tokens:
        return masks
    first, stop = find_overlapping_subwords(tokens, item.alignment.subwords)
    for label, _, start in edges:
        token = int(np.searchsorted(item.tokens.end, start, side="right"))
        if token < len(tokens):
            mask = masks.setdefault(label, np.zeros(len(item.alignment.subwords), dtype=np.bool_))
            mask[first[token] : stop[token]] = True
    return masks


FEWEST_DEPENDENTS = 30
"""Subwords of dependents below which nothing is said of a relation."""


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Score every relation on test alone, since validation took part in choosing heads."""
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
    for metrics in (SURPRISAL, ANSWERS):
        effects = compute_effects(scoring, NAME, fits.splits, metrics).filter(pl.col("split") == "test")
        for relation, intervention in heads.items():
            rows = effects.filter(pl.col("subject") == relation)
            if not rows.is_empty():
                yield from _of_relation(
                    rows, relation, intervention, template.within(("relation", relation)), metrics
                )


def _of_relation(
    rows: pl.DataFrame,
    relation: str,
    intervention: FittedIntervention,
    template: Score,
    effect_metrics: EffectMetrics,
) -> Iterator[Score]:
    size = pl.col("n")
    if intervention.together:
        # The groups of dependents overlap; what is no dependent of "all of them" is everything.
        layer_rows = rows.filter(pl.col("group") == ELSEWHERE)
        yield from means(
            layer_rows,
            effect_means(layer_rows, HEADS, effect_metrics),
            template,
            minimum=FEWEST_DEPENDENTS,
            size=size,
        )
        return
    (head,) = intervention.heads
    head_template = dataclasses.replace(template, layer=intervention.layer, head=head)
    # The others of a layer are what they are, and no draws: only sets of heads are drawn at random.
    rows = rows.drop(list_draws(rows, RANDOM))
    part = pl.when(pl.col("group") == relation).then(pl.lit("here")).otherwise(pl.lit(ELSEWHERE))
    relation_rows = rows.filter(pl.col("group").is_in([relation, ELSEWHERE])).with_columns(where=part)
    metrics = effect_means(rows, HEADS, effect_metrics)
    yield from means(relation_rows, metrics, head_template, by="where", minimum=FEWEST_DEPENDENTS, size=size)
    if effect_metrics is not SURPRISAL:
        return
    other_rows = rows.filter(~pl.col("group").is_in([relation, ELSEWHERE]))
    yield from means(
        other_rows,
        metrics[:1],
        head_template,
        by={"at": pl.col("group")},
        minimum=FEWEST_DEPENDENTS,
        size=size,
    )
    if RANDOM in list_controls(rows, HEADS) and relation_rows["where"].n_unique() == 2:
        differences = [excess_over_control(rows, HEADS, RANDOM, APART)]
        yield from mean_differences(relation_rows, differences, head_template, ("where", "here", ELSEWHERE))
