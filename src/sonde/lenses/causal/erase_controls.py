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
    """Find the layer and head that follow each relation."""
    return {
        intervention.subject: (intervention.layer, intervention.heads[0])
        for intervention in fits.for_method(ABLATE)
        if intervention.kind == HEADS and not intervention.together
    }


def request(
    fits: FittedInterventions, items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> WordAttention | None:
    """Request attention along the edges of followed relations; None without any."""
    heads, edges = find_following_heads(fits), collect_edges(labels)
    lookups = {
        item.item.item_id: item_lookups[0]
        for item in items
        if item.item.item_id in fits.measured
        and (item_lookups := build_lookups(item, edges.get(item.item.item_id, ())))
    }
    return WordAttention(lookups) if heads and lookups else None


def precedes_head(change: FittedIntervention, fits: FittedInterventions) -> bool:
    """Return whether a head that follows a relation reads states after a change."""
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
    words = next((words for capture in captures if (words := capture.words)), {})
    side = words.get("encoder") or words.get("decoder")
    if side is None:
        return
    columns: dict[str, object] = {}
    if change is not None:
        columns = {
            "method": change.method, "subject": change.subject, "kind": change.kind, "layer": change.layer,
        }  # fmt: skip
    for relation, (layer, head) in heads.items():
        indices = [index for index, name in enumerate(relations) if name == relation]
        if indices and (change is None or layer >= change.layer):
            hits = int((side.ranks[layer, head, indices, 0] == 1).sum())
            rows.add(item_id=item, what=HIT, group=relation, n=len(indices), hits=hits, **columns)


def score_downstream_heads(
    scoring: ScoringContext, task: str, kind: str, splits: Mapping[str, str], template: Score
) -> Iterator[Score]:
    """Score the edges lost by layer, over all relations and for each one, on test.

    Args:
        scoring: With the rows of `add_hits`.
        task: The property that is erased.
        kind: The kind of its change.
        splits: Of the functions.
        template: What the scores share.
    """
    hits = scoring.observations.filter(pl.col("what") == HIT).collect()
    rows = join_splits(hits, scoring, splits).filter(pl.col("split") == "test")
    plain = rows.filter(pl.col("method").is_null()).select("item_id", "group", before="hits")
    changed_rows = rows.filter(pl.col("subject") == task).with_columns(kind=CONTROL)
    if plain.is_empty() or changed_rows.is_empty():
        return
    keys = ["item_id", "cluster", "group", "layer", "n"]
    table = changed_rows.pivot("kind", index=keys, values="hits").join(plain, on=["item_id", "group"])
    controls = [name for name in table.columns if name not in (*keys, "before", kind)]
    metrics = [_mean_loss(kind, None), *(_mean_loss(name, name) for name in controls)]
    metrics += [mean_change(EXCESS, pl.col(name) - pl.col(kind), name) for name in controls]
    yield from means(table, metrics, template, columns=("layer",))
    yield from means(
        table, metrics, template, by={RELATION: pl.col("group")}, columns=("layer",), minimum=FEWEST_EDGES,
        size=pl.col("n"),
    )  # fmt: skip


def _mean_loss(kind: str, control: str | None) -> Mean:
    return mean_change(LOST, pl.col("before") - pl.col(kind), control)


COMBINED_WITH = "with"
"""Dimension: what labels of functions are erased together with."""


OVERLAP, REALISED = "overlap", "realised_change"
"""Metrics of subspaces: mean squared canonical correlation of two draws, and mean squared change of states at
the places where the map is applied, over that of the property's own map."""


DISPLACEMENT = "moved"
"""What rows of squared changes are."""


READ = (LEACE, format_draw(WIDE))
"""Kinds behind which states and heads are read."""


MINIMUM_SUBWORDS = 30
"""Subwords of a construct, on validation and on test, below which nothing is said of it."""


def effect_requests(
    fits: FittedInterventions,
    items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request surprisal with every draw, and the states after an erasure."""
    changes = build_interventions(fits, items, labels)
    sides = {
        side: frozenset(item for item in fits.measured if fits.splits[item] == side)
        for side in ("valid", "test")
    }
    passes = surprisal_requests(items, changes, sides["test"])
    # Where an erasure costs the most is chosen on validation.
    locators = {
        intervention.name: changes[intervention.name]
        for intervention in fits.for_method(NAME)
        if intervention.name in changes and _locates(intervention)
    }
    passes += surprisal_requests(items, locators, sides["valid"])
    passes.append(
        request_unmodified_states(
            fits,
            items,
            changes,
            tuple(sorted({intervention.layer for intervention in fits.for_method(NAME)})),
        )
    )
    attention = request(fits, items, labels)
    if attention is not None:
        passes.append(Pass(Plain(), (attention,), items=fits.measured))
    downstream = request_downstream_states(fits, items, labels)
    for intervention in fits.for_method(NAME):
        if intervention.kind in READ and intervention.name in changes:
            variant = Changed(Plain(), changes[intervention.name], intervention.name)
            if attention is not None and precedes_head(intervention, fits):
                passes.append(Pass(variant, (attention,), items=fits.measured))
            passes.append(Pass(variant, (downstream,), items=fits.held_out_functions))
    return passes


def _locates(intervention: FittedIntervention) -> bool:
    """Return whether a change takes part in choosing the costliest construct."""
    return intervention.control in (LEACE, WIDE)


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add what changed, how far states moved, and states and heads behind changes."""
    edges, heads = collect_edges(labels), find_following_heads(fits)
    changes = build_interventions(fits, [function.prepared for function in captured_items], labels)
    read = [intervention for intervention in fits.for_method(NAME) if intervention.kind in READ]
    for function in captured_items:
        item_id, captures_by_change = function.prepared.item.item_id, group_captures(function)
        add_downstream_states(rows, function.prepared, captures_by_change, read, labels)
        if item_id not in fits.measured:
            continue
        item_lookups = build_lookups(function.prepared, edges.get(item_id, ())) if heads else None
        for intervention in (None, *read) if item_lookups else ():
            captures = captures_by_change.get("" if intervention is None else intervention.name, [])
            add_hits(rows, item_id, item_lookups[1] if item_lookups else (), captures, heads, intervention)
        names, group = assign_constructs(function.prepared)
        add_effects(rows, item_id, fits.for_method(NAME), captures_by_change, (names, [group]))
        _add_displacements(
            rows,
            item_id,
            find_applied_positions(function.prepared, changes, fits),
            captures_by_change.get("", ()),
            fits,
        )


def _add_displacements(
    rows: RowBuilder,
    item: str,
    positions_by_task: Mapping[str, AppliedPositions],
    captures: Sequence[ItemCapture],
    fits: FittedInterventions,
) -> None:
    """Add by how much maps move the states of a function where they are applied."""
    states, layers = (
        collect_unmodified_states(positions_by_task, captures),
        sorted({fit.layer for fit in fits.for_method(NAME)}),
    )
    for fit in fits.for_method(NAME):
        if fit.subject not in states or fit.control not in (LEACE, UNIFORM, WIDE):
            continue
        assert fit.eraser is not None
        task_positions, layer_states = (
            positions_by_task[fit.subject],
            states[fit.subject][layers.index(fit.layer)].astype(np.float64),
        )
        displacement = (
            float(((layer_states - fit.eraser(layer_states)) ** 2).sum())
            * task_positions.total
            / len(task_positions.read)
        )
        rows.add(
            item_id=item, what=DISPLACEMENT, method=NAME, subject=fit.subject, kind=fit.kind, layer=fit.layer,
            n=task_positions.total, after=displacement,
        )  # fmt: skip


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Score the properties that are compared with all draws of their controls."""
    effects, answers = (
        compute_effects(scoring, NAME, fits.splits, metrics) for metrics in (SURPRISAL, ANSWERS)
    )
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    texts = dict(scoring.texts.collect().iter_rows())
    examples = {
        task: PropertyExamples.from_labels(task, scoring, fits.splits, texts)
        for task in erased_properties(scoring.labels)
    }
    for intervention in (
        intervention for intervention in fits.for_method(NAME) if intervention.kind == LEACE
    ):
        task, layer = intervention.subject, intervention.layer
        template = dataclasses.replace(
            scoring.template, task=task, split="test", method=NAME, layer=layer, dimensions=(BEST,)
        )
        task_effects = effects.filter(pl.col("subject") == task)
        if task_effects.is_empty():
            continue
        yield from _score_excess(task_effects, template, SURPRISAL)
        yield from _score_excess(answers.filter(pl.col("subject") == task), template, ANSWERS)
        yield from _with_surface(task_effects, template)
        plain = dataclasses.replace(template, dimensions=())
        yield from _constructs(task_effects, plain)
        yield from _subspaces(fits, scoring, task, template)
        yield from score_downstream_heads(scoring, task, LEACE, fits.splits, plain)
        downstream_rows = rows.filter((pl.col("subject") == task) & (pl.col("layer") == layer))
        for other_task, other_examples in examples.items():
            if other_task != task:
                other_template = dataclasses.replace(plain, task=other_task).within(
                    (ERASED, str(layer)), (ERASED_PROPERTY, task)
                )
                yield from _score_other_property(downstream_rows, other_examples, other_template, layer)


def _score_excess(effects: pl.DataFrame, template: Score, metrics: EffectMetrics) -> Iterator[Score]:
    """Score the cost of each control on test, and the excess of the property over it."""
    test = effects.filter(pl.col("split") == "test")
    # What the property costs alone is known of every layer, this one among them.
    _, *metric_means = effect_means(test, LEACE, metrics, controls(template.task))
    yield from means(test, metric_means, template)


def _with_surface(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score labels and surface together, and their excess over permuted labels with it."""
    test = effects.filter(pl.col("split") == "test")
    if SURFACE in test.columns and test[SURFACE].is_not_null().any():
        metrics = [
            dataclasses.replace(mean, fields={"control": PERMUTED if mean.fields["control"] else None})
            for mean in effect_means(test, SURFACE, order=(PERMUTED_SURFACE,))
        ]
        yield from means(test, metrics, template.within((COMBINED_WITH, SURFACE)))


def _constructs(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score by construct on test, and the difference at the largest one on validation."""
    excess = [excess_over_control(effects, LEACE, WIDE)]
    sides = {side: effects.filter(pl.col("split") == side) for side in ("valid", "test")}
    if WIDE not in effects.columns:
        return
    groups = {"construct": pl.col("group")}
    size = pl.col("n")
    test = sides["test"]
    metrics = effect_means(test, LEACE, order=(WIDE,))
    yield from means(test, metrics, template, by=groups, minimum=MINIMUM_SUBWORDS, size=size)
    valid = list(means(sides["valid"], excess, template, by=groups, minimum=MINIMUM_SUBWORDS, size=size))
    if not valid:
        return
    largest = dict(max(valid, key=lambda score: score.value).dimensions)["construct"]
    part = pl.when(pl.col("group") == largest).then(pl.lit("here")).otherwise(pl.lit("elsewhere"))
    differences = [excess_over_control(effects, LEACE, WIDE, APART)]
    best_template = template.within(BEST, ("construct", largest))
    yield from mean_differences(
        test.with_columns(where=part), differences, best_template, ("where", "here", "elsewhere")
    )


def _subspaces(
    fits: FittedInterventions, scoring: ScoringContext, task: str, template: Score
) -> Iterator[Score]:
    """Score the overlap of subspace draws, and how far they move states."""
    displacements = (
        scoring.observations.filter((pl.col("what") == DISPLACEMENT) & (pl.col("subject") == task))
        .select("item_id", "kind", "after").collect()
        .with_columns(control=CONTROL)
        .group_by("item_id", "control", maintain_order=True).agg(pl.col("after").mean())
        .join(scoring.items.select("item_id", "cluster"), on="item_id")
        .pivot("control", index=["item_id", "cluster"], values="after").sort("item_id")
    )  # fmt: skip
    for kind in (UNIFORM, WIDE):
        erasers = [
            _to_float64(intervention.eraser)
            for intervention in fits.for_method(NAME)
            if intervention.subject == task
            and intervention.control == kind
            and intervention.eraser is not None
        ]
        if not erasers:
            continue
        control_template = dataclasses.replace(template, control=kind)
        yield dataclasses.replace(
            control_template, metric=OVERLAP, value=subspace_overlap(erasers), n=len(erasers), n_clusters=0
        )
        if kind in displacements.columns:
            fields = {"control": kind}
            ratio = Mean(REALISED, pl.col(kind), "nonnegative", per=pl.col(LEACE), fields=fields)
            for score in means(displacements, [ratio], template):
                # What is counted are functions, not what their states are moved by.
                yield dataclasses.replace(score, n=displacements.height, contributions=None)


def _to_float64(eraser: Eraser) -> Eraser:
    return Eraser(eraser.down.astype(np.float64), eraser.up.astype(np.float64), eraser.centre)


def _score_other_property(
    rows: pl.DataFrame, examples: PropertyExamples, template: Score, layer: int
) -> Iterator[Score]:
    """Score new probes of another property after an erasure against an equal subspace."""
    results = [
        cross_fit_probes(rows.filter(pl.col("kind") == kind), examples, template.seed) for kind in READ
    ]
    if any(result is None for result in results):
        return
    (gold, clusters, predictions), (_, _, control_predictions) = (
        result for result in results if result is not None
    )
    accuracy = dataclasses.replace(template, metric="accuracy")
    fields = [{"layer": layer + step} for step in range(len(predictions))]
    yield from mean_rows(accuracy, predictions == gold, clusters, fields)
    yield from mean_rows(
        dataclasses.replace(accuracy, control=WIDE), control_predictions == gold, clusters, fields
    )
    for step, (layer_predictions, layer_controls) in enumerate(
        zip(predictions, control_predictions, strict=True)
    ):
        gain = dataclasses.replace(template, metric="gain", control=WIDE, layer=layer + step)
        yield from trained_rows(gain, layer_predictions == gold, clusters, baseline=layer_controls == gold)
