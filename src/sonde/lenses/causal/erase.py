"""Erase: a property is taken out of the states of a layer, and what changes is measured (amnesic probing).

After LEACE no linear classifier finds the property in the states that it was fitted to (Belrose et al. 2023).
If the model's surprisal rises by more than after a random subspace of the same rank and the same mean squared
change, what was erased is used from there on (Elazar et al. 2021). Maps are fitted on the training split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.capture.interventions import Change
from sonde.capture.requests import Changed, HiddenStates, ItemCapture, Pass, Plain, Prepared
from sonde.lenses._lens import Captured, LensSettings, Scoring
from sonde.lenses._states import subwords_of
from sonde.lenses.causal import heads_behind
from sonde.lenses.causal.ablate import edges_of, lookups_of
from sonde.lenses.causal.fits import Fits, FittedChange
from sonde.lenses.causal.measured import add_effects, asking, constructs_of
from sonde.lenses.causal.options import read_options
from sonde.lenses.causal.rows import Rows, states_of
from sonde.results.scores import Score
from sonde.tasks import TASKS
from sonde.training.erasure import Cloud, leace, random_like

NAME = "erase"

LEACE, PERMUTED, CONTROL_TASK, RANDOM = "leace", "permuted", "control_task", "random"

TOKENS = 12
"""Tokens of a function, and subwords, whose states are looked at."""

FEWEST = 10
"""Examples of a class below which it is left out."""

A_DIMENSION = 2
"""Examples a dimension of the states below which nothing is erased: with fewer, a map takes along what only
chance ties to the classes, and whatever it costs says nothing about them."""

Place = tuple[int, int]


def draw(number: int) -> str:
    """What the number-th random subspace is called."""
    return f"{RANDOM} {number}"


def subjects(labels: Mapping[str, pl.DataFrame]) -> list[str]:
    """The properties that are erased."""
    return [task for task in labels if TASKS.load(task).target in ("span", "item")]


def is_whole(task: str) -> bool:
    """Whether a property is one of whole functions."""
    return TASKS.load(task).target == "item"


def tokens_of(labels: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, tuple[Place, ...]]]:
    """For each property of tokens, the labelled places of each function."""
    found: dict[str, dict[str, tuple[Place, ...]]] = {}
    for task in subjects(labels):
        if not is_whole(task):
            rows = labels[task].filter(pl.col("label").is_not_null()).sort("item_id", "start")
            held = rows.group_by("item_id", maintain_order=True).agg("start", "end")
            found[task] = {item: tuple(zip(start, end, strict=True)) for item, start, end in held.iter_rows()}
    return found


def sampled(item: str, places: Sequence[Place]) -> list[Place]:
    """The places of a function whose states are looked at."""
    return sorted(sorted(places, key=lambda place: unit_hash("token", item, place[0]))[:TOKENS])


def _spans(prepared: Prepared, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
    """The subwords of some places, those excepted that have none."""
    if not places:
        return {}
    first, stop = subwords_of(places, prepared.alignment.subwords)
    held = zip(places, first.tolist(), stop.tolist(), strict=True)
    return {place: (begin, end) for place, begin, end in held if end > begin}


def _subwords(prepared: Prepared) -> list[int]:
    """Subwords that stand for all of a function."""
    size, item = len(prepared.alignment.subwords), prepared.item.item_id
    return sorted(sorted(range(size), key=lambda at: unit_hash("subword", item, at))[:TOKENS])


def _looked_at(
    prepared: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]
) -> dict[Place, tuple[int, int]]:
    """The tokens of a function whose states are looked at, with their subwords."""
    item = prepared.item.item_id
    places = {place for held in tokens.values() for place in sampled(item, held.get(item, ()))}
    return _spans(prepared, sorted(places))


def planned(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """How many properties are erased, and what each is held against."""
    count, draws = len(subjects(labels)), read_options(settings).draws
    if not count:
        return ""
    return (
        f"at every layer {count} propert{'y is' if count == 1 else 'ies are'} erased, each beside {draws} "
        "random subspaces and labels in another order"
    )


def score(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of every property; see `sonde.lenses.causal.erase_scores`."""
    from sonde.lenses.causal import erase_scores

    return erase_scores.score(fits, scoring)


def first_passes(
    prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """States of every layer: of functions, of their tokens and of some of their subwords."""
    tokens = tokens_of(labels)
    spans = {one.item.item_id: tuple(_first_spans(one, tokens)) for one in prepared}
    return [Pass(Plain(), (HiddenStates(pooling=("mean", "spans"), spans=spans),))]


def _first_spans(prepared: Prepared, tokens: Mapping[str, Mapping[str, tuple[Place, ...]]]) -> list[Place]:
    single = [(at, at + 1) for at in _subwords(prepared)]
    return list(dict.fromkeys((*_looked_at(prepared, tokens).values(), *single)))


def first_rows(
    observed: Sequence[Captured], labels: Mapping[str, pl.DataFrame], settings: LensSettings, rows: Rows
) -> None:
    """Add the rows of these states."""
    tokens = tokens_of(labels)
    for one in observed:
        item = one.prepared.item.item_id
        capture = next((capture for capture in one.captures if "mean" in capture.states), None)
        if capture is None:
            continue
        spans = _first_spans(one.prepared, tokens)
        states = dict(zip(spans, capture.states["spans"].transpose(1, 0, 2), strict=True))
        rows.add_states(capture.states["mean"], item_id=item, what="mean", first=0)
        for (start, end), span in _looked_at(one.prepared, tokens).items():
            rows.add_states(states[span], item_id=item, what="token", start=start, end=end, first=0)
        for at in _subwords(one.prepared):
            rows.add_states(states[at, at + 1], item_id=item, what="subword", start=at, end=at + 1, first=0)


def labelled(task: str, labels: pl.DataFrame, splits: Mapping[str, str]) -> pl.DataFrame:
    """The examples of a property: ``item_id, start, end, label, split``; classes of few are left out."""
    side = pl.DataFrame({"item_id": list(splits), "split": list(splits.values())}, schema_overrides=_TEXTS)
    rows = labels.filter(pl.col("label").is_not_null()).join(side, on="item_id")
    train = rows.filter(pl.col("split") == "train")["label"].value_counts()
    kept = train.filter(pl.col("count") >= FEWEST)["label"].implode()
    columns = (
        ["item_id", "label", "split"] if is_whole(task) else ["item_id", "start", "end", "label", "split"]
    )
    return rows.filter(pl.col("label").is_in(kept)).select(columns)


_TEXTS = {"item_id": pl.String, "split": pl.String}


def examples_of(task: str, examples: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The examples that have states, beside them."""
    keys = ["item_id"] if is_whole(task) else ["item_id", "start", "end"]
    what = "mean" if is_whole(task) else "token"
    held = rows.filter(pl.col("what") == what).select(*keys, "first", "states", "scale")
    return examples.join(held, on=keys).sort(keys)


def numbered(examples: pl.DataFrame) -> tuple[list[str], Int[np.ndarray, " example"]]:
    """The classes, and the number of each example's."""
    classes = sorted(examples["label"].unique().to_list())
    number = {label: at for at, label in enumerate(classes)}
    return classes, np.array([number[label] for label in examples["label"].to_list()], dtype=np.int64)


def why_not_fitted(task: str, examples: pl.DataFrame) -> str:
    """Why no map is fitted for a property; empty where one is.

    Args:
        task: The property.
        examples: Those of the training split that have states, see `examples_of`.
    """
    if examples["label"].n_unique() < 2:
        return f"fewer than two classes of {task} have enough examples to be fitted to"
    dimensions = states_of(examples.head(1)).shape[-1]
    # Where states lie is fitted to tokens, and for a property of functions to some subwords of each.
    places = examples.height * (TOKENS if is_whole(task) else 1)
    if places < (needed := A_DIMENSION * dimensions):
        return (
            f"{task}: a map that erases from {dimensions:,} dimensions is fitted to {needed:,} tokens at "
            f"least, and {places:,} of the training split were read; more functions would do (--limit)"
        )
    return ""


def fit(scoring: Scoring, splits: Mapping[str, str]) -> Iterator[FittedChange]:
    """The maps of every property, layer and control, from the training split alone."""
    settings, draws = scoring.settings, read_options(scoring.settings).draws
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token", "subword"])).collect()
    train = [item for item, side in splits.items() if side == "train"]
    mine = rows.filter(pl.col("item_id").is_in(pl.Series(train, dtype=pl.String).implode()))
    subwords = mine.filter(pl.col("what") == "subword")
    texts = dict(scoring.texts.collect().iter_rows())
    around: list[Cloud] = []
    for task in subjects(scoring.labels):
        examples = labelled(task, scoring.labels[task], splits).filter(pl.col("split") == "train")
        held = examples_of(task, examples, mine)
        if why_not_fitted(task, held):
            continue
        _, labels = numbered(held)
        states = states_of(held)
        if is_whole(task) and not around:
            around = [Cloud.of(layer, _by_length(subwords)) for layer in states_of(subwords)]
        rng = np.random.default_rng(derive_seed("permuted", settings.seed, task) % 2**63)
        permuted = rng.permutation(labels)
        drawn = None if is_whole(task) else _control_task(held, texts, labels, settings.seed)
        for layer, own in enumerate(states):
            cloud = around[layer] if is_whole(task) else Cloud.of(own)
            erased = leace(own, labels, cloud=cloud)
            yield FittedChange(NAME, task, LEACE, layer, eraser=erased)
            yield FittedChange(NAME, task, PERMUTED, layer, eraser=leace(own, permuted, cloud=cloud))
            if drawn is not None:
                yield FittedChange(NAME, task, CONTROL_TASK, layer, eraser=leace(own, drawn, cloud=cloud))
            seeds = [
                derive_seed("subspace", settings.seed, task, layer, number) % 2**63 for number in range(draws)
            ]
            for number, other in enumerate(random_like(erased, cloud, seeds)):
                yield FittedChange(NAME, task, draw(number), layer, eraser=other)


def _by_length(rows: pl.DataFrame) -> Float[np.ndarray, " subword"]:
    """Weights that make all functions count alike."""
    return 1.0 / rows.select(pl.len().over("item_id"))["len"].to_numpy()


def _control_task(
    rows: pl.DataFrame, texts: Mapping[str, str], labels: Int[np.ndarray, " example"], seed: int
) -> Int[np.ndarray, " example"]:
    """A class drawn for each word, as often as the property has it (Hewitt and Liang 2019)."""
    words = [
        texts[item][start:end] for item, start, end in rows.select("item_id", "start", "end").iter_rows()
    ]
    share = np.cumsum(np.bincount(labels) / len(labels))
    drawn = np.array([unit_hash("control task", seed, word) for word in words])
    return np.minimum(np.searchsorted(share, drawn, side="right"), len(share) - 1)


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
                if (found := _spans(one, places.get(one.item.item_id, ())))
            }
    return {
        one.name: (Change(one.layer, one.affine, positions=positions[one.subject]),)
        for one in fits.of(NAME)
        if one.subject in positions
    }


def _read_again(one: FittedChange) -> bool:
    """Whether states are read behind a change: what new probes find after it, at this layer and later."""
    return one.kind in (LEACE, draw(0))


def second_passes(
    fits: Fits, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Surprisal of the measured functions with every change, and states behind some of them."""
    changes = changes_of(fits, prepared, labels)
    tokens = tokens_of(labels)
    read = frozenset(item for item, side in fits.splits.items() if side == "train") | fits.measured
    layers = 1 + max((one.layer for one in fits.of(NAME)), default=-1)
    found = asking(prepared, changes, fits.measured)
    spans = {one.item.item_id: tuple(_looked_at(one, tokens).values()) for one in prepared}
    states = HiddenStates(pooling=("mean", "spans"), spans=spans)
    found.append(Pass(Plain(), (states,), items=read))
    attention = heads_behind.request(fits, prepared, labels)
    if attention is not None:
        found.append(Pass(Plain(), (attention,), items=fits.measured))
    for one in fits.of(NAME):
        if _read_again(one) and one.name in changes:
            held = Changed(Plain(), changes[one.name], one.name)
            if attention is not None and heads_behind.lies_before(one, fits):
                found.append(Pass(held, (attention,), items=fits.measured))
            behind = replace(states, layers=tuple(range(one.layer, layers)))
            found.append(Pass(held, (behind,), items=read))
    return found


def second_rows(
    fits: Fits,
    observed: Sequence[Captured],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: Rows,
) -> None:
    """Add what changed, and states behind changes."""
    tokens, edges, heads = tokens_of(labels), edges_of(labels), heads_behind.followed(fits)
    for one in observed:
        held: dict[str, list[ItemCapture]] = {}
        for capture in one.captures:
            held.setdefault(capture.change, []).append(capture)
        item = one.prepared.item.item_id
        places = _looked_at(one.prepared, tokens)
        _add_states(rows, item, places, held.get("", []), 0)
        for made in fits.of(NAME):
            about = {"method": NAME, "subject": made.subject, "kind": made.kind, "layer": made.layer}
            _add_states(rows, item, places, held.get(made.name, []), made.layer, **about)
        if item in fits.measured:
            asked = lookups_of(one.prepared, edges.get(item, ())) if heads else None
            relations = asked[1] if asked else ()
            for made in (None, *fits.of(NAME)) if relations else ():
                captures = held.get("" if made is None else made.name, [])
                heads_behind.add_hits(rows, item, relations, captures, heads, made)
            names, group = constructs_of(one.prepared)
            add_effects(rows, item, fits.of(NAME), held, (names, [group]))


def _add_states(
    rows: Rows,
    item: str,
    places: Mapping[Place, tuple[int, int]],
    captures: Sequence[ItemCapture],
    first: int,
    **about: object,
) -> None:
    capture = next((one for one in captures if "mean" in one.states), None)
    if capture is None:
        return
    spans = capture.states["spans"].transpose(1, 0, 2) if places else []
    for (start, end), states in zip(places, spans, strict=True):
        rows.add_states(states, item_id=item, what="token", start=start, end=end, first=first, **about)
    rows.add_states(capture.states["mean"], item_id=item, what="mean", first=first, **about)
