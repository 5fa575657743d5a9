"""Activation patching: where a model keeps which variable is right, and how the answer follows.

States of one function are put into another's. Two variables are exchanged everywhere except at one place, so
that the other one becomes right there (`sonde.tasks.engine.pairs`). States of the clean function, put into
the corrupt one, restore the right answer where they suffice for it; corrupt states, put into the clean
function, lose it where they are needed (Zhang and Nanda 2024). Gradients first estimate the effect of every
cell (attribution patching, Nanda 2023). The cells that they select on the training split are patched on the
other splits; some cells drawn at random show how far the estimate can be trusted.

Scores say how far an answer follows the patched states, as ratios of sums over pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from sonde.capture.interventions import DIRECTIONS, PatchCell, PatchedItem, Patches, TextPair
from sonde.capture.requests import Pass, Plain, Prepared
from sonde.corpora import Item
from sonde.languages import has_facet
from sonde.lenses.causal.interventions import (
    FittedIntervention,
    FittedInterventions,
    RowBuilder,
    read_options,
)
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ScoringContext
from sonde.results import Mean, left_out, means, spearman_rows
from sonde.results.scores import Score
from sonde.tasks.engine.bugs import RandomChoice
from sonde.tasks.engine.pairs import VariableExchange, iterate_exchanges

NAME = "patch"


PAIR, CELL = "pair", "cell"
"""What the rows of this method are: a pair, and what putting states into one of its texts did."""


RANDOM_CELL = "drawn"
"""Group of cells that were drawn at random."""


CELLS = {
    "place": ("place",),
    "definition": ("definition",),
    "uses": ("uses",),
    "rival": ("rival",),
    "names": ("rival", "uses", "definition"),
    "other": ("other",),
}
"""Cells by name, with the roles of their subwords: where the model answers, the right variable's first place,
its further ones, the places of the variable that it is exchanged with, all of these names, and the rest."""


MAXIMUM_EXCHANGES = 5
"""Exchanges of a function that are cut into subwords; the first that is cut alike is read."""


def describe_plan(labels: Mapping[str, pl.DataFrame], settings: LensSettings) -> str:
    """Describe how many cells are patched in each pair of functions."""
    options = read_options(settings)
    return (
        f"if two variables can be swapped, up to {options.patched_cells} cells (layer, role of a position, "
        f"direction) are patched, and {options.drawn_cells} random ones"
    )


def make_text_pairs(item: Item, seed: int) -> tuple[TextPair, ...]:
    """Return exchanges of variables of a function, in the order in which they are tried.

    Empty in a language without variables.
    """
    if not (has_facet(item.language, "misuse") and has_facet(item.language, "flow")):
        return ()
    exchanges = iterate_exchanges(item.text, item.language, RandomChoice("patch", seed, item.item_id))
    return tuple(_pair(exchange) for exchange in itertools.islice(exchanges, MAXIMUM_EXCHANGES))


def _pair(exchange: VariableExchange) -> TextPair:
    roles = {
        "rival": tuple((name.start, name.end) for name in exchange.rival),
        "uses": tuple((name.start, name.end) for name in exchange.uses),
        "definition": ((exchange.definition.start, exchange.definition.end),),
    }
    return TextPair(
        exchange.corrupt, exchange.make_misuse(), (exchange.place.start, exchange.place.end), roles
    )


def fit_requests(
    prepared_items: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Request the gradient's estimate of every cell."""
    return _passes(prepared_items, settings, ())


def _passes(
    prepared_items: Sequence[Prepared], settings: LensSettings, cells: Sequence[PatchCell]
) -> list[Pass]:
    pairs = {
        prepared_item.item.item_id: make_text_pairs(prepared_item.item, settings.seed)
        for prepared_item in prepared_items
    }
    random_count = read_options(settings).drawn_cells if settings.stage else 0
    patches = Patches(pairs, CELLS, tuple(cells), random_count, settings.seed)
    return [Pass(Plain(), (patches,), ("decoder", "encoder"), frozenset(pairs))]


def add_fit_rows(
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add a row a pair, and one a cell."""
    for captured_item in captured_items:
        for capture in captured_item.captures:
            if capture.patches is not None:
                _add(rows, captured_item.prepared.item, capture.patches, settings.seed)


def _add(rows: RowBuilder, function: Item, patched_item: PatchedItem, seed: int) -> None:
    pair, item = patched_item.pair, function.item_id
    fields = {
        "item_id": item,
        "what": PAIR,
        "method": NAME,
        "n": patched_item.tried,
        "hits": patched_item.aligned,
    }
    if pair is None:
        rows.add(**fields)
        return
    start, end = pair.place
    swapped = next(
        text_pair.swapped for text_pair in make_text_pairs(function, seed) if text_pair.place == pair.place
    )
    replacement = swapped[start : end + len(swapped) - len(function.text)]
    rows.add(**fields, before=pair.clean, after=pair.corrupt, start=start, end=end, group=replacement)
    for direction_index, direction in enumerate(DIRECTIONS):
        before, target = (pair.corrupt, pair.clean) if direction_index == 0 else (pair.clean, pair.corrupt)
        for layer, name in itertools.product(range(pair.attributed.shape[1]), CELLS):
            cell = direction_index, layer, list(CELLS).index(name)
            change = float(pair.patched[cell])
            rows.add(
                item_id=item, what=CELL, method=NAME, subject=name, kind=direction, layer=layer, n=1,
                group=RANDOM_CELL if pair.drawn[cell] else "", before=before, target=target,
                after=None if np.isnan(change) else before + change,
                guess=float(pair.attributed[cell]),
            )  # fmt: skip


def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterator[FittedIntervention]:
    """Select the cells with the largest attributed effect on the training split, without the last layer."""
    train = [item for item, side in splits.items() if side == "train"]
    rows = scoring.observations.filter((pl.col("what") == CELL) & pl.col("item_id").is_in(train))
    effect = (
        rows.group_by("kind", "layer", "subject", maintain_order=True)
        .agg(pl.col("guess").sum().abs())
        .collect()
    )
    inner = effect.filter(pl.col("layer") < pl.col("layer").max())
    ranked = inner.sort("guess", "kind", "layer", "subject", descending=[True, False, False, False])
    cell_count = read_options(scoring.settings).patched_cells
    for kind, layer, subject in ranked.head(cell_count).select("kind", "layer", "subject").iter_rows():
        yield FittedIntervention(NAME, subject, kind, layer)


def effect_requests(
    fits: FittedInterventions,
    prepared_items: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
) -> list[Pass]:
    """Request the selected cells of the measured functions, and random ones."""
    measured_items = [
        prepared_item for prepared_item in prepared_items if prepared_item.item.item_id in fits.measured_items
    ]
    cells = [
        PatchCell(intervention.kind, intervention.layer, intervention.subject)
        for intervention in fits.for_method(NAME)
    ]
    return _passes(measured_items, settings, cells)


def add_effect_rows(
    fits: FittedInterventions,
    captured_items: Sequence[CapturedItem],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: RowBuilder,
) -> None:
    """Add a row a pair, and one a cell."""
    add_fit_rows(captured_items, labels, settings, rows)


RECOVERED, MARGIN, CHANGE, PREFERS, ALIGNED = (
    "recovered",
    "margin",
    "margin_change",
    "prefers_right",
    "aligned",
)
"""Metrics: the share of the way from one text's margin to the other's that states put there go; the logit of
the variable that is right in the clean text less that of the other; by how much that differs between the two
texts; the share of pairs in which it is positive; and the share of pairs that are cut alike."""


ATTRIBUTION = "attribution"
"""Method of numbers that gradients guess."""


DIRECTION, CELL_NAME, TEXT = "direction", "cell", "text"
"""Dimensions of the scores."""


_BY = {DIRECTION: pl.col("kind"), CELL_NAME: pl.col("subject")}


def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
    """Yield the scores of the pairs of measured functions."""
    template = dataclasses.replace(scoring.template, method=NAME)
    rows = scoring.observations.filter(pl.col("what").is_in([PAIR, CELL])).collect()
    rows = rows.join(scoring.items.select("item_id", "cluster"), on="item_id")
    pairs, cells = rows.filter(pl.col("what") == PAIR), rows.filter(pl.col("what") == CELL)
    yield from _pairs(pairs, template)
    yield from _cells(cells, template)


def _pairs(pairs: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Yield the margins of both texts without patching, and how many pairs align."""
    if pairs.is_empty():
        yield left_out(
            template, "no measured function has two variables that can be exchanged around a place"
        )
        return
    read = pairs.filter(pl.col("before").is_not_null())
    if read.is_empty():
        yield left_out(template, "the model cuts no pair of functions into subwords alike")
    change = pl.col("before") - pl.col("after")
    yield from means(read, [Mean(CHANGE, change, "real")], template)
    for text, margin in (("clean", pl.col("before")), ("corrupt", pl.col("after"))):
        metrics = [Mean(MARGIN, margin, "real"), Mean(PREFERS, margin > 0)]
        yield from means(read, metrics, template.within((TEXT, text)))
    yield from means(pairs, [Mean(ALIGNED, pl.col("hits"), per=pl.col("n"))], template)


def _cells(cells: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Yield the share that patched states recover, by layer and cell."""
    if cells.is_empty():
        return
    guess = Mean(RECOVERED, pl.col("guess"), "real", per=pl.col("target") - pl.col("before"))
    attribution_template = dataclasses.replace(template, method=ATTRIBUTION)
    yield from _score_ratio(cells, guess, attribution_template)
    patched_cells = cells.filter(pl.col("after").is_not_null())
    # A cell that was drawn in some pairs alone says nothing of all.
    is_complete = pl.len().over("kind", "subject", "layer") == cells["item_id"].n_unique()
    real = Mean(
        RECOVERED, pl.col("after") - pl.col("before"), "real", per=pl.col("target") - pl.col("before")
    )
    yield from _score_ratio(patched_cells.filter(is_complete), real, template)
    random_cells = patched_cells.filter(pl.col("group") == RANDOM_CELL)
    if random_cells.height:
        effects = (random_cells["after"] - random_cells["before"]).to_numpy()
        agreement = dataclasses.replace(attribution_template, metric="spearman")
        yield from spearman_rows(
            agreement,
            effects,
            random_cells["guess"].to_numpy(),
            random_cells["cluster"].to_numpy(),
            template.seed,
        )


def _score_ratio(rows: pl.DataFrame, ratio: Mean, template: Score) -> Iterator[Score]:
    """Yield ratios of sums by cell; ``n`` counts pairs, not what the sums are over."""
    pairs = rows["item_id"].n_unique()
    for ratio_score in means(rows, [ratio], template, by=_BY, columns=("layer",)):
        yield dataclasses.replace(ratio_score, n=pairs, contributions=ratio_score.contributions)
