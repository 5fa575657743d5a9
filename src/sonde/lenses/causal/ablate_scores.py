"""What ablating the heads of a relation costs, at its dependents and elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.causal.ablate import ELSEWHERE, HEADS, NAME, RANDOM, TASK
from sonde.lenses.causal.effects import APART, asked_of, change, controls_of, effects_of
from sonde.lenses.causal.fits import Fits
from sonde.results import Score, left_out, mean_differences, means

FEWEST = 30
"""Subwords of dependents below which nothing is said of a relation."""


def score(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of every relation, on test alone: validation took part in choosing heads."""
    template = dataclasses.replace(scoring.template, task=TASK, split="test", method=NAME)
    if TASK not in scoring.labels:
        return
    heads = {one.subject: one for one in fits.of(NAME) if one.kind == HEADS}
    if not heads:
        yield left_out(template, "no relation has enough edges that a head could be chosen for it")
        return
    effects = effects_of(scoring, NAME, fits.splits).filter(pl.col("split") == "test")
    for relation, chosen in heads.items():
        rows = effects.filter(pl.col("subject") == relation)
        if rows.is_empty():
            continue
        own = template.within(("relation", relation))
        if chosen.together:
            # The groups of dependents overlap; what is no dependent of "all of them" is everything.
            whole = rows.filter(pl.col("group") == ELSEWHERE)
            yield from means(
                whole, asked_of(HEADS, controls_of(whole, HEADS)), own, minimum=FEWEST, counted=pl.col("n")
            )
            continue
        (head,) = chosen.heads
        own = dataclasses.replace(own, layer=chosen.layer, head=head)
        where = pl.when(pl.col("group") == relation).then(pl.lit("here")).otherwise(pl.lit(ELSEWHERE))
        controls = controls_of(rows, HEADS)
        mine = rows.filter(pl.col("group").is_in([relation, ELSEWHERE])).with_columns(where=where)
        asked = asked_of(HEADS, controls)
        yield from means(mine, asked, own, by="where", minimum=FEWEST, counted=pl.col("n"))
        others = rows.filter(~pl.col("group").is_in([relation, ELSEWHERE]))
        yield from means(
            others, asked[:1], own, by={"at": pl.col("group")}, minimum=FEWEST, counted=pl.col("n")
        )
        if RANDOM in controls and mine["where"].n_unique() == 2:
            apart = [change(APART, pl.col(HEADS) - pl.col(RANDOM), RANDOM)]
            yield from mean_differences(mine, apart, own, ("where", "here", ELSEWHERE))
