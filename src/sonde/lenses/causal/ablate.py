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


FEWEST = 30
"""Edges of a relation below which no head is chosen for it."""


PLACES, VALUES = 12, 32
"""Subwords of a function at which heads are read; and vectors kept for each kind of place."""


LAYOUT = "layout"


MEAN = ""
"""The mark of the mean, which is put where no place of the kind was seen."""


ELSEWHERE = "elsewhere"


_GENERIC = "children:"
"""Relations of every node with what is in it: no head is looked for that follows them."""


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """How many relations' heads are ablated, and what each is held against."""
    if TASK not in labels:
        return ""
    return (
        f"the best heads of up to {RELATIONS} relations are ablated, each beside up to "
        f"{read_options(settings).draws} others of its layer"
    )


def collect_edges(labels: Mapping[str, pl.DataFrame]) -> dict[str, list[tuple[str, int, int]]]:
    """For each function its edges: the relation, and where head and dependent begin."""
    found: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    if TASK in labels:
        rows = labels[TASK].filter(pl.col("label").is_not_null() & ~pl.col("label").str.starts_with(_GENERIC))
        for item, label, start, other in rows.select("item_id", "label", "start", "other_start").iter_rows():
            found[item].append((label, start, other))
    return found


def _tokens(one: Prepared) -> list[tuple[int, int]]:
    return list(zip(one.tokens.start.tolist(), one.tokens.end.tolist(), strict=True))


def build_lookups(
    one: Prepared, edges: Sequence[tuple[str, int, int]]
) -> tuple[WordLookups, list[str]] | None:
    """The code tokens of a function, and its edges between them that have two ends."""
    tokens = _tokens(one)
    if not tokens or not edges:
        return None
    first, stop = find_overlapping_subwords(tokens, one.alignment.subwords)
    ends = one.tokens.end
    known: list[tuple[str, int, int]] = []
    for label, start, other in edges:
        head, dependent = (int(np.searchsorted(ends, at, side="right")) for at in (start, other))
        if max(head, dependent) < len(tokens) and head != dependent:
            known.append((label, head, dependent))
    if not known:
        return None
    names = [label for label, _, _ in known]
    head, dependent = (np.array([edge[at] for edge in known], dtype=np.int64) for at in (1, 2))
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


def _kind(one: Prepared, at: int) -> str:
    return one.alignment.kind[at] or LAYOUT


def _select_read_positions(one: Prepared) -> list[int]:
    """Subwords of a function at which heads are read."""
    size, item = len(one.alignment.subwords), one.item.item_id
    return sorted(sorted(range(size), key=lambda at: unit_hash("head", item, at))[:PLACES])


def fit_requests(
    prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Attention along the edges of relations, and what heads give at some subwords."""
    if TASK not in labels:
        return []
    edges = collect_edges(labels)
    asked = {one.item.item_id: build_lookups(one, edges.get(one.item.item_id, ())) for one in prepared}
    lookups = {item: held[0] for item, held in asked.items() if held is not None}
    spans = {one.item.item_id: tuple((at, at + 1) for at in _select_read_positions(one)) for one in prepared}
    return [Pass(Plain(), (WordAttention(lookups), HeadOutputs(spans)))]


def add_fit_rows(
    observed: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add how often each head hits each relation, and what heads give."""
    if TASK not in labels:
        return
    edges = collect_edges(labels)
    for one in observed:
        item = one.prepared.item.item_id
        capture = next((held for held in one.captures if held.heads is not None), None)
        if capture is None or capture.heads is None:
            continue
        for at, given in zip(
            _select_read_positions(one.prepared), capture.heads.transpose(1, 0, 2, 3), strict=True
        ):
            rows.add_states(
                given.reshape(len(given), -1), item_id=item, what="head", kind=_kind(one.prepared, at),
                start=at, end=at + 1, n=given.shape[1],
            )  # fmt: skip
        asked = build_lookups(one.prepared, edges.get(item, ()))
        words = capture.words.get("encoder") or capture.words.get("decoder")
        if asked is None or words is None:
            continue
        hits = (words.ranks[..., 0] == 1).astype(np.float32)
        names = np.array(asked[1])
        for relation in dict.fromkeys(asked[1]):
            mine = names == relation
            rows.add_states(
                hits[:, :, mine].sum(2), item_id=item, what="edge", subject=relation, n=int(mine.sum())
            )


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """The best head of each relation, other heads like it, and what is put in their place."""
    settings, draws = scoring.settings, read_options(scoring.settings).draws
    apart = pl.Series([item for item, side in splits.items() if side != "test"], dtype=pl.String).implode()
    train = pl.Series([item for item, side in splits.items() if side == "train"], dtype=pl.String).implode()
    edges = scoring.observations.filter((pl.col("what") == "edge") & pl.col("item_id").is_in(apart)).collect()
    given = scoring.observations.filter((pl.col("what") == "head") & pl.col("item_id").is_in(train)).collect()
    if edges.is_empty() or given.is_empty():
        return
    # Which vectors are kept hangs on the places alone, not on the order in which functions were read.
    places = given.select("item_id", "start").iter_rows()
    given = given[np.argsort([unit_hash("kept", item, at) for item, at in places])]
    count = int(given["n"][0])
    states = unpack_states(given)
    outputs = states.reshape(*states.shape[:2], count, -1)
    norms = np.linalg.norm(outputs, axis=3).mean(1)
    chosen = _select_heads(edges)
    kinds = given["kind"].to_list()
    for relation, (layer, head) in chosen.items():
        yield _fit(relation, HEADS, layer, (head,), outputs, kinds)
        others = sorted(
            (other for other in range(count) if other != head),
            key=lambda other: abs(norms[layer, other] - norms[layer, head]),
        )
        for number, other in enumerate(others[:draws]):
            yield _fit(relation, f"{RANDOM} {number}", layer, (other,), outputs, kinds)
    by_layer: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for layer, head in chosen.values():
        by_layer[layer][head] += 1
    # Of a layer at most half of its heads, so that there are as many others.
    best = {
        layer: tuple(sorted(head for head, _ in heads.most_common(max(1, count // 2))))
        for layer, heads in sorted(by_layer.items())
    }
    if count < 2 or len(chosen) < 2:
        return
    for layer, heads in best.items():
        yield _fit(ALL, HEADS, layer, heads, outputs, kinds, together=True)
        rng = np.random.default_rng(derive_seed("heads", settings.seed, layer) % 2**63)
        others = np.array([head for head in range(count) if head not in heads])
        for number in range(draws):
            drawn = tuple(sorted(rng.choice(others, len(heads), replace=False).tolist()))
            yield _fit(ALL, f"{RANDOM} {number}", layer, drawn, outputs, kinds, together=True)


def _select_heads(edges: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """For the relations with the most edges, the head that hits the most of them."""
    sizes = (
        edges.group_by("subject", maintain_order=True).agg(pl.col("n").sum()).filter(pl.col("n") >= FEWEST)
    )
    most = sizes.sort(["n", "subject"], descending=[True, False])["subject"].to_list()[:RELATIONS]
    found: dict[str, tuple[int, int]] = {}
    for relation in most:
        hits = unpack_states(edges.filter(pl.col("subject") == relation)).sum(1)
        layer, head = np.unravel_index(int(hits.argmax()), hits.shape)
        found[relation] = int(layer), int(head)
    return found


def _fit(
    relation: str,
    kind: str,
    layer: int,
    heads: tuple[int, ...],
    outputs: Float[np.ndarray, "layer place head d_head"],
    kinds: Sequence[str],
    *,
    together: bool = False,
) -> FittedIntervention:
    """Heads with what may be put in their place: some vectors of each kind of place, and the mean."""
    given = outputs[layer][:, list(heads)].reshape(len(kinds), -1)
    taken: Counter[str] = Counter()
    kept: list[int] = []
    for at, place in enumerate(kinds):
        taken[place] += 1
        if taken[place] <= VALUES:
            kept.append(at)
    values = np.concatenate([given[kept], given.mean(0, keepdims=True)])
    marks = (*(kinds[at] for at in kept), MEAN)
    return FittedIntervention(
        NAME, relation, kind, layer, heads, values=values, marks=marks, together=together
    )


def _index(one: Prepared, marks: Sequence[str]) -> Int[np.ndarray, " subword"]:
    """Which vector each subword gets: one of its kind, the same for all heads: controls are paired."""
    held: defaultdict[str, list[int]] = defaultdict(list)
    for at, mark in enumerate(marks):
        held[mark].append(at)
    found = np.full(len(one.alignment.subwords), held[MEAN][0], dtype=np.int64)
    for at in range(len(found)):
        if places := held.get(_kind(one, at)):
            found[at] = places[int(unit_hash("resample", one.item.item_id, at) * len(places))]
    return found


def effect_requests(
    fits: FittedInterventions,
    prepared: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Surprisal of the measured functions with each set of heads replaced."""
    measured = [one for one in prepared if one.item.item_id in fits.measured]
    index: dict[tuple[str, ...], dict[str, Int[np.ndarray, " subword"]]] = {}
    changes: defaultdict[str, list[Change]] = defaultdict(list)
    for one in fits.for_method(NAME):
        if one.marks not in index:
            index[one.marks] = {held.item.item_id: _index(held, one.marks) for held in measured}
        assert one.values is not None
        put = Put(one.values.astype(np.float32), index[one.marks])
        changes[one.name].append(Change(one.layer, put, "heads", one.heads))
    return surprisal_requests(prepared, {name: tuple(held) for name, held in changes.items()}, fits.measured)


def add_effect_rows(
    fits: FittedInterventions,
    observed: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add what changed at the dependents of each relation, and elsewhere."""
    edges = collect_edges(labels)
    once = list({one.name: one for one in fits.for_method(NAME)}.values())
    relations = list(dict.fromkeys(one.subject for one in once if not one.together))
    for one in observed:
        item = one.prepared.item.item_id
        if item not in fits.measured:
            continue
        held = group_captures(one)
        at = _dependents(one.prepared, edges.get(item, ()))
        nowhere = np.zeros(len(one.prepared.alignment.subwords), dtype=np.bool_)
        for made in once:
            names = [*relations, ELSEWHERE]
            own = at.get(made.subject, nowhere)
            arrays = [np.where(at.get(name, nowhere), place, -1) for place, name in enumerate(relations)]
            arrays.append(np.where(own, -1, len(relations)))
            add_effects(rows, item, [made], held, (names, arrays))


def _dependents(
    one: Prepared, edges: Sequence[tuple[str, int, int]]
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """For each relation the subwords of its dependents' first tokens."""
    tokens = _tokens(one)
    found: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}
    if not tokens:
        return found
    first, stop = find_overlapping_subwords(tokens, one.alignment.subwords)
    for label, _, start in edges:
        at = int(np.searchsorted(one.tokens.end, start, side="right"))
        if at < len(tokens):
            mine = found.setdefault(label, np.zeros(len(one.alignment.subwords), dtype=np.bool_))
            mine[first[at] : stop[at]] = True
    return found


FEWEST_DEPENDENTS = 30
"""Subwords of dependents below which nothing is said of a relation."""


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Every number of every relation, on test alone: validation took part in choosing heads."""
    template = dataclasses.replace(scoring.template, task=TASK, split="test", method=NAME)
    if TASK not in scoring.labels:
        return
    heads = {one.subject: one for one in fits.for_method(NAME) if one.kind == HEADS}
    if not heads:
        yield left_out(template, "no relation has enough edges that a head could be chosen for it")
        return
    for of in (SURPRISAL, ANSWERS):
        effects = compute_effects(scoring, NAME, fits.splits, of).filter(pl.col("split") == "test")
        for relation, chosen in heads.items():
            rows = effects.filter(pl.col("subject") == relation)
            if not rows.is_empty():
                yield from _of_relation(rows, relation, chosen, template.within(("relation", relation)), of)


def _of_relation(
    rows: pl.DataFrame, relation: str, chosen: FittedIntervention, template: Score, of: EffectMetrics
) -> Iterator[Score]:
    counted = pl.col("n")
    if chosen.together:
        # The groups of dependents overlap; what is no dependent of "all of them" is everything.
        whole = rows.filter(pl.col("group") == ELSEWHERE)
        yield from means(
            whole, effect_means(whole, HEADS, of), template, minimum=FEWEST_DEPENDENTS, size=counted
        )
        return
    (head,) = chosen.heads
    own = dataclasses.replace(template, layer=chosen.layer, head=head)
    # The others of a layer are what they are, and no draws: only sets of heads are drawn at random.
    rows = rows.drop(list_draws(rows, RANDOM))
    where = pl.when(pl.col("group") == relation).then(pl.lit("here")).otherwise(pl.lit(ELSEWHERE))
    mine = rows.filter(pl.col("group").is_in([relation, ELSEWHERE])).with_columns(where=where)
    asked = effect_means(rows, HEADS, of)
    yield from means(mine, asked, own, by="where", minimum=FEWEST_DEPENDENTS, size=counted)
    if of is not SURPRISAL:
        return
    others = rows.filter(~pl.col("group").is_in([relation, ELSEWHERE]))
    yield from means(
        others, asked[:1], own, by={"at": pl.col("group")}, minimum=FEWEST_DEPENDENTS, size=counted
    )
    if RANDOM in list_controls(rows, HEADS) and mine["where"].n_unique() == 2:
        apart = [excess_over_control(rows, HEADS, RANDOM, APART)]
        yield from mean_differences(mine, apart, own, ("where", "here", ELSEWHERE))
