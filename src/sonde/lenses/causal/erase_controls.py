"""Last stage of erasure: each property at its chosen layer, compared with all draws of its controls.

All numbers are of the test split. The stage also measures the effect of an erasure on downstream attention:
whether heads still hit the relations that they follow. For each relation it reads the head that
`sonde.lenses.causal.ablate` has chosen, if that head lies after the erased layer, and compares with the
erasure of a subspace of equal width.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from sonde.capture.requests import Changed, ItemCapture, Pass, Plain, Prepared
from sonde.lenses.causal.ablate import (
    build_lookups,
    collect_edges,
    request_edges,
    select_followed_heads,
)
from sonde.lenses.causal.effects import (
    ANSWERS,
    BEST,
    DIFFERENCE,
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


HIT_LOSS, EXCESS = "hits_lost", "hits_excess"
"""Metrics: the share of edges that heads hit with nothing changed less that with something erased; and by how
much more that is than with a matched subspace."""


RELATION = "relation"


FEWEST_EDGES = 30
"""Minimum number of edges for a row of a relation."""


def find_following_heads(fits: FittedInterventions) -> dict[str, tuple[int, int]]:
    """Return the layer and head that follow each relation."""
    return {
        intervention.subject: (intervention.layer, intervention.heads[0])
        for intervention in select_followed_heads(fits)
    }


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
    fields: dict[str, object] = {}
    if change is not None:
        fields = {
            "method": change.method, "subject": change.subject, "kind": change.kind, "layer": change.layer,
        }  # fmt: skip
    for relation, (layer, head) in heads.items():
        edge_numbers = [number for number, name in enumerate(relations) if name == relation]
        if edge_numbers and (change is None or layer >= change.layer):
            hits = int((side.ranks[layer, head, edge_numbers, 0] == 1).sum())
            rows.add(item_id=item, what=HIT, group=relation, n=len(edge_numbers), hits=hits, **fields)


def score_downstream_heads(
    scoring: ScoringContext, task: str, erasure_kind: str, splits: Mapping[str, str], template: Score
) -> Iterator[Score]:
    """Score the edges that heads lose on test, over all relations by layer and of each relation.

    Args:
        scoring: With the rows of `add_hits`.
        task: The property that is erased.
        erasure_kind: The kind of its intervention.
        splits: Of the functions.
        template: What the scores share.
    """
    hits = scoring.observations.filter(pl.col("what") == HIT).collect()
    rows = join_splits(hits, scoring, splits).filter(pl.col("split") == "test")
    plain_rows = rows.filter(pl.col("method").is_null()).select("item_id", "group", before="hits")
    erased_rows = rows.filter(pl.col("subject") == task).with_columns(kind=CONTROL)
    if plain_rows.is_empty() or erased_rows.is_empty():
        return
    keys = ["item_id", "cluster", "group", "layer", "n"]
    hit_rows = erased_rows.pivot("kind", index=keys, values="hits").join(plain_rows, on=["item_id", "group"])
    controls = [name for name in hit_rows.columns if name not in (*keys, "before", erasure_kind)]
    metrics = [_mean_loss(erasure_kind, None), *(_mean_loss(name, name) for name in controls)]
    metrics += [mean_change(EXCESS, pl.col(name) - pl.col(erasure_kind), name) for name in controls]
    yield from means(hit_rows, metrics, template, columns=("layer",))
    yield from means(
        hit_rows, metrics, template, by={RELATION: pl.col("group")}, columns=("layer",), minimum=FEWEST_EDGES,
        size=pl.col("n"),
    )  # fmt: skip


def _mean_loss(kind: str, control: str | None) -> Mean:
    return mean_change(HIT_LOSS, pl.col("before") - pl.col(kind), control)


COMPANION = "with"
"""Dimension: what labels of functions are erased together with."""


OVERLAP, REALISED = "overlap", "realised_change"
"""Metrics of subspaces: mean squared canonical correlation of two draws, and mean squared change of states at
the places where the map is applied, over that of the property's own map."""


DISPLACEMENT = "moved"
"""What rows of squared changes are."""


READ = (LEACE, format_draw(WIDE))
"""Kinds of changes after which states and heads are read."""


MINIMUM_SUBWORDS = 30
"""Minimum number of a construct's subwords, on validation and on test, for a row of it."""


def effect_requests(
    fits: FittedInterventions,
    prepared_items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request the surprisal of measured functions with every draw, and states downstream of erasures."""
    changes = build_interventions(fits, prepared_items, labels)
    items_by_split = {
        split: frozenset(item for item in fits.measured_items if fits.splits[item] == split)
        for split in ("valid", "test")
    }
    passes = surprisal_requests(prepared_items, changes, items_by_split["test"])
    # Where an erasure costs the most is chosen on validation.
    locating_changes = {
        intervention.name: changes[intervention.name]
        for intervention in fits.for_method(NAME)
        if intervention.name in changes and intervention.control in (LEACE, WIDE)
    }
    passes += surprisal_requests(prepared_items, locating_changes, items_by_split["valid"])
    passes.append(
        request_unmodified_states(
            fits,
            prepared_items,
            changes,
            tuple(sorted({intervention.layer for intervention in fits.for_method(NAME)})),
        )
    )
    heads, attention = find_following_heads(fits), request_edges(prepared_items, labels)
    if heads:
        passes.append(Pass(Plain(), (attention,), items=fits.measured_items))
    downstream_states = request_downstream_states(fits, prepared_items, labels)
    for intervention in fits.for_method(NAME):
        if intervention.kind in READ and intervention.name in changes:
            variant = Changed(Plain(), changes[intervention.name], intervention.name)
            # Heads that follow a relation read states downstream of the erasure.
            if any(layer >= intervention.layer for layer, _ in heads.values()):
                passes.append(Pass(variant, (attention,), items=fits.measured_items))
            passes.append(Pass(variant, (downstream_states,), items=fits.held_out_functions))
    return passes


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add effects, displacements of states, and states and heads downstream of interventions."""
    edges, heads = collect_edges(labels), find_following_heads(fits)
    changes = build_interventions(fits, [captured_item.prepared for captured_item in captured_items], labels)
    read_interventions = [intervention for intervention in fits.for_method(NAME) if intervention.kind in READ]
    for captured_item in captured_items:
        item, by_change = captured_item.prepared.item.item_id, group_captures(captured_item)
        add_downstream_states(rows, captured_item.prepared, by_change, read_interventions, labels)
        if item not in fits.measured_items:
            continue
        lookups = build_lookups(captured_item.prepared, edges.get(item, ())) if heads else None
        for intervention in (None, *read_interventions) if lookups else ():
            captures = by_change.get("" if intervention is None else intervention.name, [])
            add_hits(rows, item, lookups[1] if lookups else (), captures, heads, intervention)
        names, group = assign_constructs(captured_item.prepared)
        add_effects(rows, item, fits.for_method(NAME), by_change, (names, [group]))
        _add_displacements(
            rows,
            item,
            find_applied_positions(captured_item.prepared, changes, fits),
            by_change.get("", ()),
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
    states = collect_unmodified_states(positions_by_task, captures)
    layers = sorted({intervention.layer for intervention in fits.for_method(NAME)})
    for intervention in fits.for_method(NAME):
        if intervention.subject not in states or intervention.control not in (LEACE, UNIFORM, WIDE):
            continue
        assert intervention.eraser is not None
        positions, original = (
            positions_by_task[intervention.subject],
            states[intervention.subject][layers.index(intervention.layer)].astype(np.float64),
        )
        displacement = (
            float(((original - intervention.eraser(original)) ** 2).sum())
            * positions.total
            / len(positions.read)
        )
        rows.add(
            item_id=item, what=DISPLACEMENT, method=NAME, subject=intervention.subject,
            kind=intervention.kind, layer=intervention.layer, n=positions.total, after=displacement,
        )  # fmt: skip


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Yield the scores of properties that are compared with all draws of their controls."""
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
        layer_template = dataclasses.replace(template, dimensions=())
        yield from _constructs(task_effects, layer_template)
        yield from _subspaces(fits, scoring, task, template)
        yield from score_downstream_heads(scoring, task, LEACE, fits.splits, layer_template)
        downstream_rows = rows.filter((pl.col("subject") == task) & (pl.col("layer") == layer))
        for other_task, other_examples in examples.items():
            if other_task != task:
                other_template = dataclasses.replace(layer_template, task=other_task).within(
                    (ERASED, str(layer)), (ERASED_PROPERTY, task)
                )
                yield from _score_other_property(downstream_rows, other_examples, other_template, layer)


def _score_excess(effects: pl.DataFrame, template: Score, metrics: EffectMetrics) -> Iterator[Score]:
    """Yield what each control costs on test, and by how much the property exceeds it."""
    test = effects.filter(pl.col("split") == "test")
    # What the property costs alone is known of every layer, this one among them.
    _, *control_means = effect_means(test, LEACE, metrics, controls(template.task))
    yield from means(test, control_means, template)


def _with_surface(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Yield the cost of labels of functions with the surface, and its excess over permuted labels."""
    test = effects.filter(pl.col("split") == "test")
    if SURFACE in test.columns and test[SURFACE].is_not_null().any():
        metrics = [
            dataclasses.replace(metric, fields={"control": PERMUTED if metric.fields["control"] else None})
            for metric in effect_means(test, SURFACE, control_names=(PERMUTED_SURFACE,))
        ]
        yield from means(test, metrics, template.within((COMPANION, SURFACE)))


def _constructs(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Yield effects by construct on test, and the excess where the effect is largest on validation."""
    if WIDE not in effects.columns:
        return
    valid, test = (effects.filter(pl.col("split") == split) for split in ("valid", "test"))
    score_means = functools.partial(
        means, by={"construct": pl.col("group")}, minimum=MINIMUM_SUBWORDS, size=pl.col("n")
    )
    yield from score_means(test, effect_means(test, LEACE, control_names=(WIDE,)), template)
    valid_scores = list(score_means(valid, [excess_over_control(effects, LEACE, WIDE)], template))
    if not valid_scores:
        return
    largest = dict(max(valid_scores, key=lambda score: score.value).dimensions)["construct"]
    location = pl.when(pl.col("group") == largest).then(pl.lit("here")).otherwise(pl.lit("elsewhere"))
    difference = [excess_over_control(effects, LEACE, WIDE, DIFFERENCE)]
    best_template = template.within(BEST, ("construct", largest))
    yield from mean_differences(
        test.with_columns(where=location), difference, best_template, ("where", "here", "elsewhere")
    )


def _subspaces(
    fits: FittedInterventions, scoring: ScoringContext, task: str, template: Score
) -> Iterator[Score]:
    """Yield the overlap of draws of subspaces, and their displacement relative to the property's map."""
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
            Eraser(*(part.astype(np.float64) for part in dataclasses.astuple(intervention.eraser)))
            for intervention in fits.for_method(NAME)
            if intervention.subject == task
            and intervention.control == kind
            and intervention.eraser is not None
        ]
        if not erasers:
            continue
        kind_template = dataclasses.replace(template, control=kind)
        yield dataclasses.replace(
            kind_template, metric=OVERLAP, value=subspace_overlap(erasers), n=len(erasers), n_clusters=0
        )
        if kind in displacements.columns:
            fields = {"control": kind}
            ratio = Mean(REALISED, pl.col(kind), "nonnegative", per=pl.col(LEACE), fields=fields)
            for ratio_score in means(displacements, [ratio], template):
                # What is counted are functions, not what their states are moved by.
                yield dataclasses.replace(ratio_score, n=displacements.height, contributions=None)


def _score_other_property(
    downstream_rows: pl.DataFrame, examples: PropertyExamples, template: Score, layer: int
) -> Iterator[Score]:
    """Yield new probes' accuracy on another property after an erasure, and the loss against a subspace."""
    tests = [
        cross_fit_probes(downstream_rows.filter(pl.col("kind") == kind), examples, template.seed)
        for kind in READ
    ]
    if any(test is None for test in tests):
        return
    (gold, clusters, predicted), (_, _, control_predicted) = (test for test in tests if test is not None)
    accuracy = dataclasses.replace(template, metric="accuracy")
    fields = [{"layer": layer + offset} for offset in range(len(predicted))]
    yield from mean_rows(accuracy, predicted == gold, clusters, fields)
    yield from mean_rows(
        dataclasses.replace(accuracy, control=WIDE), control_predicted == gold, clusters, fields
    )
    for offset, (layer_predicted, layer_control_predicted) in enumerate(
        zip(predicted, control_predicted, strict=True)
    ):
        gain = dataclasses.replace(template, metric="gain", control=WIDE, layer=layer + offset)
        yield from trained_rows(
            gain, layer_predicted == gold, clusters, baseline=layer_control_predicted == gold
        )
