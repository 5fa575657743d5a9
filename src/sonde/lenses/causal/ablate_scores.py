"""What ablating the heads of a relation costs, at its dependents and elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.causal.ablate import ELSEWHERE, HEADS, NAME, RANDOM, TASK
from sonde.lenses.causal.effects import (
    ANSWERS,
    APART,
    SURPRISAL,
    EffectMetrics,
    asked_of,
    controls_of,
    draws_of,
    effects_of,
    excess_of,
)
from sonde.lenses.causal.fits import Fits, FittedChange
from sonde.results import Score, left_out, mean_differences, means

FEWEST = 30
"""Subwords of dependents below which nothing is said of a relation."""


def score_ablations(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of every relation, on test alone: validation took part in choosing heads."""
    template = dataclasses.replace(scoring.template, task=TASK, split="test", method=NAME)
    if TASK not in scoring.labels:
        return
    heads = {one.subject: one for one in fits.of(NAME) if one.kind == HEADS}
    if not heads:
        yield left_out(template, "no relation has enough edges that a head could be chosen for it")
        return
    for of in (SURPRISAL, ANSWERS):
        effects = effects_of(scoring, NAME, fits.splits, of).filter(pl.col("split") == "test")
        for relation, chosen in heads.items():
            rows = effects.filter(pl.col("subject") == relation)
            if not rows.is_empty():
                yield from _of_relation(rows, relation, chosen, template.within(("relation", relation)), of)


def _of_relation(
    rows: pl.DataFrame, relation: str, chosen: FittedChange, template: Score, of: EffectMetrics
) -> Iterator[Score]:
    counted = pl.col("n")
    if chosen.together:
        # The groups of dependents overlap; what is no dependent of "all of them" is everything.
        whole = rows.filter(pl.col("group") == ELSEWHERE)
        yield from means(whole, asked_of(whole, HEADS, of), template, minimum=FEWEST, counted=counted)
        return
    (head,) = chosen.heads
    own = dataclasses.replace(template, layer=chosen.layer, head=head)
    # The others of a layer are what they are, and no draws: only sets of heads are drawn at random.
    rows = rows.drop(draws_of(rows, RANDOM))
    where = pl.when(pl.col("group") == relation).then(pl.lit("here")).otherwise(pl.lit(ELSEWHERE))
    mine = rows.filter(pl.col("group").is_in([relation, ELSEWHERE])).with_columns(where=where)
    asked = asked_of(rows, HEADS, of)
    yield from means(mine, asked, own, by="where", minimum=FEWEST, counted=counted)
    if of is not SURPRISAL:
        return
    others = rows.filter(~pl.col("group").is_in([relation, ELSEWHERE]))
    yield from means(others, asked[:1], own, by={"at": pl.col("group")}, minimum=FEWEST, counted=counted)
    if RANDOM in controls_of(rows, HEADS) and mine["where"].n_unique() == 2:
        apart = [excess_of(rows, HEADS, RANDOM, APART)]
        yield from mean_differences(mine, apart, own, ("where", "here", ELSEWHERE))
