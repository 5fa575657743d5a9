"""Logit lens: what the model would say if it stopped behind each layer (nostalgebraist 2020).

The state of a layer goes through the model's own final norm and head. Surprisal by layer says where what the
model knows becomes an answer; the first layer from which the right subword stays on top says it of single
subwords. An early layer may hold an answer in a form that the head does not read; that it says nothing is no
evidence against it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from sonde.base.fingerprint import unit_hash
from sonde.capture.requests import LayerScores, Pass, Prepared
from sonde.lenses.causal.effects import BITS, assign_constructs, hidden_tokens, surprisal_requests
from sonde.lenses.causal.interventions import (
    FittedIntervention,
    FittedInterventions,
    RowBuilder,
    read_options,
    unpack_states,
)
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ScoringContext
from sonde.results import Mean, Score, left_out, means

NAME = "logit_lens"

TUNED_LENS = "tuned_lens"
"""Method of numbers that are read through a map trained for the layer."""

LAYER, WORD, STATE = "layer", "word", "state"
"""What the rows of this method are: what a layer says, which subwords were asked for, and the states read."""

UNIGRAM = "unigram"

SUBWORDS = 48
"""Subwords of a function that are read off every layer: each is projected on the vocabulary once a layer."""

TRAINING_SUBWORDS = 24
"""Subwords of a function of the training split that maps are trained on."""

MINIMUM_SUBWORDS = 30
"""Subwords of a construct below which nothing is said of it."""

_FACTOR = float(1 / np.log(2))


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """Describe that layers are read through the head, and whether maps are trained."""
    maps_clause = " and, behind a map trained for each," if read_options(settings).tuned else ""
    return f"up to {SUBWORDS} subwords of each are read off every layer through{maps_clause} the model's head"


def fit_requests(
    items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Request nothing, since nothing is fitted."""
    return []


def add_fit_rows(
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add nothing."""


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """Fit nothing."""
    return iter(())


def effect_requests(
    fits: FittedInterventions,
    items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request layer scores at some subwords of the measured functions."""
    uses_maps = read_options(settings).tuned
    # Maps are trained on the functions of the training split, which are then read too.
    train = {item for item, side in fits.splits.items() if side == "train"} if uses_maps else set[str]()
    read = fits.measured | train
    items_read = [item for item in items if item.item.item_id in read]
    all_positions = {
        item.item.item_id: sample_positions(item, range(len(item.alignment.subwords))) for item in items_read
    }
    hidden_positions = {
        item.item.item_id: sample_positions(item, itertools.chain(*hidden_tokens(item)))
        for item in items_read
    }
    return [
        dataclasses.replace(
            effect_pass,
            requests=(
                LayerScores(
                    all_positions if "decoder" in effect_pass.kinds else hidden_positions, states=uses_maps
                ),
            ),
        )
        for effect_pass in surprisal_requests(items_read, {}, read)
    ]


def sample_positions(item: Prepared, positions: Iterable[int]) -> tuple[int, ...]:
    """Sample the subwords of a function that are read off every layer."""
    order = sorted(positions, key=lambda position: unit_hash("depth", item.item.item_id, position))
    return tuple(sorted(order[:SUBWORDS]))


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add what each layer says, by construct."""
    for function in captured_items:
        item_id, ids = function.prepared.item.item_id, function.prepared.alignment.subwords.ids
        layer_scores = [
            capture.layers
            for capture in function.captures
            if capture.layers is not None and not capture.change
        ]
        names, group = assign_constructs(function.prepared) if layer_scores else ([], np.zeros(0, np.int64))
        for layers in layer_scores:
            position_group, gold = group[layers.position], ids[layers.position]
            if item_id in fits.measured:
                _add_layers(rows, item_id, NAME, (layers.nats, layers.rank), names, position_group)
                _add_words(rows, item_id, gold, names, position_group)
            if layers.states is not None:
                for index, states in enumerate(layers.states.transpose(1, 0, 2)):
                    rows.add_states(
                        states, item_id=item_id, what=STATE, method=NAME, first=0, start=int(gold[index]),
                        group=names[position_group[index]],
                    )  # fmt: skip


def stays_on_top(rank: Int[np.ndarray, "layer position"]) -> Bool[np.ndarray, "layer position"]:
    """Mark the layers from which on the right subword ranks first."""
    return np.logical_and.accumulate((rank == 1)[::-1])[::-1]


def _add_layers(
    rows: RowBuilder,
    item: str,
    method: str,
    numbers: tuple[Float[np.ndarray, "layer position"], Int[np.ndarray, "layer position"]],
    names: Sequence[str],
    group: Int[np.ndarray, " position"],
) -> None:
    """Add what each layer says of some subwords, their nats and ranks, by group."""
    nats_of_layers, rank = numbers
    stays = stays_on_top(rank)
    for layer, nats in enumerate(nats_of_layers):
        count, hits, settled_count = (
            np.bincount(group, weights, minlength=len(names))
            for weights in (None, rank[layer] == 1, stays[layer])
        )
        nats_sum = np.bincount(group, nats, minlength=len(names))
        for index in np.flatnonzero(count).tolist():
            rows.add(
                item_id=item, what=LAYER, method=method, layer=layer, group=names[index], n=int(count[index]),
                after=float(nats_sum[index]), hits=int(hits[index]), settled=int(settled_count[index]),
            )  # fmt: skip


def _add_words(
    rows: RowBuilder,
    item: str,
    ids: Int[np.ndarray, " position"],
    names: Sequence[str],
    group: Int[np.ndarray, " position"],
) -> None:
    """Add the subwords that were scored, so that frequency can be compared with layers."""
    pairs, counts = np.unique(np.stack([group, ids]), axis=1, return_counts=True)
    for (index, subword), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
        rows.add(item_id=item, what=WORD, method=NAME, group=names[index], start=subword, n=count)


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Score surprisal, accuracy and the share that stays right by layer and construct."""
    template = dataclasses.replace(scoring.template, method=NAME)
    rows = scoring.observations.filter((pl.col("what") == LAYER) & (pl.col("method") == NAME)).collect()
    if rows.is_empty():
        yield left_out(template, "no subword of a measured function was read off the layers")
        return
    yield from _of_method(rows, scoring, template)
    yield from _unigram(scoring, template)
    if read_options(scoring.settings).tuned:
        yield from _score_tuned_lens(fits, scoring, dataclasses.replace(template, method=TUNED_LENS))


def _of_method(rows: pl.DataFrame, scoring: ScoringContext, template: Score) -> Iterator[Score]:
    rows = rows.join(scoring.items.select("item_id", "cluster"), on="item_id")
    yield from _by_layer(rows, template)
    yield from _first_layers(rows, template)


def _score_tuned_lens(fits: FittedInterventions, scoring: ScoringContext, template: Score) -> Iterator[Score]:
    """Score the layers through maps that are trained on the training split."""
    state_rows = scoring.observations.filter(pl.col("what") == STATE).collect()
    item_filter = pl.col("item_id").is_in(sorted(fits.measured))
    train = state_rows.filter(~item_filter & (pl.int_range(pl.len()).over("item_id") < TRAINING_SUBWORDS))
    test_rows = state_rows.filter(item_filter)
    if scoring.model is None or train.is_empty() or test_rows.is_empty():
        yield left_out(template, "no function of the training split to train the maps of layers on")
        return
    from sonde.models import load_model
    from sonde.training.tuned_lens import LayerHead, score_with_translators, train_translators

    head = LayerHead(load_model(scoring.model))
    # In an order of its own, so that the steps of a training see functions of all kinds.
    order = sorted(range(train.height), key=lambda index: unit_hash("tuned", train["item_id"][index], index))
    translators = train_translators(head, unpack_states(train[order]))
    gold = test_rows["start"].cast(pl.Int64).to_numpy(writable=True)
    nats, rank = score_with_translators(head, translators, unpack_states(test_rows), gold)
    names = test_rows["group"].unique().sort().to_list()
    group = test_rows["group"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    items = test_rows["item_id"].to_numpy()
    rows = RowBuilder()
    for item in dict.fromkeys(items.tolist()):
        of_item = items == item
        _add_layers(rows, item, TUNED_LENS, (nats[:, of_item], rank[:, of_item]), names, group[of_item])
    yield from _of_method(rows.frame(), scoring, dataclasses.replace(template, k=train.height))


def _by_layer(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    metrics = [
        Mean(BITS, pl.col("after"), "nonnegative", per=pl.col("n"), factor=_FACTOR),
        Mean("top1", pl.col("hits"), per=pl.col("n")),
        Mean("settled", pl.col("settled"), per=pl.col("n")),
    ]
    yield from means(rows, metrics, template, columns=("layer",))
    yield from means(
        rows, metrics, template, by={"construct": pl.col("group")}, columns=("layer",),
        minimum=MINIMUM_SUBWORDS, size=pl.col("n"),
    )  # fmt: skip


def _first_layers(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score the mean first layer from which the right subword stays on top.

    What stays from layer l on is counted at l and at every later layer, so that the last layer's number times
    its count, less the counts of all layers before, is the sum of first layers.
    """
    last = pl.col("layer").max()
    settled_at_end = pl.col("settled").filter(pl.col("layer") == last).sum()
    settled_before = pl.col("settled").filter(pl.col("layer") < last).sum()
    first = rows.group_by("item_id", "cluster", "group", maintain_order=True).agg(
        first=last * settled_at_end - settled_before, settled=settled_at_end
    )
    metrics = [Mean("first_layer", pl.col("first"), "nonnegative", per=pl.col("settled"))]
    settled_rows = first.filter(pl.col("settled") > 0)
    yield from means(settled_rows, metrics, template)
    yield from means(
        settled_rows,
        metrics,
        template,
        by={"construct": pl.col("group")},
        minimum=MINIMUM_SUBWORDS,
        size=pl.col("settled"),
    )


def _unigram(scoring: ScoringContext, template: Score) -> Iterator[Score]:
    """Score surprisal by frequency in training (add-one), where that is known."""
    if scoring.frequencies is None:
        return
    counts = scoring.frequencies
    total = float(counts["count"].sum()) + counts.height
    words = scoring.observations.filter((pl.col("what") == WORD) & (pl.col("method") == NAME)).collect()
    words = words.join(scoring.items.select("item_id", "cluster"), on="item_id").join(
        counts.select(start=pl.col("subword_id").cast(pl.Int32), count="count"), on="start", how="left"
    )
    nats = (total / (pl.col("count").fill_null(0) + 1)).log() * pl.col("n")
    metrics = [Mean(BITS, nats, "nonnegative", per=pl.col("n"), factor=_FACTOR, fields={"control": UNIGRAM})]
    yield from means(words, metrics, template)
    yield from means(
        words,
        metrics,
        template,
        by={"construct": pl.col("group")},
        minimum=MINIMUM_SUBWORDS,
        size=pl.col("n"),
    )
