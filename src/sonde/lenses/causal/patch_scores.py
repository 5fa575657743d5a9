"""How far an answer follows the states that are put in its way, as ratios of sums over pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.causal.patch import CELL, DRAWN, NAME, PAIR
from sonde.results import Mean, Score, left_out, means, spearman_rows

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


def score_patches(scoring: Scoring) -> Iterator[Score]:
    """Every number of the pairs of measured functions."""
    template = dataclasses.replace(scoring.template, method=NAME)
    rows = scoring.observations.filter(pl.col("what").is_in([PAIR, CELL])).collect()
    rows = rows.join(scoring.items.select("item_id", "cluster"), on="item_id")
    pairs, cells = rows.filter(pl.col("what") == PAIR), rows.filter(pl.col("what") == CELL)
    yield from _pairs(pairs, template)
    yield from _cells(cells, template)


def _pairs(pairs: pl.DataFrame, template: Score) -> Iterator[Score]:
    """What the model makes of both texts before anything is put anywhere."""
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
        asked = [Mean(MARGIN, margin, "real"), Mean(PREFERS, margin > 0)]
        yield from means(read, asked, template.within((TEXT, text)))
    yield from means(pairs, [Mean(ALIGNED, pl.col("hits"), per=pl.col("n"))], template)


def _cells(cells: pl.DataFrame, template: Score) -> Iterator[Score]:
    """What states suffice for, and what is needed, by layer and cell."""
    if cells.is_empty():
        return
    guess = Mean(RECOVERED, pl.col("guess"), "real", per=pl.col("target") - pl.col("before"))
    guessed = dataclasses.replace(template, method=ATTRIBUTION)
    yield from _counted(cells, guess, guessed)
    patched = cells.filter(pl.col("after").is_not_null())
    # A cell that was drawn in some pairs alone says nothing of all.
    whole = pl.len().over("kind", "subject", "layer") == cells["item_id"].n_unique()
    real = Mean(
        RECOVERED, pl.col("after") - pl.col("before"), "real", per=pl.col("target") - pl.col("before")
    )
    yield from _counted(patched.filter(whole), real, template)
    drawn = patched.filter(pl.col("group") == DRAWN)
    if drawn.height:
        told = (drawn["after"] - drawn["before"]).to_numpy()
        agreement = dataclasses.replace(guessed, metric="spearman")
        yield from spearman_rows(
            agreement, told, drawn["guess"].to_numpy(), drawn["cluster"].to_numpy(), template.seed
        )


def _counted(rows: pl.DataFrame, asked: Mean, template: Score) -> Iterator[Score]:
    """A ratio of sums by cell; what is counted are pairs, not what the sums are over."""
    pairs = rows["item_id"].n_unique()
    for one in means(rows, [asked], template, by=_BY, columns=("layer",)):
        yield dataclasses.replace(one, n=pairs, contributions=one.contributions)
