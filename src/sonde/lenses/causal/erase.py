"""Erasure of a property from the states of a layer (amnesic probing), with probes and scores by layer.

After LEACE no linear classifier finds the property in the states that it was fitted to (Belrose et al. 2023).
The model uses the erased information from that layer on if its surprisal rises by more than after erasing
labels that say nothing, and by more than after removing meaningless subspaces (Elazar et al. 2021).

Every layer is tried first, with a few draws of the controls on validation, which chooses one layer. A
property that a probe surely finds there is then compared on test with all draws of its controls
(`sonde.lenses.causal.erase_controls`); for a property that no probe finds, these could decide nothing.

Probes measure how well a property is decoded with nothing erased, and after an erasure that was fitted to
other functions than theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.capture.interventions import Change
from sonde.capture.requests import Changed, HiddenStates, ItemCapture, Pass, Plain, Prepared
from sonde.lenses.causal.ablate import HEADS
from sonde.lenses.causal.ablate import NAME as ABLATE
from sonde.lenses.causal.effects import (
    ANSWERS,
    SURPRISAL,
    add_effects,
    assign_constructs,
    baseline_scores,
    best_layer_scores,
    compute_effects,
    group_captures,
    layer_scores,
    select_layer,
    surprisal_requests,
)
from sonde.lenses.causal.erase_maps import (
    CONTROL_TASK,
    LABEL_DRAWS,
    LEACE,
    NAME,
    SAMPLE_SIZE,
    SCREENING_DRAWS,
    SUBSPACE_DRAWS,
    Place,
    PropertyExamples,
    collect_labelled_tokens,
    controls,
    erased_properties,
    fit_screening_maps,
    fit_selected_maps,
    is_function_property,
    join_states,
    number_classes,
    sample_spans,
    unfitted_reason,
)
from sonde.lenses.causal.findings import NOTICEABLE, is_surely_positive
from sonde.lenses.causal.interventions import (
    FittedIntervention,
    FittedInterventions,
    RowBuilder,
    split_items,
    unpack_states,
)
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ScoringContext
from sonde.lenses.engine.observations import find_overlapping_subwords
from sonde.results import left_out, mean_rows, trained_rows
from sonde.results.schema import SELECTION
from sonde.results.scores import Score
from sonde.stats.verdict import MIN_SEEDS
from sonde.training.probes.control_tasks import sample_control_labels
from sonde.training.probes.splits import Splits, make_grouped_folds

MAXIMUM_POSITIONS = 64
"""Subwords of a function, and property, whose states say how wide directions are where it is erased."""


def find_subword_spans(item: Prepared, spans: Sequence[Place]) -> dict[Place, tuple[int, int]]:
    """Find the subwords of spans; spans without any are left out."""
    if not spans:
        return {}
    first, stop = find_overlapping_subwords(spans, item.alignment.subwords)
    bounds = zip(spans, first.tolist(), stop.tolist(), strict=True)
    return {span: (begin, end) for span, begin, end in bounds if end > begin}


def _subwords(function: Prepared) -> list[int]:
    """Sample subwords that stand for all of a function."""
    size, item_id = len(function.alignment.subwords), function.item.item_id
    return sorted(
        sorted(range(size), key=lambda position: unit_hash("subword", item_id, position))[:SAMPLE_SIZE]
    )


def select_tokens(
    function: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]
) -> dict[Place, tuple[int, int]]:
    """Select the tokens of a function whose states are read, with their subwords."""
    item_id = function.item.item_id
    spans = {
        span
        for spans_by_item in tokens.values()
        for span in sample_spans(item_id, spans_by_item.get(item_id, ()))
    }
    return find_subword_spans(function, sorted(spans))


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """Describe how many properties are erased, and their controls."""
    count = len(erased_properties(labels))
    if not count:
        return ""
    return (
        f"at every layer {count} propert{'y is' if count == 1 else 'ies are'} erased, on validation beside "
        f"{SCREENING_DRAWS} draws of each control; at one layer each, on test, beside {LABEL_DRAWS} draws of "
        f"labels of each kind and {SUBSPACE_DRAWS} uniform and {SUBSPACE_DRAWS} as wide subspaces"
    )


def fit_requests(
    items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """States of every layer: of functions, of their tokens and of some of their subwords."""
    tokens = collect_labelled_tokens(labels)
    spans = {item.item.item_id: tuple(_first_spans(item, tokens)) for item in items}
    return [Pass(Plain(), (HiddenStates(pooling=("mean", "spans"), spans=spans),))]


def _first_spans(item: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]) -> list[Place]:
    spans = select_tokens(item, tokens).values()
    parts = [(position, position + 1) for span in spans for position in range(*span)]
    single = [(position, position + 1) for position in _subwords(item)]
    return list(dict.fromkeys((*spans, *parts, *single)))


def add_fit_rows(
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add the rows of these states."""
    tokens = collect_labelled_tokens(labels)
    for function in captured_items:
        _add_plain(rows, function, tokens, {})


def _add_plain(
    rows: RowBuilder,
    function: CapturedItem,
    tokens: Mapping[str, Mapping[str, tuple[Place, ...]]],
    positions_by_task: Mapping[str, AppliedPositions],
) -> None:
    """Add states with nothing changed: of a function, its tokens, some subwords, and where it is erased."""
    item_id, size = function.prepared.item.item_id, len(function.prepared.alignment.subwords)
    capture = next(
        (
            item_capture
            for item_capture in function.captures
            if not item_capture.change and "mean" in item_capture.states
        ),
        None,
    )
    if capture is None:
        return
    # What is asked of one input in several passes is answered at once.
    spans = dict.fromkeys((*_first_spans(function.prepared, tokens), *_to_spans(positions_by_task)))
    states = dict(zip(spans, capture.states["spans"].transpose(1, 0, 2), strict=True))
    rows.add_states(capture.states["mean"], item_id=item_id, what="mean", first=0)
    for (start, end), span in select_tokens(function.prepared, tokens).items():
        columns = {"item_id": item_id, "start": start, "end": end, "first": 0}
        rows.add_states(states[span], what="token", **columns)
        for position in range(*span) if span[1] - span[0] > 1 else ():
            rows.add_states(states[position, position + 1], what="part", **columns)
    states_to_add = [("subword", None, size, position) for position in _subwords(function.prepared)]
    states_to_add += [
        ("place", task, task_positions.total, position)
        for task, task_positions in positions_by_task.items()
        for position in task_positions.read
    ]
    for row_type, task, total, position in states_to_add:
        rows.add_states(
            states[position, position + 1],
            item_id=item_id,
            what=row_type,
            subject=task,
            start=position,
            end=position + 1,
            first=0,
            n=total,
        )


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """Fit the maps of every property and layer on the training split, and some controls."""
    return fit_screening_maps(scoring, splits, split_items(scoring)[1])


def build_interventions(
    fits: FittedInterventions, items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> dict[str, tuple[Change, ...]]:
    """Build the change of each map: at the tokens of a token property, else at all subwords."""
    positions: dict[str, dict[str, tuple[int, ...]] | None] = {}
    for task in erased_properties(labels):
        positions[task] = None
        if not is_function_property(task):
            spans = collect_labelled_tokens({task: labels[task]})[task]
            positions[task] = {
                item.item.item_id: tuple(
                    sorted({position for span in item_spans.values() for position in range(*span)})
                )
                for item in items
                if (item_spans := find_subword_spans(item, spans.get(item.item.item_id, ())))
            }
    return {
        intervention.name: (
            Change(intervention.layer, intervention.affine, positions=positions[intervention.subject]),
        )
        for intervention in fits.for_method(NAME)
        if intervention.subject in positions
    }


def effect_requests(
    fits: FittedInterventions,
    items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request the first pass again, surprisal with every property erased, and later states.

    Draws of controls choose a layer, so that they are read on validation alone; states behind an erasure are
    read of functions that no map was fitted to.
    """
    changes = build_interventions(fits, items, labels)
    erasures = {
        intervention.name: changes[intervention.name]
        for intervention in fits.for_method(NAME)
        if intervention.kind == LEACE and intervention.name in changes
    }
    control_changes = {name: change for name, change in changes.items() if name not in erasures}
    valid = frozenset(item for item in fits.measured if fits.splits[item] == "valid")
    passes = fit_requests(items, labels, settings)
    passes.append(request_unmodified_states(fits, items, changes))
    passes += surprisal_requests(items, erasures, fits.measured)
    passes += [
        effect_pass
        for effect_pass in surprisal_requests(items, control_changes, valid)
        if isinstance(effect_pass.variant, Changed)
    ]
    downstream = request_downstream_states(fits, items, labels)
    passes += [
        Pass(Changed(Plain(), change, name), (downstream,), items=fits.held_out_functions)
        for name, change in erasures.items()
    ]
    return passes


class AppliedPositions(NamedTuple):
    """Subwords of a function at which a property is erased: how many there are, and those that are read."""

    total: int
    read: tuple[int, ...]


def find_applied_positions(
    function: Prepared, changes: Mapping[str, tuple[Change, ...]], fits: FittedInterventions
) -> dict[str, AppliedPositions]:
    """Find the positions of a function at which each property is erased, if any."""
    item_id, size = function.item.item_id, len(function.alignment.subwords)
    positions_by_task: dict[str, AppliedPositions] = {}
    for intervention in fits.for_method(NAME):
        if (
            intervention.kind == LEACE
            and intervention.name in changes
            and intervention.subject not in positions_by_task
        ):
            (change,) = changes[intervention.name]
            positions = range(size) if change.positions is None else change.positions.get(item_id, ())
            sample = sorted(positions, key=lambda position: unit_hash("place", item_id, position))[
                :MAXIMUM_POSITIONS
            ]
            if sample:
                positions_by_task[intervention.subject] = AppliedPositions(
                    len(positions), tuple(sorted(sample))
                )
    return positions_by_task


def _to_spans(positions_by_task: Mapping[str, AppliedPositions]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (position, position + 1)
        for position in sorted(
            {position for task_positions in positions_by_task.values() for position in task_positions.read}
        )
    )


def request_unmodified_states(
    fits: FittedInterventions,
    items: Sequence[Prepared],
    changes: Mapping[str, tuple[Change, ...]],
    layers: tuple[int, ...] | None = None,
) -> Pass:
    """States of measured functions, with nothing changed, where properties are erased."""
    spans = {
        item.item.item_id: _to_spans(find_applied_positions(item, changes, fits))
        for item in items
        if item.item.item_id in fits.measured
    }
    return Pass(Plain(), (HiddenStates(layers=layers, pooling=("spans",), spans=spans),), items=fits.measured)


def collect_unmodified_states(
    positions_by_task: Mapping[str, AppliedPositions], captures: Sequence[ItemCapture]
) -> dict[str, Float[np.ndarray, "layer place d_model"]]:
    """Collect the states of each property that `request_unmodified_states` asks for."""
    capture = next((capture for capture in captures if list(capture.states) == ["spans"]), None)
    if capture is None:
        return {}
    order = {start: index for index, (start, _) in enumerate(_to_spans(positions_by_task))}
    return {
        task: capture.states["spans"][:, [order[index] for index in task_positions.read]]
        for task, task_positions in positions_by_task.items()
    }


def request_downstream_states(
    fits: FittedInterventions, items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> HiddenStates:
    """States of functions that no map was fitted to, and of their tokens."""
    tokens = collect_labelled_tokens(labels)
    spans = {
        item.item.item_id: tuple(select_tokens(item, tokens).values())
        for item in items
        if item.item.item_id in fits.held_out_functions
    }
    return HiddenStates(pooling=("mean", "spans"), spans=spans)


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add states as they are, what changed, and states behind erasures."""
    changes, tokens = (
        build_interventions(fits, [function.prepared for function in captured_items], labels),
        collect_labelled_tokens(labels),
    )
    for function in captured_items:
        captures, has_effects = group_captures(function), function.prepared.item.item_id in fits.measured
        _add_plain(
            rows,
            function,
            tokens,
            find_applied_positions(function.prepared, changes, fits) if has_effects else {},
        )
        add_downstream_states(
            rows,
            function.prepared,
            captures,
            [intervention for intervention in fits.for_method(NAME) if intervention.kind == LEACE],
            labels,
        )
        if has_effects:
            names, group = assign_constructs(function.prepared)
            add_effects(
                rows, function.prepared.item.item_id, fits.for_method(NAME), captures, (names, [group])
            )


def add_downstream_states(
    rows: RowBuilder,
    function: Prepared,
    captures: Mapping[str, Sequence[ItemCapture]],
    fits: Sequence[FittedIntervention],
    labels: Mapping[str, pl.DataFrame],
) -> None:
    """Add states behind changes, where they were read."""
    item_id = function.item.item_id
    token_spans = select_tokens(function, collect_labelled_tokens(labels))
    for intervention in fits:
        capture = next(
            (capture for capture in captures.get(intervention.name, ()) if "mean" in capture.states), None
        )
        if capture is None:
            continue
        columns = {
            "item_id": item_id,
            "method": NAME,
            "subject": intervention.subject,
            "kind": intervention.kind,
        }
        columns |= {"layer": intervention.layer, "first": intervention.layer}
        spans = capture.states["spans"].transpose(1, 0, 2) if token_spans else []
        for (start, end), states in zip(token_spans, spans, strict=True):
            rows.add_states(states[intervention.layer :], what="token", start=start, end=end, **columns)
        rows.add_states(capture.states["mean"][intervention.layer :], what="mean", **columns)


MAJORITY = "majority"


BEST, AT_ERASED = (SELECTION, "best"), (SELECTION, "erased")
"""Dimensions: at the layer where a probe is best, and at the one where the property is erased."""


ERASED, ERASED_PROPERTY, NO_ERASURE = "erased", "erased_property", "nothing"
"""Dimensions of what probes find behind an erasure: its layer, or nothing; and whose it is, where that is
another property's."""


FOLDS = 4
"""Folds of the functions that no map was fitted to: two train a probe, one chooses, one is tested."""


_Test = tuple[Int[np.ndarray, " test"], np.ndarray, Int[np.ndarray, "layer test"]]
"""Classes of the tested examples, their clusters, and what the probe of each layer says."""


def score_probes(
    rows: pl.DataFrame, examples: PropertyExamples, template: Score, layer: int | None
) -> Iterator[Score]:
    """Score probes without erasure, beside the commonest class and a class per word.

    Args:
        rows: States of functions and tokens.
        examples: The examples.
        template: What the scores share.
        layer: Where the property is erased; None for nowhere.
    """
    from sonde.training.probes.linear import probe_without_checks

    task = examples.task
    plain = join_states(task, examples.frame, rows.filter(pl.col("method").is_null()))
    parts, labels = Splits.from_names(plain["split"].to_list()), number_classes(plain, examples.classes)
    if any(not len(part) for part in (parts.train, parts.valid, parts.test)):
        yield left_out(template, f"{task}: a part of the functions has no example, so that nothing is probed")
        return
    states, clusters = unpack_states(plain), plain["cluster"].to_numpy()[parts.test]
    count, gold = len(examples.classes), labels[parts.test]
    (probes,) = probe_without_checks(states, labels[None], count, parts)
    layers = range(len(states))
    accuracy = dataclasses.replace(template, metric="accuracy")
    yield from mean_rows(
        accuracy, probes.predicted == gold, clusters, [{"layer": layer_number} for layer_number in layers]
    )
    common = gold == int(np.bincount(labels[parts.train], minlength=count).argmax())
    yield from mean_rows(dataclasses.replace(accuracy, control=MAJORITY), common[None], clusters, [{}])
    gain = dataclasses.replace(template, metric="gain", control=MAJORITY)
    for probed_layer, dimension in ((probes.best, BEST), (layer, AT_ERASED)):
        if probed_layer is not None:
            own = dataclasses.replace(gain, layer=probed_layer).within(dimension)
            yield from trained_rows(own, probes.predicted[probed_layer] == gold, clusters, baseline=common)
    if layer is None or is_function_property(task):
        return
    words = dataclasses.replace(examples, frame=plain).words
    seeds = [derive_seed("control task", template.seed, number) % 2**63 for number in range(MIN_SEEDS)]
    control_sets = np.stack([sample_control_labels(words, labels, seed) for seed in seeds])
    control_probes = probe_without_checks(states[layer][None], control_sets, count, parts)
    right = np.stack(
        [
            probe.predicted[0] == control_labels[parts.test]
            for probe, control_labels in zip(control_probes, control_sets, strict=True)
        ]
    )
    own = dataclasses.replace(template, control=CONTROL_TASK, layer=layer, seeds=MIN_SEEDS)
    yield from trained_rows(dataclasses.replace(own, metric="accuracy").within(AT_ERASED), right, clusters)
    yield from trained_rows(
        dataclasses.replace(own, metric="gain").within(AT_ERASED), probes.predicted[layer] == gold, clusters,
        baseline=right,
    )  # fmt: skip


def score_downstream_probes(
    rows: pl.DataFrame, examples: PropertyExamples, template: Score
) -> Iterator[Score]:
    """Score new probes after an erasure, at its layer and later ones, and without one.

    They are trained and tested, fold by fold, on functions that the map was not fitted to: on the others a
    probe is at the commonest class by construction, and what is left would not be seen.
    """
    accuracy = dataclasses.replace(template, metric="accuracy")
    plain = cross_fit_probes(rows.filter(pl.col("method").is_null()), examples, template.seed)
    if plain is None:
        yield left_out(
            template,
            f"{template.task}: functions that no map was fitted to lie in too few clusters, or lack a class, "
            "so that what is left behind an erasure is not probed",
        )
        return
    gold, clusters, predictions = plain
    common = gold == np.bincount(gold).argmax()
    plain_template = accuracy.within((ERASED, NO_ERASURE))
    yield from mean_rows(
        plain_template,
        predictions == gold,
        clusters,
        [{"layer": layer_number} for layer_number in range(len(predictions))],
    )
    yield from mean_rows(dataclasses.replace(plain_template, control=MAJORITY), common[None], clusters)
    erased_rows = rows.filter((pl.col("subject") == template.task) & (pl.col("kind") == LEACE))
    for layer in sorted(set(erased_rows["layer"].to_list())):
        result = cross_fit_probes(erased_rows.filter(pl.col("layer") == layer), examples, template.seed)
        if result is not None:
            gold, clusters, predictions_after = result
            fields = [{"layer": layer + step} for step in range(len(predictions_after))]
            yield from mean_rows(
                accuracy.within((ERASED, str(layer))), predictions_after == gold, clusters, fields
            )


def cross_fit_probes(rows: pl.DataFrame, examples: PropertyExamples, seed: int) -> _Test | None:
    """Probes of every layer, fold by fold over whole clusters, in functions that no map was fitted to.

    Args:
        rows: States, of one change or of none.
        examples: The examples.
        seed: Deals folds, alike for all states of the same examples.

    Returns:
        None where clusters are too few, or a fold would not learn two classes.
    """
    from sonde.training.probes.linear import probe_without_checks

    unseen = examples.frame.filter(pl.col("split") != "train")
    rows_with_states = join_states(examples.task, unseen, rows)
    if rows_with_states.is_empty():
        return None
    labels, clusters = (
        number_classes(rows_with_states, examples.classes),
        rows_with_states["cluster"].to_numpy(),
    )
    groups = np.unique(clusters.astype(str), return_inverse=True)[1]
    try:
        folds = make_grouped_folds(labels, groups, FOLDS, seed)
    except InputError:
        return None
    if any(len(np.unique(labels[fold.train])) < 2 for fold in folds):
        return None
    states = unpack_states(rows_with_states)
    predictions = np.zeros((len(states), len(labels)), dtype=np.int64)
    for fold in folds:
        (probes,) = probe_without_checks(states, labels[None], len(examples.classes), fold)
        predictions[:, fold.test] = probes.predicted
    return labels, clusters, predictions


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Score every property by layer, and hand on what is tested at one layer."""
    effects, answers = (
        compute_effects(scoring, NAME, fits.splits, metrics) for metrics in (SURPRISAL, ANSWERS)
    )
    fitted_tasks = {intervention.subject for intervention in fits.for_method(NAME)}
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    texts = dict(scoring.texts.collect().iter_rows())
    scores: list[Score] = []
    for task in erased_properties(scoring.labels):
        template = dataclasses.replace(scoring.template, task=task, split="test", method=NAME)
        examples = PropertyExamples.from_labels(task, scoring, fits.splits, texts)
        if task not in fitted_tasks:
            plain = rows.filter(pl.col("method").is_null())
            scores.append(left_out(template, unfitted_reason(examples.select("train", plain), plain)))
            continue
        of_task = pl.col("subject") == task
        if effects.filter(of_task).is_empty():
            scores.append(left_out(template, "no function of validation or test was read with a change"))
            continue
        costs = [
            *baseline_scores(effects.filter(of_task), template),
            *layer_scores(effects.filter(of_task), LEACE, template, order=controls(task)),
        ]
        answer_scores = layer_scores(answers.filter(of_task), LEACE, template, ANSWERS)
        layer = select_layer(costs, NOTICEABLE)
        scores += [
            *costs,
            *answer_scores,
            *best_layer_scores(costs, layer),
            *best_layer_scores(answer_scores, layer),
        ]
        scores += score_probes(rows, examples, template, layer)
        scores += score_downstream_probes(rows, examples, template)
    yield from scores
    if layers := select_test_layers(scores):
        head_interventions = [
            dataclasses.replace(intervention, values=None, marks=())
            for intervention in fits.for_method(ABLATE)
            if intervention.kind == HEADS and not intervention.together
        ]
        fits_of_stage = (*fit_selected_maps(scoring, fits.splits, fits.measured, layers), *head_interventions)
        scoring.stage_result.append(FittedInterventions(fits_of_stage, fits.splits, fits.measured).frame())


def select_test_layers(scores: Iterable[Score]) -> dict[str, int]:
    """Select the layer of each property at which a probe surely finds it."""
    gains: dict[str, dict[str | None, Score]] = {}
    for score in scores:
        if score.method == NAME and score.metric == "gain" and score.dimensions == (AT_ERASED,):
            gains.setdefault(str(score.task), {})[score.control] = score
    layers: dict[str, int] = {}
    for task, task_gains in gains.items():
        control_names = [MAJORITY] if is_function_property(task) else [MAJORITY, CONTROL_TASK]
        if all(name in task_gains and is_surely_positive(_row(task_gains[name])) for name in control_names):
            layers[task] = int(task_gains[MAJORITY].layer or 0)
    return layers


def _row(score: Score) -> dict[str, Any]:
    return {field.name: getattr(score, field.name) for field in dataclasses.fields(score)}
