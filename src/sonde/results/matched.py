"""Two sets of observations held against each other over the same mix of strata.

In each cell, a cluster's observations of one stratum, the means of both sides are weighted alike: by
w = a b / (a + b), where a and b are what the sides hold there. A cell that one side lacks weighs nothing.
This is the difference that least squares finds with an effect of its own for every cell (Cochran 1954; the
overlap weights of Li, Morgan and Zaslavsky 2018). Every cluster is compared with itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

MATCHED = "matched"
"""Metric: the share of one side's observations that lie in cells which the other side has too."""


def matched_cells(
    sums: pl.DataFrame, sides: tuple[str, str, str], by: Sequence[str], value: str, weight: str
) -> pl.DataFrame:
    """The cells that both sides have.

    >>> sums = pl.DataFrame(
    ...     {"stratum": "a", "side": ["old", "new"], "bits": [20.0, 15.0], "bytes": [20.0, 5.0]}
    ... )
    >>> matched_cells(sums, ("side", "old", "new"), ["stratum"], "bits", "bytes").row(0)
    ('a', 4.0, 4.0, 12.0, 25.0)

    Args:
        sums: A row a side and cell.
        sides: The column that tells the sides apart, and its two values.
        by: Columns that make cells, the cluster among them.
        value: Column of the sums whose ratio to the weights is compared.
        weight: Column of the weights, for example bytes.

    Returns:
        The columns of ``by``, ``w``, the means of the ``first`` and the ``second`` side times ``w``, and in
        ``held`` the weights of both sides. The sum of ``second`` less that of ``first``, over the sum of
        ``w``, is the matched difference.
    """
    column, *names = sides
    one, other = (
        sums.filter((pl.col(column) == name) & (pl.col(weight) > 0)).select(*by, value, weight)
        for name in names
    )
    a, b = pl.col(weight), pl.col(f"{weight}_right")
    w = a * b / (a + b)
    return (
        one.join(other, on=list(by))
        .select(
            *by,
            w=w,
            first=pl.col(value) / a * w,
            second=pl.col(f"{value}_right") / b * w,
            held=a + b,
        )
        .sort(by)
    )


def in_matched_cells(sums: pl.DataFrame, side: str, by: Sequence[str], weight: str) -> pl.DataFrame:
    """The sums with a column ``matched``: their weight where several sides have the cell, else 0.

    Args:
        sums: A row a side and cell.
        side: The column that tells the sides apart.
        by: Columns that make cells.
        weight: Column of the weights.
    """
    sides = pl.col(side).filter(pl.col(weight) > 0).n_unique().over(by)
    return sums.with_columns(pl.when(sides > 1).then(weight).otherwise(0).alias(MATCHED))
