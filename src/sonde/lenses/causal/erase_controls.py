"""Last stage of erasure: each property at its chosen layer, compared with all draws of its controls.

All numbers are of the test split. The stage also measures the effect of an erasure on downstream attention:
whether heads still hit the relations that they follow. For each relation it reads the head that
`sonde.lenses.causal.ablate` has chosen, if that head lies after the erased layer, and compares with the
erasure of a subspace of equal width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from sonde.capture.requests import Changed, ItemCapture, Pass, Plain, Prepared, WordAttention
from sonde.lenses.causal.ablate import HEADS, build_lookups, collect_edges
from sonde.lenses.causal.ablate import NAME as ABLATE
from sonde.lenses.causal.effects import (
    ANSWERS,
    APART,
    BEST,
    SURPRISAL,
    EffectMetrics,
    add_effects,
    assign_constructs,
    compute_effects,
    effect_means,
    excess_over_control,
    group_captures,
    join_splits,
    mean_change,
    surprisal_requests,
)
from sonde.lenses.causal.erase import (
    ERASED,
    ERASED_PROPERTY,
    AppliedPositions,
    add_downstream_states,
    build_interventions,
    collect_unmodified_states,
    cross_fit_probes,
    find_applied_positions,
    request_downstream_states,
    request_unmodified_states,
)
from sonde.lenses.causal.erase_maps import (
    LEACE,
    NAME,
    PERMUTED,
    PERMUTED_SURFACE,
    SURFACE,
    UNIFORM,
    WIDE,
    PropertyExamples,
    controls,
    erased_properties,
    format_draw,
)
from sonde.lenses.causal.interventions import CONTROL, FittedIntervention, FittedInterventions, RowBuilder
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ScoringContext
from sonde.results import Mean, Score, mean_differences, mean_rows, means, trained_rows
from sonde.training.erasure import Eraser, subspace_overlap

HIT = "hit"
"""What rows of it are."""


LOST, EXCESS = "hits_lost", "hits_excess"
"""Metrics: the share of edges that heads hit with nothing changed less that with something erased; and by how
much more that is than with a subspace as wide."""


RELATION = "relation"


FEWEST_EDGES = 30
"""Edges of a relation below which nothing is said of it."""


def find_following_heads(fits: FittedInterventions) -> dict[str, tuple[int, int]]:
    """The layer and head that follow each relation."""
    return {
        one.subject: (one.layer, one.heads[0])
        for one in fits.for_method(ABLATE)
        if one.kind == HEADS and not one.together
    }


def request(
    fits: FittedInterventions, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> WordAttention | None:
    """The attention along the edges of relations that heads follow; None where there is nothing to ask."""
    heads, edges = find_following_heads(fits), collect_edges(labels)
    found = {
        one.item.item_id: held[0]
        for one in prepared
        if one.item.item_id in fits.measured_items
        and (held := build_lookups(one, edges.get(one.item.item_id, ())))
    }
    return WordAttention(found) if heads and found else None


def precedes_head(change: FittedIntervention, fits: FittedInterventions) -> bool:
    """Whether a head that follows a relation reads states behind a change."""
    return any(layer >= change.layer for layer, _ in find_following_heads(fits).values())


def add_hits(
    rows: RowBuilder,
    item: str,
    relations: Sequence[str],
    captures: Sequence[ItemCapture],
    heads: Mapping[str, tuple[int, int]],
    change: FittedIntervention | None,
) -> None:
    """Add how many edges of each relation its head hits.

    Args:
        rows: Where to.
        item: The function.
        relations: Of each of its edges that was looked up.
        captures: Of the function with the change.
        heads: The layer and head that follow each relation.
        change: What was changed; None for nothing.
    """
    words = next((words for held in captures if (words := held.words)), {})
    side = words.get("encoder") or words.get("decoder")
    if side is None:
        return
    about: dict[str, object] = {}
    if change is not None:
        about = {
            "method": change.method, "subject": change.subject, "kind": change.kind, "layer": change.layer,
        }  # fmt: skip
    for relation, (layer, head) in heads.items():
        mine = [at for at, name in enumerate(relations) if name == relation]
        if mine and (change is None or layer >= change.layer):
            hits = int((side.ranks[layer, head, mine, 0] == 1).sum())
            rows.add(item_id=item, what=HIT, group=relation, n=len(mine), hits=hits, **about)


def score_downstream_heads(
    scoring: ScoringContext, task: str, own: str, splits: Mapping[str, str], template: Score
) -> Iterator[Score]:
    """What is lost of the edges of all relations by layer, and of each relation at each layer, on test.

    Args:
        scoring: With the rows of `add_hits`.
        task: The property that is erased.
        own: The kind of its change.
        splits: Of the functions.
        template: What the scores share.
    """
    hits = scoring.observations.filter(pl.col("what") == HIT).collect()
    rows = join_splits(hits, scoring, splits).filter(pl.col("split") == "test")
    plain = rows.filter(pl.col("method").is_null()).select("item_id", "group", before="hits")
    changed = rows.filter(pl.col("subject") == task).with_columns(kind=CONTROL)
    if plain.is_empty() or changed.is_empty():
        return
    keys = ["item_id", "cluster", "group", "layer", "n"]
    both = changed.pivot("kind", index=keys, values="hits").join(plain, on=["item_id", "group"])
    controls = [name for name in both.columns if name not in (*keys, "before", own)]
    asked = [_mean_loss(own, None), *(_mean_loss(name, name) for name in controls)]
    asked += [mean_change(EXCESS, pl.col(name) - pl.col(own), name) for name in controls]
    yield from means(both, asked, template, columns=("layer",))
    yield from means(
        both, asked, template, by={RELATION: pl.col("group")}, columns=("layer",), minimum=FEWEST_EDGES,
        size=pl.col("n"),
    )  # fmt: skip


def _mean_loss(kind: str, control: str | None) -> Mean:
    return mean_change(LOST, pl.col("before") - pl.col(kind), control)


WITH = "with"
"""Dimension: what labels of functions are erased together with."""


OVERLAP, REALISED = "overlap", "realised_change"
"""Metrics of subspaces: mean squared canonical correlation of two draws, and mean squared change of states at
the places where the map is applied, over that of the property's own map."""


MOVED = "moved"
"""What rows of squared changes are."""


READ = (LEACE, format_draw(WIDE))
"""Kinds behind which states and heads are read."""


FEWEST = 30
"""Subwords of a construct, on validation and on test, below which nothing is said of it."""


def effect_requests(
    fits: FittedInterventions,
    prepared: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Surprisal of measured functions with every draw, and what is left behind an erasure."""
    changes = build_interventions(fits, prepared, labels)
    sides = {
        side: frozenset(item for item in fits.measured_items if fits.splits[item] == side)
        for side in ("valid", "test")
    }
    found = surprisal_requests(prepared, changes, sides["test"])
    # Where an erasure costs the most is chosen on validation.
    where = {
        one.name: changes[one.name] for one in fits.for_method(NAME) if one.name in changes and _locates(one)
    }
    found += surprisal_requests(prepared, where, sides["valid"])
    found.append(
        request_unmodified_states(
            fits, prepared, changes, tuple(sorted({one.layer for one in fits.for_method(NAME)}))
        )
    )
    attention = request(fits, prepared, labels)
    if attention is not None:
        found.append(Pass(Plain(), (attention,), items=fits.measured_items))
    behind = request_downstream_states(fits, prepared, labels)
    for one in fits.for_method(NAME):
        if one.kind in READ and one.name in changes:
            held = Changed(Plain(), changes[one.name], one.name)
            if attention is not None and precedes_head(one, fits):
                found.append(Pass(held, (attention,), items=fits.measured_items))
            found.append(Pass(held, (behind,), items=fits.held_out_functions))
    return found


def _locates(one: FittedIntervention) -> bool:
    """Whether a change has a part in choosing the construct where a property costs the most."""
    return one.control in (LEACE, WIDE)


def add_effect_rows(
    fits: FittedInterventions,
    observed: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add what changed, how far states moved, and states and heads behind changes."""
    edges, heads = collect_edges(labels), find_following_heads(fits)
    changes = build_interventions(fits, [one.prepared for one in observed], labels)
    read = [one for one in fits.for_method(NAME) if one.kind in READ]
    for one in observed:
        item, held = one.prepared.item.item_id, group_captures(one)
        add_downstream_states(rows, one.prepared, held, read, labels)
        if item not in fits.measured_items:
            continue
        asked = build_lookups(one.prepared, edges.get(item, ())) if heads else None
        for made in (None, *read) if asked else ():
            captures = held.get("" if made is None else made.name, [])
            add_hits(rows, item, asked[1] if asked else (), captures, heads, made)
        names, group = assign_constructs(one.prepared)
        add_effects(rows, item, fits.for_method(NAME), held, (names, [group]))
        _add_displacements(
            rows, item, find_applied_positions(one.prepared, changes, fits), held.get("", ()), fits
        )


def _add_displacements(
    rows: RowBuilder,
    item: str,
    places: Mapping[str, AppliedPositions],
    captures: Sequence[ItemCapture],
    fits: FittedInterventions,
) -> None:
    """Add by how much maps move the states of a function where they are applied."""
    states, layers = (
        collect_unmodified_states(places, captures),
        sorted({one.layer for one in fits.for_method(NAME)}),
    )
    for made in fits.for_method(NAME):
        if made.subject not in states or made.control not in (LEACE, UNIFORM, WIDE):
            continue
        assert made.eraser is not None
        own, held = places[made.subject], states[made.subject][layers.index(made.layer)].astype(np.float64)
        moved = float(((held - made.eraser(held)) ** 2).sum()) * own.total / len(own.read)
        rows.add(
            item_id=item, what=MOVED, method=NAME, subject=made.subject, kind=made.kind, layer=made.layer,
            n=own.total, after=moved,
        )  # fmt: skip


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Every number of the properties that are held against all draws of their controls."""
    effects, answers = (compute_effects(scoring, NAME, fits.splits, of) for of in (SURPRISAL, ANSWERS))
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    texts = dict(scoring.texts.collect().iter_rows())
    examples = {
        task: PropertyExamples.from_labels(task, scoring, fits.splits, texts)
        for task in erased_properties(scoring.labels)
    }
    for made in (one for one in fits.for_method(NAME) if one.kind == LEACE):
        task, layer = made.subject, made.layer
        template = dataclasses.replace(
            scoring.template, task=task, split="test", method=NAME, layer=layer, dimensions=(BEST,)
        )
        mine = effects.filter(pl.col("subject") == task)
        if mine.is_empty():
            continue
        yield from _score_excess(mine, template, SURPRISAL)
        yield from _score_excess(answers.filter(pl.col("subject") == task), template, ANSWERS)
        yield from _with_surface(mine, template)
        plain = dataclasses.replace(template, dimensions=())
        yield from _constructs(mine, plain)
        yield from _subspaces(fits, scoring, task, template)
        yield from score_downstream_heads(scoring, task, LEACE, fits.splits, plain)
        behind = rows.filter((pl.col("subject") == task) & (pl.col("layer") == layer))
        for other, held in examples.items():
            if other != task:
                own = dataclasses.replace(plain, task=other).within(
                    (ERASED, str(layer)), (ERASED_PROPERTY, task)
                )
                yield from _score_other_property(behind, held, own, layer)


def _score_excess(effects: pl.DataFrame, template: Score, of: EffectMetrics) -> Iterator[Score]:
    """What each control costs on test, and by how much the property exceeds it."""
    test = effects.filter(pl.col("split") == "test")
    # What the property costs alone is known of every layer, this one among them.
    _, *asked = effect_means(test, LEACE, of, controls(template.task))
    yield from means(test, asked, template)


def _with_surface(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """What labels of functions cost together with the surface, and beyond labels in another order with it."""
    test = effects.filter(pl.col("split") == "test")
    if SURFACE in test.columns and test[SURFACE].is_not_null().any():
        asked = [
            dataclasses.replace(one, fields={"control": PERMUTED if one.fields["control"] else None})
            for one in effect_means(test, SURFACE, control_names=(PERMUTED_SURFACE,))
        ]
        yield from means(test, asked, template.within((WITH, SURFACE)))


def _constructs(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """By construct on test; and how much further it is where the effect is largest on validation."""
    excess = [excess_over_control(effects, LEACE, WIDE)]
    sides = {side: effects.filter(pl.col("split") == side) for side in ("valid", "test")}
    if WIDE not in effects.columns:
        return
    by = {"construct": pl.col("group")}
    counted = pl.col("n")
    test = sides["test"]
    asked = effect_means(test, LEACE, control_names=(WIDE,))
    yield from means(test, asked, template, by=by, minimum=FEWEST, size=counted)
    valid = list(means(sides["valid"], excess, template, by=by, minimum=FEWEST, size=counted))
    if not valid:
        return
    largest = dict(max(valid, key=lambda score: score.value).dimensions)["construct"]
    where = pl.when(pl.col("group") == largest).then(pl.lit("here")).otherwise(pl.lit("elsewhere"))
    apart = [excess_over_control(effects, LEACE, WIDE, APART)]
    of = template.within(BEST, ("construct", largest))
    yield from mean_differences(test.with_columns(where=where), apart, of, ("where", "here", "elsewhere"))


def _subspaces(
    fits: FittedInterventions, scoring: ScoringContext, task: str, template: Score
) -> Iterator[Score]:
    """How alike the draws of subspaces are, and how far they move states compared with the property's map."""
    moved = (
        scoring.observations.filter((pl.col("what") == MOVED) & (pl.col("subject") == task))
        .select("item_id", "kind", "after").collect()
        .with_columns(control=CONTROL)
        .group_by("item_id", "control", maintain_order=True).agg(pl.col("after").mean())
        .join(scoring.items.select("item_id", "cluster"), on="item_id")
        .pivot("control", index=["item_id", "cluster"], values="after").sort("item_id")
    )  # fmt: skip
    for kind in (UNIFORM, WIDE):
        held = [
            _to_float64(one.eraser)
            for one in fits.for_method(NAME)
            if one.subject == task and one.control == kind and one.eraser is not None
        ]
        if not held:
            continue
        own = dataclasses.replace(template, control=kind)
        yield dataclasses.replace(
            own, metric=OVERLAP, value=subspace_overlap(held), n=len(held), n_clusters=0
        )
        if kind in moved.columns:
            fields = {"control": kind}
            ratio = Mean(REALISED, pl.col(kind), "nonnegative", per=pl.col(LEACE), fields=fields)
            for one in means(moved, [ratio], template):
                # What is counted are functions, not what their states are moved by.
                yield dataclasses.replace(one, n=moved.height, contributions=None)


def _to_float64(one: Eraser) -> Eraser:
    return Eraser(one.down.astype(np.float64), one.up.astype(np.float64), one.centre)


def _score_other_property(
    behind: pl.DataFrame, examples: PropertyExamples, template: Score, layer: int
) -> Iterator[Score]:
    """What new probes find of another property behind an erasure, less than behind a subspace as wide."""
    found = [
        cross_fit_probes(behind.filter(pl.col("kind") == kind), examples, template.seed) for kind in READ
    ]
    if any(one is None for one in found):
        return
    (gold, clusters, own), (_, _, beside) = (one for one in found if one is not None)
    accuracy = dataclasses.replace(template, metric="accuracy")
    fields = [{"layer": layer + later} for later in range(len(own))]
    yield from mean_rows(accuracy, own == gold, clusters, fields)
    yield from mean_rows(dataclasses.replace(accuracy, control=WIDE), beside == gold, clusters, fields)
    for later, (mine, theirs) in enumerate(zip(own, beside, strict=True)):
        gain = dataclasses.replace(template, metric="gain", control=WIDE, layer=layer + later)
        yield from trained_rows(gain, mine == gold, clusters, baseline=theirs == gold)
