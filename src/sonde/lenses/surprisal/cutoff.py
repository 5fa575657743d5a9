"""Functions from before a day against those since, over the same mix of constructs.

A model that has read the older code predicts it better than newer code of the same kind. Both times are
compared within each cluster, construct and reach of context, so that neither other repositories nor other
constructs, nor longer functions, make the difference. The same of random weights says what the texts alone
do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses.surprisal.sums import BITS
from sonde.results import Mean, Score, means
from sonde.results.group_means import MATCHED_SHARE, mark_matched_cells, match_cells, to_fixed_point
from sonde.results.headlines import AFTER_CUTOFF, BEFORE_CUTOFF, CUTOFF_CHANGE, PERIOD

RANDOM_WEIGHTS = "random_weights"


_REACHES = (16, 64, 256)
"""Subwords of context at which another stratum begins: the first subwords of a text cost the most."""


_WEIGHTS = {"bits_per_byte": "bytes", "bits": "subwords"}


_CELL = ("cluster", "construct", "reach")


_SIDES = (PERIOD, BEFORE_CUTOFF, AFTER_CUTOFF)


_QUANTUM = 2.0**-30


def items_by_period(items: pl.DataFrame) -> pl.DataFrame:
    """``item_id, cluster, period`` of the items that lie on one side of a day; none in a run without one."""
    if PERIOD not in items.columns:
        return pl.DataFrame(schema=dict.fromkeys(("item_id", "cluster", PERIOD), pl.String))
    return items.filter(pl.col(PERIOD).is_in(_SIDES[1:])).select("item_id", "cluster", PERIOD)


def period_scores(
    observations: pl.LazyFrame,
    controls: list[pl.LazyFrame],
    periods: pl.DataFrame,
    template: Score,
    minimum: int,
) -> Iterator[Score]:
    """Both times, their difference, how much of each could be matched, and the same of random weights.

    Args:
        observations: The model's item table.
        controls: Those of random weights over the same items.
        periods: See `items_by_period`; where it is empty there are no scores.
        template: What the scores share.
        minimum: Fewest subwords that a construct needs for a row of its own that says how many were matched.
    """
    if periods.is_empty():
        return
    own = _sums(observations, periods)
    yield from _matched_shares(own, template, minimum)
    for metric, weight in _WEIGHTS.items():
        cells = match_cells(own, _SIDES, _CELL, "nats", weight)
        yield from _of_times(cells, metric, template)
        for control in controls:
            other = match_cells(_sums(control, periods), _SIDES, _CELL, "nats", weight)
            yield from _of_times(other, metric, dataclasses.replace(template, control=RANDOM_WEIGHTS))
            yield from _score_excess(cells, other, metric, template)


def _sums(observations: pl.LazyFrame, periods: pl.DataFrame) -> pl.DataFrame:
    """By cluster, construct, reach and period: ``nats``, ``bytes`` and ``subwords``."""
    layout = pl.col("kind") == "layout"
    rows = observations.filter(pl.col("kind") != "pad").select(
        "item_id",
        construct=pl.when(layout).then(pl.lit("layout")).otherwise(pl.col("construct")),
        reach=sum((pl.col("context") >= least).cast(pl.Int64) for least in _REACHES),
        nats=to_fixed_point(pl.col("nats")),
        bytes=pl.col("text_bytes").cast(pl.Int64),
    )
    added = (
        rows.join(periods.lazy(), on="item_id")
        .group_by(*_CELL, PERIOD)
        .agg(pl.col("nats", "bytes").sum(), subwords=pl.len().cast(pl.Int64))
    )
    return added.collect(engine="streaming").sort(*_CELL, PERIOD).with_columns(pl.col("nats") * _QUANTUM)


def _of_times(cells: pl.DataFrame, metric: str, template: Score) -> Iterator[Score]:
    """What a unit of text costs in either time, over the same mix, and the difference."""
    earlier, later = (
        Mean(metric, pl.col(side), "nonnegative", per=pl.col("w"), factor=BITS)
        for side in ("first", "second")
    )
    change = dataclasses.replace(later, baseline=pl.col("first"))
    for period, mean in ((BEFORE_CUTOFF, earlier), (AFTER_CUTOFF, later), (CUTOFF_CHANGE, change)):
        yield from _clear_weights(means(cells, [mean], template.within((PERIOD, period))), cells)


def _score_excess(
    cells: pl.DataFrame, control: pl.DataFrame, metric: str, template: Score
) -> Iterator[Score]:
    """By how much the difference is greater than that of random weights over the same cells."""
    both = cells.join(control, on=_CELL)
    mean = Mean(
        metric,
        pl.col("second") - pl.col("first"),
        "real",
        per=pl.col("w"),
        baseline=pl.col("second_right") - pl.col("first_right"),
        factor=BITS,
        fields={"compared_to": RANDOM_WEIGHTS},
    )
    yield from _clear_weights(means(both, [mean], template.within((PERIOD, CUTOFF_CHANGE))), both)


def _clear_weights(scores: Iterator[Score], cells: pl.DataFrame) -> Iterator[Score]:
    """Scores over what both times hold: their weights are no counts."""
    for score in scores:
        yield dataclasses.replace(score, n=int(cells["held"].sum()))


def _matched_shares(sums: pl.DataFrame, template: Score, minimum: int) -> Iterator[Score]:
    """The share of each time's bytes that has its like in the other, in all and by construct."""
    rows = mark_matched_cells(sums, PERIOD, _CELL, "bytes")
    share = Mean(MATCHED_SHARE, pl.col(MATCHED_SHARE), "proportion", per=pl.col("bytes"))
    for by in ((PERIOD,), (PERIOD, "construct")):
        yield from means(rows, [share], template, by=by, minimum=minimum, size=pl.col("subwords"))
