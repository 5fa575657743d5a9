"""Erase: a property is taken out of the states of a layer, and what changes is measured (amnesic probing).

After LEACE no linear classifier finds the property in the states that it was fitted to (Belrose et al. 2023).
If the model's surprisal rises by more than after erasing labels that say nothing, and by more than after
taking out subspaces of no meaning, what was erased is used from there on (Elazar et al. 2021).

Every layer is tried first, beside a few draws of the controls on validation; at the layer that is chosen by
them all draws follow on test (`sonde.lenses.causal.erase_draws`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.fingerprint import unit_hash
from sonde.capture.interventions import Change
from sonde.capture.requests import Changed, HiddenStates, ItemCapture, Pass, Plain, Prepared
from sonde.lenses._lens import Captured, LensSettings, Scoring
from sonde.lenses._states import subwords_of
from sonde.lenses.causal.erase_fits import (
    LABEL_DRAWS,
    LEACE,
    NAME,
    SCREENING_DRAWS,
    SUBSPACE_DRAWS,
    screening,
)
from sonde.lenses.causal.fits import Fits, FittedChange, split_items
from sonde.lenses.causal.measured import add_effects, asking, constructs_of
from sonde.lenses.causal.properties import SAMPLED, Place, is_whole, sampled, subjects, tokens_of
from sonde.lenses.causal.rows import Rows
from sonde.results.scores import Score

PLACES = 64
"""Subwords of a function, and property, whose states say how wide directions are where it is erased."""


def spans_of(prepared: Prepared, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
    """The subwords of some places, those excepted that have none."""
    if not places:
        return {}
    first, stop = subwords_of(places, prepared.alignment.subwords)
    held = zip(places, first.tolist(), stop.tolist(), strict=True)
    return {place: (begin, end) for place, begin, end in held if end > begin}


def _subwords(prepared: Prepared) -> list[int]:
    """Subwords that stand for all of a function."""
    size, item = len(prepared.alignment.subwords), prepared.item.item_id
    return sorted(sorted(range(size), key=lambda at: unit_hash("subword", item, at))[:SAMPLED])


def looked_at(
    prepared: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]
) -> dict[Place, tuple[int, int]]:
    """The tokens of a function whose states are looked at, with their subwords."""
    item = prepared.item.item_id
    places = {place for held in tokens.values() for place in sampled(item, held.get(item, ()))}
    return spans_of(prepared, sorted(places))


def planned(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """How many properties are erased, and what each is held against."""
    count = len(subjects(labels))
    if not count:
        return ""
    return (
        f"at every layer {count} propert{'y is' if count == 1 else 'ies are'} erased, on validation beside "
        f"{SCREENING_DRAWS} draws of each control; at one layer each, on test, beside {LABEL_DRAWS} draws of "
        f"labels of each kind and {SUBSPACE_DRAWS} uniform and {SUBSPACE_DRAWS} as wide subspaces"
    )


def score(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of every property by layer; see `sonde.lenses.causal.erase_scores`."""
    from sonde.lenses.causal.erase_scores import score_erasures

    return score_erasures(fits, scoring)


def first_passes(
    prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """States of every layer: of functions, of their tokens and of some of their subwords."""
    tokens = tokens_of(labels)
    spans = {one.item.item_id: tuple(_first_spans(one, tokens)) for one in prepared}
    return [Pass(Plain(), (HiddenStates(pooling=("mean", "spans"), spans=spans),))]


def _first_spans(prepared: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]) -> list[Place]:
    spans = looked_at(prepared, tokens).values()
    parts = [(at, at + 1) for span in spans for at in range(*span)]
    single = [(at, at + 1) for at in _subwords(prepared)]
    return list(dict.fromkeys((*spans, *parts, *single)))


def first_rows(
    observed: Sequence[Captured], labels: Mapping[str, pl.DataFrame], settings: LensSettings, rows: Rows
) -> None:
    """Add the rows of these states."""
    tokens = tokens_of(labels)
    for one in observed:
        _add_plain(rows, one, tokens, {})


def _add_plain(
    rows: Rows,
    one: Captured,
    tokens: Mapping[str, Mapping[str, tuple[Place, ...]]],
    places: Mapping[str, AppliedPlaces],
) -> None:
    """Add states with nothing changed: of a function, its tokens, some subwords, and where it is erased."""
    item, size = one.prepared.item.item_id, len(one.prepared.alignment.subwords)
    capture = next((held for held in one.captures if not held.change and "mean" in held.states), None)
    if capture is None:
        return
    # What is asked of one input in several passes is answered at once.
    spans = dict.fromkeys((*_first_spans(one.prepared, tokens), *_spans_of_places(places)))
    states = dict(zip(spans, capture.states["spans"].transpose(1, 0, 2), strict=True))
    rows.add_states(capture.states["mean"], item_id=item, what="mean", first=0)
    for (start, end), span in looked_at(one.prepared, tokens).items():
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


def fit(scoring: Scoring, splits: Mapping[str, str]) -> Iterator[FittedChange]:
    """The maps of every property and layer, from the training split alone, and a few draws of controls."""
    return screening(scoring, splits, split_items(scoring)[1])


def changes_of(
    fits: Fits, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> dict[str, tuple[Change, ...]]:
    """The change of each map: of a property of tokens at all of its tokens, else at every subword."""
    positions: dict[str, dict[str, tuple[int, ...]] | None] = {}
    for task in subjects(labels):
        positions[task] = None
        if not is_whole(task):
            places = tokens_of({task: labels[task]})[task]
            positions[task] = {
                one.item.item_id: tuple(sorted({at for span in found.values() for at in range(*span)}))
                for one in prepared
                if (found := spans_of(one, places.get(one.item.item_id, ())))
            }
    return {
        one.name: (Change(one.layer, one.affine, positions=positions[one.subject]),)
        for one in fits.of(NAME)
        if one.subject in positions
    }


def second_passes(
    fits: Fits, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """The first pass again; surprisal of measured functions with every property erased, and states behind.

    Draws of controls choose a layer, so that they are read on validation alone; states behind an erasure are
    read of functions that no map was fitted to.
    """
    changes = changes_of(fits, prepared, labels)
    erased = {
        one.name: changes[one.name] for one in fits.of(NAME) if one.kind == LEACE and one.name in changes
    }
    drawn = {name: held for name, held in changes.items() if name not in erased}
    valid = frozenset(item for item in fits.measured if fits.splits[item] == "valid")
    found = first_passes(prepared, labels, settings)
    found.append(places_read(fits, prepared, changes))
    found += asking(prepared, erased, fits.measured)
    found += [one for one in asking(prepared, drawn, valid) if isinstance(one.variant, Changed)]
    behind = states_behind(fits, prepared, labels)
    found += [
        Pass(Changed(Plain(), held, name), (behind,), items=fits.unfitted) for name, held in erased.items()
    ]
    return found


class AppliedPlaces(NamedTuple):
    """Subwords of a function at which a property is erased: how many there are, and those that are read."""

    total: int
    read: tuple[int, ...]


def applied_places(
    one: Prepared, changes: Mapping[str, tuple[Change, ...]], fits: Fits
) -> dict[str, AppliedPlaces]:
    """For each property the places of a function at which it is erased; those without any are left out."""
    item, size = one.item.item_id, len(one.alignment.subwords)
    found: dict[str, AppliedPlaces] = {}
    for made in fits.of(NAME):
        if made.kind == LEACE and made.name in changes and made.subject not in found:
            (change,) = changes[made.name]
            every = range(size) if change.positions is None else change.positions.get(item, ())
            drawn = sorted(every, key=lambda at: unit_hash("place", item, at))[:PLACES]
            if drawn:
                found[made.subject] = AppliedPlaces(len(every), tuple(sorted(drawn)))
    return found


def _spans_of_places(places: Mapping[str, AppliedPlaces]) -> tuple[tuple[int, int], ...]:
    return tuple((at, at + 1) for at in sorted({at for own in places.values() for at in own.read}))


def places_read(
    fits: Fits,
    prepared: Sequence[Prepared],
    changes: Mapping[str, tuple[Change, ...]],
    layers: tuple[int, ...] | None = None,
) -> Pass:
    """States of measured functions, with nothing changed, where properties are erased."""
    spans = {
        one.item.item_id: _spans_of_places(applied_places(one, changes, fits))
        for one in prepared
        if one.item.item_id in fits.measured
    }
    return Pass(Plain(), (HiddenStates(layers=layers, pooling=("spans",), spans=spans),), items=fits.measured)


def place_states(
    places: Mapping[str, AppliedPlaces], captures: Sequence[ItemCapture]
) -> dict[str, Float[np.ndarray, "layer place d_model"]]:
    """For each property the states that `places_read` asks for."""
    capture = next((one for one in captures if list(one.states) == ["spans"]), None)
    if capture is None:
        return {}
    order = {start: at for at, (start, _) in enumerate(_spans_of_places(places))}
    return {task: capture.states["spans"][:, [order[at] for at in own.read]] for task, own in places.items()}


def states_behind(
    fits: Fits, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> HiddenStates:
    """States of functions that no map was fitted to, and of their tokens."""
    tokens = tokens_of(labels)
    spans = {
        one.item.item_id: tuple(looked_at(one, tokens).values())
        for one in prepared
        if one.item.item_id in fits.unfitted
    }
    return HiddenStates(pooling=("mean", "spans"), spans=spans)


def second_rows(
    fits: Fits,
    observed: Sequence[Captured],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: Rows,
) -> None:
    """Add states as they are, what changed, and states behind erasures."""
    changes, tokens = changes_of(fits, [one.prepared for one in observed], labels), tokens_of(labels)
    for one in observed:
        held, measured = by_change(one), one.prepared.item.item_id in fits.measured
        _add_plain(rows, one, tokens, applied_places(one.prepared, changes, fits) if measured else {})
        add_behind(rows, one.prepared, held, [made for made in fits.of(NAME) if made.kind == LEACE], labels)
        if measured:
            names, group = constructs_of(one.prepared)
            add_effects(rows, one.prepared.item.item_id, fits.of(NAME), held, (names, [group]))


def by_change(observed: Captured) -> dict[str, list[ItemCapture]]:
    """The captures of a function by the name of the change."""
    held: dict[str, list[ItemCapture]] = {}
    for capture in observed.captures:
        held.setdefault(capture.change, []).append(capture)
    return held


def add_behind(
    rows: Rows,
    prepared: Prepared,
    captures: Mapping[str, Sequence[ItemCapture]],
    fits: Sequence[FittedChange],
    labels: Mapping[str, pl.DataFrame],
) -> None:
    """Add states behind changes, where they were read."""
    item = prepared.item.item_id
    places = looked_at(prepared, tokens_of(labels))
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
