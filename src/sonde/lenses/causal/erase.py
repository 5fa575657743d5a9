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
    SAMPLED,
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

PLACES = 64
"""Subwords of a function, and property, whose states say how wide directions are where it is erased."""


def find_subword_spans(prepared: Prepared, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
    """The subwords of some places, those excepted that have none."""
    if not places:
        return {}
    first, stop = find_overlapping_subwords(places, prepared.alignment.subwords)
    held = zip(places, first.tolist(), stop.tolist(), strict=True)
    return {place: (begin, end) for place, begin, end in held if end > begin}


def _subwords(prepared: Prepared) -> list[int]:
    """Subwords that stand for all of a function."""
    size, item = len(prepared.alignment.subwords), prepared.item.item_id
    return sorted(sorted(range(size), key=lambda at: unit_hash("subword", item, at))[:SAMPLED])


def select_tokens(
    prepared: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]
) -> dict[Place, tuple[int, int]]:
    """The tokens of a function whose states are looked at, with their subwords."""
    item = prepared.item.item_id
    places = {place for held in tokens.values() for place in sample_spans(item, held.get(item, ()))}
    return find_subword_spans(prepared, sorted(places))


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """How many properties are erased, and what each is held against."""
    count = len(erased_properties(labels))
    if not count:
        return ""
    return (
        f"at every layer {count} propert{'y is' if count == 1 else 'ies are'} erased, on validation beside "
        f"{SCREENING_DRAWS} draws of each control; at one layer each, on test, beside {LABEL_DRAWS} draws of "
        f"labels of each kind and {SUBSPACE_DRAWS} uniform and {SUBSPACE_DRAWS} as wide subspaces"
    )


def fit_requests(
    prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """States of every layer: of functions, of their tokens and of some of their subwords."""
    tokens = collect_labelled_tokens(labels)
    spans = {one.item.item_id: tuple(_first_spans(one, tokens)) for one in prepared}
    return [Pass(Plain(), (HiddenStates(pooling=("mean", "spans"), spans=spans),))]


def _first_spans(prepared: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]) -> list[Place]:
    spans = select_tokens(prepared, tokens).values()
    parts = [(at, at + 1) for span in spans for at in range(*span)]
    single = [(at, at + 1) for at in _subwords(prepared)]
    return list(dict.fromkeys((*spans, *parts, *single)))


def add_fit_rows(
    observed: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add the rows of these states."""
    tokens = collect_labelled_tokens(labels)
    for one in observed:
        _add_plain(rows, one, tokens, {})


def _add_plain(
    rows: RowBuilder,
    one: CapturedItem,
    tokens: Mapping[str, Mapping[str, tuple[Place, ...]]],
    places: Mapping[str, AppliedPositions],
) -> None:
    """Add states with nothing changed: of a function, its tokens, some subwords, and where it is erased."""
    item, size = one.prepared.item.item_id, len(one.prepared.alignment.subwords)
    capture = next((held for held in one.captures if not held.change and "mean" in held.states), None)
    if capture is None:
        return
    # What is asked of one input in several passes is answered at once.
    spans = dict.fromkeys((*_first_spans(one.prepared, tokens), *_to_spans(places)))
    states = dict(zip(spans, capture.states["spans"].transpose(1, 0, 2), strict=True))
    rows.add_states(capture.states["mean"], item_id=item, what="mean", first=0)
    for (start, end), span in select_tokens(one.prepared, tokens).items():
        about = {"item_id": item, "start": start, "end": end, "first": 0}
        rows.add_states(states[span], what="token", **about)
        for at in range(*span) if span[1] - span[0] > 1 else ():
            rows.add_states(states[at, at + 1], what="part", **about)
    sampled = [("subword", None, size, at) for at in _subwords(one.prepared)]
    sampled += [("place", task, own.total, at) for task, own in places.items() for at in own.read]
    for what, task, total, at in sampled:
        rows.add_states(
            states[at, at + 1], item_id=item, what=what, subject=task, start=at, end=at + 1, first=0, n=total
        )


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """The maps of every property and layer, from the training split alone, and a few draws of controls."""
    return fit_screening_maps(scoring, splits, split_items(scoring)[1])


def build_interventions(
    fits: FittedInterventions, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> dict[str, tuple[Change, ...]]:
    """The change of each map: of a property of tokens at all of its tokens, else at every subword."""
    positions: dict[str, dict[str, tuple[int, ...]] | None] = {}
    for task in erased_properties(labels):
        positions[task] = None
        if not is_function_property(task):
            places = collect_labelled_tokens({task: labels[task]})[task]
            positions[task] = {
                one.item.item_id: tuple(sorted({at for span in found.values() for at in range(*span)}))
                for one in prepared
                if (found := find_subword_spans(one, places.get(one.item.item_id, ())))
            }
    return {
        one.name: (Change(one.layer, one.affine, positions=positions[one.subject]),)
        for one in fits.for_method(NAME)
        if one.subject in positions
    }


def effect_requests(
    fits: FittedInterventions,
    prepared: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """The first pass again; surprisal of measured functions with every property erased, and states behind.

    Draws of controls choose a layer, so that they are read on validation alone; states behind an erasure are
    read of functions that no map was fitted to.
    """
    changes = build_interventions(fits, prepared, labels)
    erased = {
        one.name: changes[one.name]
        for one in fits.for_method(NAME)
        if one.kind == LEACE and one.name in changes
    }
    drawn = {name: held for name, held in changes.items() if name not in erased}
    valid = frozenset(item for item in fits.measured_items if fits.splits[item] == "valid")
    found = fit_requests(prepared, labels, settings)
    found.append(request_unmodified_states(fits, prepared, changes))
    found += surprisal_requests(prepared, erased, fits.measured_items)
    found += [one for one in surprisal_requests(prepared, drawn, valid) if isinstance(one.variant, Changed)]
    behind = request_downstream_states(fits, prepared, labels)
    found += [
        Pass(Changed(Plain(), held, name), (behind,), items=fits.held_out_functions)
        for name, held in erased.items()
    ]
    return found


class AppliedPositions(NamedTuple):
    """Subwords of a function at which a property is erased: how many there are, and those that are read."""

    total: int
    read: tuple[int, ...]


def find_applied_positions(
    one: Prepared, changes: Mapping[str, tuple[Change, ...]], fits: FittedInterventions
) -> dict[str, AppliedPositions]:
    """For each property the places of a function at which it is erased; those without any are left out."""
    item, size = one.item.item_id, len(one.alignment.subwords)
    found: dict[str, AppliedPositions] = {}
    for made in fits.for_method(NAME):
        if made.kind == LEACE and made.name in changes and made.subject not in found:
            (change,) = changes[made.name]
            every = range(size) if change.positions is None else change.positions.get(item, ())
            drawn = sorted(every, key=lambda at: unit_hash("place", item, at))[:PLACES]
            if drawn:
                found[made.subject] = AppliedPositions(len(every), tuple(sorted(drawn)))
    return found


def _to_spans(places: Mapping[str, AppliedPositions]) -> tuple[tuple[int, int], ...]:
    return tuple((at, at + 1) for at in sorted({at for own in places.values() for at in own.read}))


def request_unmodified_states(
    fits: FittedInterventions,
    prepared: Sequence[Prepared],
    changes: Mapping[str, tuple[Change, ...]],
    layers: tuple[int, ...] | None = None,
) -> Pass:
    """States of measured functions, with nothing changed, where properties are erased."""
    spans = {
        one.item.item_id: _to_spans(find_applied_positions(one, changes, fits))
        for one in prepared
        if one.item.item_id in fits.measured_items
    }
    return Pass(
        Plain(), (HiddenStates(layers=layers, pooling=("spans",), spans=spans),), items=fits.measured_items
    )


def collect_unmodified_states(
    places: Mapping[str, AppliedPositions], captures: Sequence[ItemCapture]
) -> dict[str, Float[np.ndarray, "layer place d_model"]]:
    """For each property the states that `request_unmodified_states` asks for."""
    capture = next((one for one in captures if list(one.states) == ["spans"]), None)
    if capture is None:
        return {}
    order = {start: at for at, (start, _) in enumerate(_to_spans(places))}
    return {task: capture.states["spans"][:, [order[at] for at in own.read]] for task, own in places.items()}


def request_downstream_states(
    fits: FittedInterventions, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> HiddenStates:
    """States of functions that no map was fitted to, and of their tokens."""
    tokens = collect_labelled_tokens(labels)
    spans = {
        one.item.item_id: tuple(select_tokens(one, tokens).values())
        for one in prepared
        if one.item.item_id in fits.held_out_functions
    }
    return HiddenStates(pooling=("mean", "spans"), spans=spans)


def add_effect_rows(
    fits: FittedInterventions,
    observed: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add states as they are, what changed, and states behind erasures."""
    changes, tokens = (
        build_interventions(fits, [one.prepared for one in observed], labels),
        collect_labelled_tokens(labels),
    )
    for one in observed:
        held, measured = group_captures(one), one.prepared.item.item_id in fits.measured_items
        _add_plain(rows, one, tokens, find_applied_positions(one.prepared, changes, fits) if measured else {})
        add_downstream_states(
            rows, one.prepared, held, [made for made in fits.for_method(NAME) if made.kind == LEACE], labels
        )
        if measured:
            names, group = assign_constructs(one.prepared)
            add_effects(rows, one.prepared.item.item_id, fits.for_method(NAME), held, (names, [group]))


def add_downstream_states(
    rows: RowBuilder,
    prepared: Prepared,
    captures: Mapping[str, Sequence[ItemCapture]],
    fits: Sequence[FittedIntervention],
    labels: Mapping[str, pl.DataFrame],
) -> None:
    """Add states behind changes, where they were read."""
    item = prepared.item.item_id
    places = select_tokens(prepared, collect_labelled_tokens(labels))
    for made in fits:
        capture = next((one for one in captures.get(made.name, ()) if "mean" in one.states), None)
        if capture is None:
            continue
        about = {"item_id": item, "method": NAME, "subject": made.subject, "kind": made.kind}
        about |= {"layer": made.layer, "first": made.layer}
        spans = capture.states["spans"].transpose(1, 0, 2) if places else []
        for (start, end), states in zip(places, spans, strict=True):
            rows.add_states(states[made.layer :], what="token", start=start, end=end, **about)
        rows.add_states(capture.states["mean"][made.layer :], what="mean", **about)


MAJORITY = "majority"


BEST, AT_ERASED = (SELECTION, "best"), (SELECTION, "erased")
"""Dimensions: at the layer where a probe is best, and at the one where the property is erased."""


ERASED, ERASED_PROPERTY, NOTHING = "erased", "erased_property", "nothing"
"""Dimensions of what probes find behind an erasure: its layer, or nothing; and whose it is, where that is
another property's."""


FOLDS = 4
"""Folds of the functions that no map was fitted to: two train a probe, one chooses, one is tested."""


_Test = tuple[Int[np.ndarray, " test"], np.ndarray, Int[np.ndarray, "layer test"]]
"""Classes of the tested examples, their clusters, and what the probe of each layer says."""


def score_probes(
    rows: pl.DataFrame, examples: PropertyExamples, template: Score, layer: int | None
) -> Iterator[Score]:
    """What probes find with nothing erased, beside the commonest class and, of tokens, a class per word.

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
    (found,) = probe_without_checks(states, labels[None], count, parts)
    layers = range(len(states))
    accuracy = dataclasses.replace(template, metric="accuracy")
    yield from mean_rows(accuracy, found.predicted == gold, clusters, [{"layer": at} for at in layers])
    common = gold == int(np.bincount(labels[parts.train], minlength=count).argmax())
    yield from mean_rows(dataclasses.replace(accuracy, control=MAJORITY), common[None], clusters, [{}])
    gain = dataclasses.replace(template, metric="gain", control=MAJORITY)
    for at, dimension in ((found.best, BEST), (layer, AT_ERASED)):
        if at is not None:
            own = dataclasses.replace(gain, layer=at).within(dimension)
            yield from trained_rows(own, found.predicted[at] == gold, clusters, baseline=common)
    if layer is None or is_function_property(task):
        return
    words = dataclasses.replace(examples, frame=plain).words
    seeds = [derive_seed("control task", template.seed, number) % 2**63 for number in range(MIN_SEEDS)]
    drawn = np.stack([sample_control_labels(words, labels, seed) for seed in seeds])
    learned = probe_without_checks(states[layer][None], drawn, count, parts)
    right = np.stack([one.predicted[0] == own[parts.test] for one, own in zip(learned, drawn, strict=True)])
    own = dataclasses.replace(template, control=CONTROL_TASK, layer=layer, seeds=MIN_SEEDS)
    yield from trained_rows(dataclasses.replace(own, metric="accuracy").within(AT_ERASED), right, clusters)
    yield from trained_rows(
        dataclasses.replace(own, metric="gain").within(AT_ERASED), found.predicted[layer] == gold, clusters,
        baseline=right,
    )  # fmt: skip


def score_downstream_probes(
    rows: pl.DataFrame, examples: PropertyExamples, template: Score
) -> Iterator[Score]:
    """What new probes find behind an erasure, at its layer and at later ones, and with nothing erased.

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
    gold, clusters, before = plain
    common = gold == np.bincount(gold).argmax()
    nothing = accuracy.within((ERASED, NOTHING))
    yield from mean_rows(nothing, before == gold, clusters, [{"layer": at} for at in range(len(before))])
    yield from mean_rows(dataclasses.replace(nothing, control=MAJORITY), common[None], clusters)
    mine = rows.filter((pl.col("subject") == template.task) & (pl.col("kind") == LEACE))
    for layer in sorted(set(mine["layer"].to_list())):
        found = cross_fit_probes(mine.filter(pl.col("layer") == layer), examples, template.seed)
        if found is not None:
            gold, clusters, after = found
            fields = [{"layer": layer + later} for later in range(len(after))]
            yield from mean_rows(accuracy.within((ERASED, str(layer))), after == gold, clusters, fields)


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
    held = join_states(examples.task, unseen, rows)
    if held.is_empty():
        return None
    labels, clusters = number_classes(held, examples.classes), held["cluster"].to_numpy()
    groups = np.unique(clusters.astype(str), return_inverse=True)[1]
    try:
        folds = make_grouped_folds(labels, groups, FOLDS, seed)
    except InputError:
        return None
    if any(len(np.unique(labels[fold.train])) < 2 for fold in folds):
        return None
    states = unpack_states(held)
    predicted = np.zeros((len(states), len(labels)), dtype=np.int64)
    for fold in folds:
        (found,) = probe_without_checks(states, labels[None], len(examples.classes), fold)
        predicted[:, fold.test] = found.predicted
    return labels, clusters, predicted


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Every number of every property by layer; what is tested at one layer is handed on."""
    effects, answers = (compute_effects(scoring, NAME, fits.splits, of) for of in (SURPRISAL, ANSWERS))
    tried = {one.subject for one in fits.for_method(NAME)}
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    texts = dict(scoring.texts.collect().iter_rows())
    found: list[Score] = []
    for task in erased_properties(scoring.labels):
        template = dataclasses.replace(scoring.template, task=task, split="test", method=NAME)
        examples = PropertyExamples.from_labels(task, scoring, fits.splits, texts)
        if task not in tried:
            plain = rows.filter(pl.col("method").is_null())
            found.append(left_out(template, unfitted_reason(examples.select("train", plain), plain)))
            continue
        mine = pl.col("subject") == task
        if effects.filter(mine).is_empty():
            found.append(left_out(template, "no function of validation or test was read with a change"))
            continue
        costs = [
            *baseline_scores(effects.filter(mine), template),
            *layer_scores(effects.filter(mine), LEACE, template, control_names=controls(task)),
        ]
        lost = layer_scores(answers.filter(mine), LEACE, template, ANSWERS)
        layer = select_layer(costs, NOTICEABLE)
        found += [*costs, *lost, *best_layer_scores(costs, layer), *best_layer_scores(lost, layer)]
        found += score_probes(rows, examples, template, layer)
        found += score_downstream_probes(rows, examples, template)
    yield from found
    if layers := select_test_layers(found):
        followed = [
            dataclasses.replace(one, values=None, marks=())
            for one in fits.for_method(ABLATE)
            if one.kind == HEADS and not one.together
        ]
        held = (*fit_selected_maps(scoring, fits.splits, fits.measured_items, layers), *followed)
        scoring.stage_result.append(FittedInterventions(held, fits.splits, fits.measured_items).frame())


def select_test_layers(scores: Iterable[Score]) -> dict[str, int]:
    """The layer of each property at which a probe surely finds it, so that controls can decide."""
    gains: dict[str, dict[str | None, Score]] = {}
    for one in scores:
        if one.method == NAME and one.metric == "gain" and one.dimensions == (AT_ERASED,):
            gains.setdefault(str(one.task), {})[one.control] = one
    found: dict[str, int] = {}
    for task, held in gains.items():
        needed = [MAJORITY] if is_function_property(task) else [MAJORITY, CONTROL_TASK]
        if all(name in held and is_surely_positive(_row(held[name])) for name in needed):
            found[task] = int(held[MAJORITY].layer or 0)
    return found


def _row(one: Score) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
