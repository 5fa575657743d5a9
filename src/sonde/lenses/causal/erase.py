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
from sonde.base.fingerprint import derive_seed
from sonde.capture.interventions import Change
from sonde.capture.requests import Changed, HiddenStates, ItemCapture, Pass, Plain, Prepared
from sonde.lenses.causal.ablate import select_followed_heads
from sonde.lenses.causal.effects import (
    ANSWERS,
    BEST,
    SURPRISAL,
    add_effects,
    assign_constructs,
    baseline_scores,
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
    PropertyExamples,
    Span,
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
    sample_positions,
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

READ_SUBWORDS = 64
"""Subwords of a function, and property, whose states say how wide directions are where it is erased."""


def find_subword_spans(prepared_item: Prepared, spans: Sequence[Span]) -> dict[Span, tuple[int, int]]:
    """Return the subwords of each span of characters, without spans that have none."""
    if not spans:
        return {}
    first, stop = find_overlapping_subwords(spans, prepared_item.alignment.subwords)
    subword_spans = zip(spans, first.tolist(), stop.tolist(), strict=True)
    return {span: (start, end) for span, start, end in subword_spans if end > start}


def select_tokens(
    prepared_item: Prepared, tokens: Mapping[str, Mapping[str, tuple[Span, ...]]]
) -> dict[Span, tuple[int, int]]:
    """Sample the tokens of a function whose states are read, with their subwords."""
    item = prepared_item.item.item_id
    spans = {
        span for spans_by_item in tokens.values() for span in sample_spans(item, spans_by_item.get(item, ()))
    }
    return find_subword_spans(prepared_item, sorted(spans))


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """Describe how many properties are erased, and how many controls each has."""
    count = len(erased_properties(labels))
    if not count:
        return ""
    return (
        f"at every layer {count} propert{'y is' if count == 1 else 'ies are'} erased on validation, with "
        f"{SCREENING_DRAWS} draws of each control; at one layer each on test, with {LABEL_DRAWS} draws of "
        f"each kind of labels, {SUBSPACE_DRAWS} of uniform and {SUBSPACE_DRAWS} of matched subspaces"
    )


def fit_requests(
    prepared_items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Request states of every layer: of functions, of their tokens and of some of their subwords."""
    tokens = collect_labelled_tokens(labels)
    spans = {
        prepared_item.item.item_id: tuple(_first_spans(prepared_item, tokens))
        for prepared_item in prepared_items
    }
    return [Pass(Plain(), (HiddenStates(pooling=("mean", "spans"), spans=spans),))]


def _first_spans(prepared_item: Prepared, tokens: Mapping[str, Mapping[str, tuple[Span, ...]]]) -> list[Span]:
    spans = select_tokens(prepared_item, tokens).values()
    parts = [(position, position + 1) for span in spans for position in range(*span)]
    return list(
        dict.fromkeys((*spans, *parts, *_to_spans(sample_positions("subword", prepared_item, SAMPLE_SIZE))))
    )


def add_fit_rows(
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add states of unmodified functions."""
    tokens = collect_labelled_tokens(labels)
    for captured_item in captured_items:
        _add_plain(rows, captured_item, tokens, {})


def _add_plain(
    rows: RowBuilder,
    captured_item: CapturedItem,
    tokens: Mapping[str, Mapping[str, tuple[Span, ...]]],
    positions_by_task: Mapping[str, AppliedPositions],
) -> None:
    """Add unmodified states: of a function, its tokens, some subwords, and positions of erasure."""
    item, size = captured_item.prepared.item.item_id, len(captured_item.prepared.alignment.subwords)
    capture = next(
        (capture for capture in captured_item.captures if not capture.change and "mean" in capture.states),
        None,
    )
    if capture is None:
        return
    # What is asked of one input in several passes is answered at once.
    first_spans = _first_spans(captured_item.prepared, tokens)
    spans = dict.fromkeys((*first_spans, *_to_spans(_join_positions(positions_by_task))))
    states = dict(zip(spans, capture.states["spans"].transpose(1, 0, 2), strict=True))
    rows.add_states(capture.states["mean"], item_id=item, what="mean", first=0)
    for (start, end), span in select_tokens(captured_item.prepared, tokens).items():
        fields = {"item_id": item, "start": start, "end": end, "first": 0}
        rows.add_states(states[span], what="token", **fields)
        for position in range(*span) if span[1] - span[0] > 1 else ():
            rows.add_states(states[position, position + 1], what="part", **fields)
    subword_rows = [
        ("subword", None, size, position)
        for position in sample_positions("subword", captured_item.prepared, SAMPLE_SIZE)
    ]
    subword_rows += [
        ("place", task, positions.total, position)
        for task, positions in positions_by_task.items()
        for position in positions.read
    ]
    for what, task, total, position in subword_rows:
        rows.add_states(
            states[position, position + 1],
            item_id=item,
            what=what,
            subject=task,
            start=position,
            end=position + 1,
            first=0,
            n=total,
        )


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """Fit the maps of every property and layer on the training split, and a few draws of controls."""
    return fit_screening_maps(scoring, splits, split_items(scoring)[1])


def build_interventions(
    fits: FittedInterventions, prepared_items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> dict[str, tuple[Change, ...]]:
    """Build the intervention of each map: at all tokens of a property of tokens, else at every subword."""
    positions: dict[str, dict[str, tuple[int, ...]] | None] = {}
    for task in erased_properties(labels):
        positions[task] = None
        if not is_function_property(task):
            spans_by_item = collect_labelled_tokens({task: labels[task]})[task]
            positions[task] = {
                prepared_item.item.item_id: tuple(
                    sorted({position for span in subword_spans.values() for position in range(*span)})
                )
                for prepared_item in prepared_items
                if (
                    subword_spans := find_subword_spans(
                        prepared_item, spans_by_item.get(prepared_item.item.item_id, ())
                    )
                )
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
    prepared_items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request the first stage's states, surprisal with every erasure, and downstream states.

    Draws of controls choose a layer, so that they are read on validation alone; states behind an erasure are
    read of functions that no map was fitted to.
    """
    changes = build_interventions(fits, prepared_items, labels)
    erased = {
        intervention.name: changes[intervention.name]
        for intervention in fits.for_method(NAME)
        if intervention.kind == LEACE and intervention.name in changes
    }
    control_changes = {name: item_changes for name, item_changes in changes.items() if name not in erased}
    valid_items = frozenset(item for item in fits.measured_items if fits.splits[item] == "valid")
    passes = fit_requests(prepared_items, labels, settings)
    passes.append(request_unmodified_states(fits, prepared_items, changes))
    passes += surprisal_requests(prepared_items, erased, fits.measured_items)
    passes += [
        request
        for request in surprisal_requests(prepared_items, control_changes, valid_items)
        if isinstance(request.variant, Changed)
    ]
    downstream_states = request_downstream_states(fits, prepared_items, labels)
    passes += [
        Pass(Changed(Plain(), item_changes, name), (downstream_states,), items=fits.held_out_functions)
        for name, item_changes in erased.items()
    ]
    return passes


class AppliedPositions(NamedTuple):
    """Subwords of a function at which a property is erased: their number, and those that are read."""

    total: int
    read: tuple[int, ...]


def find_applied_positions(
    prepared_item: Prepared, changes: Mapping[str, tuple[Change, ...]], fits: FittedInterventions
) -> dict[str, AppliedPositions]:
    """Return, for each property, the positions of a function at which it is erased, if any."""
    item, size = prepared_item.item.item_id, len(prepared_item.alignment.subwords)
    positions_by_task: dict[str, AppliedPositions] = {}
    for intervention in fits.for_method(NAME):
        if (
            intervention.kind == LEACE
            and intervention.name in changes
            and intervention.subject not in positions_by_task
        ):
            (change,) = changes[intervention.name]
            positions = range(size) if change.positions is None else change.positions.get(item, ())
            if positions:
                sampled_positions = sample_positions("place", prepared_item, READ_SUBWORDS, positions)
                positions_by_task[intervention.subject] = AppliedPositions(len(positions), sampled_positions)
    return positions_by_task


def _join_positions(positions_by_task: Mapping[str, AppliedPositions]) -> list[int]:
    return sorted({position for positions in positions_by_task.values() for position in positions.read})


def _to_spans(positions: Iterable[int]) -> tuple[tuple[int, int], ...]:
    return tuple((position, position + 1) for position in positions)


def request_unmodified_states(
    fits: FittedInterventions,
    prepared_items: Sequence[Prepared],
    changes: Mapping[str, tuple[Change, ...]],
    layers: tuple[int, ...] | None = None,
) -> Pass:
    """Request unmodified states of measured functions at positions where properties are erased."""
    spans = {
        prepared_item.item.item_id: _to_spans(
            _join_positions(find_applied_positions(prepared_item, changes, fits))
        )
        for prepared_item in prepared_items
        if prepared_item.item.item_id in fits.measured_items
    }
    return Pass(
        Plain(), (HiddenStates(layers=layers, pooling=("spans",), spans=spans),), items=fits.measured_items
    )


def collect_unmodified_states(
    positions_by_task: Mapping[str, AppliedPositions], captures: Sequence[ItemCapture]
) -> dict[str, Float[np.ndarray, "layer place d_model"]]:
    """Collect, for each property, the states that `request_unmodified_states` requests."""
    capture = next((capture for capture in captures if list(capture.states) == ["spans"]), None)
    if capture is None:
        return {}
    order = _join_positions(positions_by_task)
    return {
        task: capture.states["spans"][:, np.searchsorted(order, positions.read)]
        for task, positions in positions_by_task.items()
    }


def request_downstream_states(
    fits: FittedInterventions, prepared_items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> HiddenStates:
    """Request states of functions that no map was fitted to, and of their tokens."""
    tokens = collect_labelled_tokens(labels)
    spans = {
        prepared_item.item.item_id: tuple(select_tokens(prepared_item, tokens).values())
        for prepared_item in prepared_items
        if prepared_item.item.item_id in fits.held_out_functions
    }
    return HiddenStates(pooling=("mean", "spans"), spans=spans)


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add unmodified states, effects, and downstream states of erasures."""
    changes, tokens = (
        build_interventions(fits, [captured_item.prepared for captured_item in captured_items], labels),
        collect_labelled_tokens(labels),
    )
    for captured_item in captured_items:
        captures, is_measured = (
            group_captures(captured_item),
            captured_item.prepared.item.item_id in fits.measured_items,
        )
        _add_plain(
            rows,
            captured_item,
            tokens,
            find_applied_positions(captured_item.prepared, changes, fits) if is_measured else {},
        )
        add_downstream_states(
            rows,
            captured_item.prepared,
            captures,
            [intervention for intervention in fits.for_method(NAME) if intervention.kind == LEACE],
            labels,
        )
        if is_measured:
            names, group = assign_constructs(captured_item.prepared)
            add_effects(
                rows, captured_item.prepared.item.item_id, fits.for_method(NAME), captures, (names, [group])
            )


def add_downstream_states(
    rows: RowBuilder,
    prepared_item: Prepared,
    captures: Mapping[str, Sequence[ItemCapture]],
    fits: Sequence[FittedIntervention],
    labels: Mapping[str, pl.DataFrame],
) -> None:
    """Add states downstream of interventions, if they were read."""
    item = prepared_item.item.item_id
    token_spans = select_tokens(prepared_item, collect_labelled_tokens(labels))
    for intervention in fits:
        capture = next(
            (capture for capture in captures.get(intervention.name, ()) if "mean" in capture.states), None
        )
        if capture is None:
            continue
        fields = {"item_id": item, "method": NAME, "subject": intervention.subject, "kind": intervention.kind}
        fields |= {"layer": intervention.layer, "first": intervention.layer}
        spans = capture.states["spans"].transpose(1, 0, 2) if token_spans else []
        for (start, end), states in zip(token_spans, spans, strict=True):
            rows.add_states(states[intervention.layer :], what="token", start=start, end=end, **fields)
        rows.add_states(capture.states["mean"][intervention.layer :], what="mean", **fields)


MAJORITY = "majority"


AT_ERASED = (SELECTION, "erased")
"""Dimension: at the layer where the property is erased."""


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
    """Score probes without an erasure, the commonest class and, for tokens, a class per word.

    Args:
        rows: States of functions and tokens.
        examples: The examples.
        template: What the scores share.
        layer: Where the property is erased; None for nowhere.
    """
    from sonde.training.probes.linear import probe_layers

    task = examples.task
    plain = join_states(task, examples.frame, rows.filter(pl.col("method").is_null()))
    parts, labels = Splits.from_names(plain["split"].to_list()), number_classes(plain, examples.classes)
    if any(not len(part) for part in (parts.train, parts.valid, parts.test)):
        yield left_out(template, f"{task}: a part of the functions has no example, so that nothing is probed")
        return
    states, clusters = unpack_states(plain), plain["cluster"].to_numpy()[parts.test]
    count, gold = len(examples.classes), labels[parts.test]
    (probes,) = probe_layers(states, labels[None], count, parts)
    layers = range(len(states))
    accuracy = dataclasses.replace(template, metric="accuracy")
    yield from mean_rows(
        accuracy, probes.predicted == gold, clusters, [{"layer": probe_layer} for probe_layer in layers]
    )
    common = gold == int(np.bincount(labels[parts.train], minlength=count).argmax())
    yield from mean_rows(dataclasses.replace(accuracy, control=MAJORITY), common[None], clusters, [{}])
    gain = dataclasses.replace(template, metric="gain", control=MAJORITY)
    for probe_layer, dimension in ((probes.best, BEST), (layer, AT_ERASED)):
        if probe_layer is not None:
            score_template = dataclasses.replace(gain, layer=probe_layer).within(dimension)
            yield from trained_rows(
                score_template, probes.predicted[probe_layer] == gold, clusters, baseline=common
            )
    if layer is None or is_function_property(task):
        return
    words = dataclasses.replace(examples, frame=plain).words
    seeds = [derive_seed("control task", template.seed, number) % 2**63 for number in range(MIN_SEEDS)]
    control_labels = np.stack([sample_control_labels(words, labels, seed) for seed in seeds])
    control_probes = probe_layers(states[layer][None], control_labels, count, parts)
    is_right = np.stack(
        [
            probe.predicted[0] == draw_labels[parts.test]
            for probe, draw_labels in zip(control_probes, control_labels, strict=True)
        ]
    )
    score_template = dataclasses.replace(template, control=CONTROL_TASK, layer=layer, seeds=MIN_SEEDS)
    yield from trained_rows(
        dataclasses.replace(score_template, metric="accuracy").within(AT_ERASED), is_right, clusters
    )
    yield from trained_rows(
        dataclasses.replace(score_template, metric="gain").within(AT_ERASED),
        probes.predicted[layer] == gold, clusters,
        baseline=is_right,
    )  # fmt: skip


def score_downstream_probes(
    rows: pl.DataFrame, examples: PropertyExamples, template: Score
) -> Iterator[Score]:
    """Score new probes after an erasure, at its layer and later ones, and without an erasure.

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
    gold, clusters, predicted_before = plain
    common = gold == np.bincount(gold).argmax()
    unerased = accuracy.within((ERASED, NO_ERASURE))
    yield from mean_rows(
        unerased,
        predicted_before == gold,
        clusters,
        [{"layer": layer} for layer in range(len(predicted_before))],
    )
    yield from mean_rows(dataclasses.replace(unerased, control=MAJORITY), common[None], clusters)
    erased_rows = rows.filter((pl.col("subject") == template.task) & (pl.col("kind") == LEACE))
    for layer in sorted(set(erased_rows["layer"].to_list())):
        test = cross_fit_probes(erased_rows.filter(pl.col("layer") == layer), examples, template.seed)
        if test is not None:
            gold, clusters, predicted_after = test
            fields = [{"layer": layer + offset} for offset in range(len(predicted_after))]
            yield from mean_rows(
                accuracy.within((ERASED, str(layer))), predicted_after == gold, clusters, fields
            )


def cross_fit_probes(rows: pl.DataFrame, examples: PropertyExamples, seed: int) -> _Test | None:
    """Train probes of every layer, fold by fold over whole clusters, on functions without a fitted map.

    Args:
        rows: States, of one change or of none.
        examples: The examples.
        seed: Deals folds, alike for all states of the same examples.

    Returns:
        None where clusters are too few, or a fold would not learn two classes.
    """
    from sonde.training.probes.linear import probe_layers

    test_examples = examples.frame.filter(pl.col("split") != "train")
    state_rows = join_states(examples.task, test_examples, rows)
    if state_rows.is_empty():
        return None
    labels, clusters = number_classes(state_rows, examples.classes), state_rows["cluster"].to_numpy()
    groups = np.unique(clusters.astype(str), return_inverse=True)[1]
    try:
        folds = make_grouped_folds(labels, groups, FOLDS, seed)
    except InputError:
        return None
    if any(len(np.unique(labels[fold.train])) < 2 for fold in folds):
        return None
    states = unpack_states(state_rows)
    predictions = np.zeros((len(states), len(labels)), dtype=np.int64)
    for fold in folds:
        (probes,) = probe_layers(states, labels[None], len(examples.classes), fold)
        predictions[:, fold.test] = probes.predicted
    return labels, clusters, predictions


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Yield the scores of every property by layer; write what is tested at one layer."""
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
        is_task = pl.col("subject") == task
        if effects.filter(is_task).is_empty():
            scores.append(left_out(template, "no function of validation or test was read with a change"))
            continue
        costs = [
            *baseline_scores(effects.filter(is_task), template),
            *layer_scores(effects.filter(is_task), LEACE, template, control_names=controls(task)),
        ]
        answer_scores = layer_scores(answers.filter(is_task), LEACE, template, ANSWERS)
        layer = select_layer(costs, NOTICEABLE)
        scores += [
            *costs,
            *answer_scores,
            *(
                score.within(BEST)
                for score in (*costs, *answer_scores)
                if score.split == "test" and score.layer == layer
            ),
        ]
        scores += score_probes(rows, examples, template, layer)
        scores += score_downstream_probes(rows, examples, template)
    yield from scores
    if layers := select_test_layers(scores):
        followed_heads = [
            dataclasses.replace(intervention, values=None, marks=())
            for intervention in select_followed_heads(fits)
        ]
        interventions = (
            *fit_selected_maps(scoring, fits.splits, fits.measured_items, layers),
            *followed_heads,
        )
        scoring.stage_result.append(
            FittedInterventions(interventions, fits.splits, fits.measured_items).frame()
        )


def select_test_layers(scores: Iterable[Score]) -> dict[str, int]:
    """Select the layer of each property at which a probe surely finds it, so that controls can decide."""
    gains: dict[str, dict[str | None, Score]] = {}
    for score in scores:
        if score.method == NAME and score.metric == "gain" and score.dimensions == (AT_ERASED,):
            gains.setdefault(str(score.task), {})[score.control] = score
    layers: dict[str, int] = {}
    for task, gains_by_control in gains.items():
        required_controls = [MAJORITY] if is_function_property(task) else [MAJORITY, CONTROL_TASK]
        if all(
            name in gains_by_control and is_surely_positive(_row(gains_by_control[name]))
            for name in required_controls
        ):
            layers[task] = int(gains_by_control[MAJORITY].layer or 0)
    return layers


def _row(score: Score) -> dict[str, Any]:
    return {field.name: getattr(score, field.name) for field in dataclasses.fields(score)}
