"""What is scored of every slice: bits, ranks and entropies of its subwords, with clustered intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import polars as pl

from sonde.lenses.surprisal.sums import Sums
from sonde.results import Mean, Score, means
from sonde.results.intervals import DIFFERENCE_OF, Kind

BITS = 1.0 / math.log(2.0)
"""Bits in a nat."""


def ratio(metric: str, over: str, under: str, kind: Kind = "nonnegative", factor: float = 1.0) -> Mean:
    """A sum of one column over that of another."""
    return Mean(metric, pl.col(over), kind, per=pl.col(under), factor=factor)


_PER_SUBWORD = (
    ratio("nats", "nats", "n"),
    ratio("bits", "nats", "n", factor=BITS),
    ratio("top1", "top1", "told", "proportion"),
)
_FULL = (
    *_PER_SUBWORD,
    ratio("top5", "top5", "told", "proportion"),
    ratio("mrr", "reciprocal", "n", "unit"),
    ratio("entropy", "entropy", "n"),
    ratio("nats_per_token", "token_nats", "tokens"),
)
_OVERALL = (*_FULL, ratio("bits_per_byte", "nats", "text_bytes", factor=BITS))
_PER_CHARACTER = (
    ratio("bits_per_character", "nats", "characters", factor=BITS),
    ratio("coverage", "covered", "characters", "proportion"),
)
_NAMES = (ratio("nats_per_token", "nats", "tokens"),)

_UNCHANGED = "coverage"


def overall(sums: Sums, template: Score, *, change: bool = False) -> Iterator[Score]:
    """Scores of all subwords, of code, of layout and of first subwords; of sums of changes, their changes."""
    everything = sums.slices["all"]
    by = {"text": pl.col("slice")}
    for score in means(everything, _asked(_OVERALL, change), template, by=by, columns=("language",)):
        of_all = score.dimensions[-1] == ("text", "all")
        yield dataclasses.replace(score, dimensions=template.dimensions) if of_all else score
    whole = everything.filter(pl.col("slice") == "all").join(sums.characters, on=["language", "cluster"])
    yield from means(whole, _asked(_PER_CHARACTER, change), template, columns=("language",))


def by_slice(sums: Sums, template: Score, minimum: int, *, change: bool = False) -> Iterator[Score]:
    """Scores of every slice of every dimension that holds at least ``minimum`` subwords."""
    tables = [
        *((name, frame, "n") for name, frame in sums.slices.items() if name != "all"),
        ("name", sums.names, "tokens"),
    ]
    for dimension, frame, counted in tables:
        asked = {"subword": _PER_SUBWORD, "name": _NAMES}.get(dimension, _FULL)
        yield from means(
            frame,
            _asked(asked, change),
            template,
            by={dimension: pl.col("slice")},
            columns=("language",),
            minimum=minimum,
            counted=pl.col(counted),
        )


def _asked(metrics: Sequence[Mean], change: bool) -> list[Mean]:
    """What is asked of sums, or of how far sums changed: then what had bounds has others.

    Changes of what lies between 0 and 1 have their squares in a column that ends in ``_apart``.
    """
    if not change:
        return list(metrics)
    return [
        dataclasses.replace(
            one, kind=DIFFERENCE_OF[one.kind], squares=pl.col(f"{one.of.meta.output_name()}_apart")
        )
        for one in metrics
        if one.metric != _UNCHANGED
    ]
