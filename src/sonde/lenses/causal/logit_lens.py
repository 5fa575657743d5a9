"""Logit lens: what the model would predict from the states of each layer (nostalgebraist 2020).

The state of a layer goes through the model's own final norm and head. Surprisal by layer says where what the
model knows becomes an answer; the first layer from which the right subword stays on top says it of single
subwords. An early layer may hold an answer in a form that the head does not read; that it says nothing is no
evidence against it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

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
    sample_positions,
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
"""Minimum number of a construct's subwords for a row of it."""

_FACTOR = float(1 / np.log(2))


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """Describe that layers are read through the head, and whether maps are trained for it."""
    trained_map = ", also after a trained map," if read_options(settings).tuned else ""
    return (
        f"up to {SUBWORDS} subwords of each are predicted from every layer{trained_map} through the "
        "model's head"
    )


def fit_requests(
    prepared_items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Return no requests: nothing is fitted."""
    return []


def add_fit_rows(
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add nothing."""


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """Return no interventions."""
    return iter(())


def effect_requests(
    fits: FittedInterventions,
    prepared_items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request scores of every layer at some subwords; of masked models at hidden ones."""
    is_tuned = read_options(settings).tuned
    # Maps are trained on the functions of the training split, which are then read too.
    train = {item for item, side in fits.splits.items() if side == "train"} if is_tuned else set[str]()
    read_items = fits.measured_items | train
    selected_items = [
        prepared_item for prepared_item in prepared_items if prepared_item.item.item_id in read_items
    ]
    all_positions = {
        prepared_item.item.item_id: sample_positions("depth", prepared_item, SUBWORDS)
        for prepared_item in selected_items
    }
    hidden_positions = {
        prepared_item.item.item_id: sample_positions(
            "depth", prepared_item, SUBWORDS, itertools.chain(*hidden_tokens(prepared_item))
        )
        for prepared_item in selected_items
    }
    return [
        dataclasses.replace(
            request,
            requests=(
                LayerScores(
                    all_positions if "decoder" in request.kinds else hidden_positions, states=is_tuned
                ),
            ),
        )
        for request in surprisal_requests(selected_items, {}, read_items)
    ]


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add the scores of each layer, by construct."""
    for captured_item in captured_items:
        item, ids = captured_item.prepared.item.item_id, captured_item.prepared.alignment.subwords.ids
        layer_scores = [
            capture.layers
            for capture in captured_item.captures
            if capture.layers is not None and not capture.change
        ]
        names, group = (
            assign_constructs(captured_item.prepared) if layer_scores else ([], np.zeros(0, np.int64))
        )
        for layers in layer_scores:
            groups, gold = group[layers.position], ids[layers.position]
            if item in fits.measured_items:
                _add_layers(rows, item, NAME, (layers.nats, layers.rank), names, groups)
                _add_words(rows, item, gold, names, groups)
            if layers.states is not None:
                for number, states in enumerate(layers.states.transpose(1, 0, 2)):
                    rows.add_states(
                        states, item_id=item, what=STATE, method=NAME, first=0, start=int(gold[number]),
                        group=names[groups[number]],
                    )  # fmt: skip


def stays_on_top(rank: Int[np.ndarray, "layer position"]) -> Bool[np.ndarray, "layer position"]:
    """Return whether the right subword ranks first at a layer and at every later one."""
    return np.logical_and.accumulate((rank == 1)[::-1])[::-1]


def _add_layers(
    rows: RowBuilder,
    item: str,
    method: str,
    scores: tuple[Float[np.ndarray, "layer position"], Int[np.ndarray, "layer position"]],
    names: Sequence[str],
    group: Int[np.ndarray, " position"],
) -> None:
    """Add each layer's scores of some subwords, their nats and ranks, by group."""
    nats_by_layer, rank = scores
    stays = stays_on_top(rank)
    for layer, nats in enumerate(nats_by_layer):
        count, hits, settled_count = (
            np.bincount(group, weights, minlength=len(names))
            for weights in (None, rank[layer] == 1, stays[layer])
        )
        nats_sum = np.bincount(group, nats, minlength=len(names))
        for number in np.flatnonzero(count).tolist():
            rows.add(
                item_id=item, what=LAYER, method=method, layer=layer, group=names[number],
                n=int(count[number]),
                after=float(nats_sum[number]), hits=int(hits[number]), settled=int(settled_count[number]),
            )  # fmt: skip


def _add_words(
    rows: RowBuilder,
    item: str,
    ids: Int[np.ndarray, " position"],
    names: Sequence[str],
    group: Int[np.ndarray, " position"],
) -> None:
    """Add the subwords that were scored, for their frequencies in training."""
    pairs, counts = np.unique(np.stack([group, ids]), axis=1, return_counts=True)
    for (number, subword), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
        rows.add(item_id=item, what=WORD, method=NAME, group=names[number], start=subword, n=count)


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Yield surprisal, top-1 accuracy and the share that stays right by layer, over all and by construct."""
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
    """Yield the same scores through maps that are trained on the training split."""
    state_rows = scoring.observations.filter(pl.col("what") == STATE).collect()
    is_measured = pl.col("item_id").is_in(sorted(fits.measured_items))
    train = state_rows.filter(~is_measured & (pl.int_range(pl.len()).over("item_id") < TRAINING_SUBWORDS))
    measured_rows = state_rows.filter(is_measured)
    if scoring.model is None or train.is_empty() or measured_rows.is_empty():
        yield left_out(template, "no function of the training split to train the maps of layers on")
        return
    from sonde.models import load_model
    from sonde.training.tuned_lens import LayerHead, score_with_translators, train_translators

    head = LayerHead(load_model(scoring.model))
    # In an order of its own, so that the steps of a training see functions of all kinds.
    order = sorted(range(train.height), key=lambda row: unit_hash("tuned", train["item_id"][row], row))
    translators = train_translators(head, unpack_states(train[order]))
    gold = measured_rows["start"].cast(pl.Int64).to_numpy(writable=True)
    nats, rank = score_with_translators(head, translators, unpack_states(measured_rows), gold)
    names = measured_rows["group"].unique().sort().to_list()
    group = measured_rows["group"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    items = measured_rows["item_id"].to_numpy()
    rows = RowBuilder()
    for item in dict.fromkeys(items.tolist()):
        is_item = items == item
        _add_layers(rows, item, TUNED_LENS, (nats[:, is_item], rank[:, is_item]), names, group[is_item])
    yield from _of_method(rows.frame(), scoring, dataclasses.replace(template, k=train.height))


def _by_layer(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    metrics = [
        Mean(BITS, pl.col("after"), "nonnegative", per=pl.col("n"), factor=_FACTOR),
        Mean("top1", pl.col("hits"), per=pl.col("n")),
        Mean("settled", pl.col("settled"), per=pl.col("n")),
    ]
    yield from means_by_construct(rows, metrics, template, pl.col("n"), ("layer",))


def _first_layers(rows: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Yield the mean first layer from which the right subword stays ranked first, of those that end there.

    What stays from layer l on is counted at l and at every later layer, so that the last layer's number times
    its count, less the counts of all layers before, is the sum of first layers.
    """
    last = pl.col("layer").max()
    settled_count = pl.col("settled").filter(pl.col("layer") == last).sum()
    earlier_count = pl.col("settled").filter(pl.col("layer") < last).sum()
    first = rows.group_by("item_id", "cluster", "group", maintain_order=True).agg(
        first=last * settled_count - earlier_count, settled=settled_count
    )
    metrics = [Mean("first_layer", pl.col("first"), "nonnegative", per=pl.col("settled"))]
    settled_rows = first.filter(pl.col("settled") > 0)
    yield from means_by_construct(settled_rows, metrics, template, pl.col("settled"))


def _unigram(scoring: ScoringContext, template: Score) -> Iterator[Score]:
    """Yield the surprisal of the same subwords by their frequency in training, with add-one smoothing."""
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
    yield from means_by_construct(words, metrics, template, pl.col("n"))


def means_by_construct(
    rows: pl.DataFrame, metrics: Sequence[Mean], template: Score, size: pl.Expr, columns: Sequence[str] = ()
) -> Iterator[Score]:
    """Yield means over all subwords, and by construct."""
    yield from means(rows, metrics, template, columns=columns)
    by = {"construct": pl.col("group")}
    yield from means(rows, metrics, template, by=by, columns=columns, minimum=MINIMUM_SUBWORDS, size=size)
