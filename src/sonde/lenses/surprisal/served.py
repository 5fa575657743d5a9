"""What is not known of a text that a server scored: it gives log-probabilities, and of the rest a part."""

from __future__ import annotations

import polars as pl

_BY_ENTROPY = ("entropy",)
_BY_EVERY_RANK = ("mrr",)
_BY_ALTERNATIVES = ("top1", "top5", "accuracy", "confidence", "ece")


def unknown_metrics(observations: pl.LazyFrame) -> frozenset[str]:
    """Metrics that the observations of a server cannot give.

    A rank beyond the alternatives that a server lists is not known, but that it is beyond them is: so the
    shares of subwords that are the best, or among the five best, are known, and a mean of reciprocal ranks is
    not.
    """
    counted = pl.col("entropy", "rank").null_count()
    (held,) = observations.select(counted, listed=pl.col("top").list.len().max()).collect().to_dicts()
    lacking = [
        *(_BY_ENTROPY if held["entropy"] else ()),
        *(_BY_EVERY_RANK if held["rank"] else ()),
        *(_BY_ALTERNATIVES if not held["listed"] else ()),
    ]
    return frozenset(lacking)
