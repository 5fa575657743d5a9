"""Means of observations by group, differences between groups, and sums by cell.

A lens declares the values (`Mean`), the rows and the columns that form groups. Observations are summed by
group and cluster in place, so a lazy table may be larger than memory; the kind of number decides the
interval.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from scipy import sparse

from sonde.results.schema import Dimensions
from sonde.results.scores import Score, rows_of
from sonde.stats.estimate import ClusterSums, Contributions, Estimates, differences, of_ratios, ratios
from sonde.stats.intervals import DIFFERENCE_OF, Column, Kind
from sonde.stats.resampling import noise_of_draws, over_draws

Table = pl.DataFrame | pl.LazyFrame


By = str | Sequence[str] | Mapping[str, pl.Expr]
"""Columns that form groups and become dimensions of the scores; a mapping gives expressions by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """A mean over the rows of a table, or a ratio of two sums; rows without a value do not count.

    Attributes:
        metric: Metric of the scores.
        of: The value of each row.
        kind: Kind of the values, which decides the interval; ``difference``: each value is itself a
            difference of two numbers between 0 and 1.
        per: Denominator, for example bytes; None counts rows.
        baseline: A second value of the same rows, whose mean is subtracted; a row needs both.
        squares: Of differences of 0/1, the squared differences of rows; None where a row is one example.
        draws: Where ``of`` is the mean over random draws, its value in each draw: the variance between draws
            enters the interval.
        factor: Multiplies values and intervals (nats to bits).
        fields: Further columns of the scores, for example ``k``.
    """

    metric: str
    of: pl.Expr
    kind: Kind = "proportion"
    per: pl.Expr | None = None
    less: pl.Expr | None = None
    squares: pl.Expr | None = None
    draws: Sequence[pl.Expr] = ()
    factor: float = 1.0
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def estimated(self) -> Kind:
        """Return the kind of the estimate: that of the values, or of their difference."""
        return self.kind if self.less is None else DIFFERENCE_OF[self.kind]


def means(
    frame: Table,
    wanted: Iterable[Mean],
    template: Score,
    *,
    by: By = (),
    columns: Sequence[str] = (),
    cluster: str = "cluster",
    minimum: int = 1,
    counted: pl.Expr | None = None,
) -> Iterator[Score]:
    """Compute each mean in each group, with its interval: mean by mean, groups in order.

    The intraclass correlation of a proportion is pooled over the groups of one call.

    Args:
        frame: The observations, or sums of them by group and cluster.
        mean_specs: The means.
        template: What the scores share; the dimensions of a group are added to its own.
        by: Columns that form groups; a row with null is in none.
        columns: Further columns that form groups; they fill columns of the scores, for example ``language``.
        cluster: Column of the independent units.
        minimum: Smallest total of ``size`` that a group needs.
        size: Summed over rows; None counts them.
    """
    asked = list(wanted)
    held = _added(frame, asked, by, columns, cluster, minimum, counted)
    templates = held.templates(template)
    for place, one in enumerate(asked):
        weights = held.of("w", place)
        found, parts = held.estimates(one, place), held.contributions(one, place)
        yield from _rows(found, one, templates, weights.total(weights.w), parts)


def mean_differences(
    frame: Table,
    wanted: Iterable[Mean],
    template: Score,
    between: tuple[str, Any, Any],
    *,
    by: By = (),
    columns: Sequence[str] = (),
    cluster: str = "cluster",
) -> Iterator[Score]:
    """Compute how much greater each mean is in some rows than in others; both may share clusters.

    Args:
        frame: As for `means`.
        mean_specs: The means.
        template: What the scores share.
        contrast: A column and two of its values; the mean of the rows with the second is subtracted. It
            becomes the first dimension, as ``first-second``.
        by: As for `means`; a group that lacks one side has no score.
        columns: As for `means`.
        cluster: As for `means`.
    """
    column, *values = between
    asked = list(wanted)
    sides = [pl.col(column) == value for value in values]
    split = [
        dataclasses.replace(
            one,
            of=pl.when(side).then(one.of),
            draws=[pl.when(side).then(draw) for draw in one.draws],
        )
        for side in sides
        for one in asked
    ]
    held = _added(frame.filter(pl.any_horizontal(sides)), split, by, columns, cluster)
    written = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    templates = held.templates(template.within((column, "-".join(written))))
    for place, one in enumerate(asked):
        first, second = held.of("x", place), held.of("x", len(asked) + place)
        found = differences(first, second, DIFFERENCE_OF[one.kind])
        drawn = held.drawn(one, place) - held.drawn(one, len(asked) + place)
        found = over_draws(found, DIFFERENCE_OF[one.kind], drawn, first)
        yield from _rows(found, one, templates, first.total(first.w) + second.total(second.w))


def cells(
    frame: Table, values: Sequence[pl.Expr], by: Sequence[str], *, cluster: str = "cluster"
) -> sparse.csr_array:
    """Sum values by cluster and cell, for statistics of several sums at once.

    Args:
        frame: The observations.
        values: Expressions to sum.
        cell_columns: Columns that form cells.
        cluster: Column of the independent units.

    Returns:
        ``cluster (value cell)``: a row a cluster, and in it the cells of the first value, then those of the
        second. Cells are all combinations of what the columns hold, in order, the last column fastest.
    """
    added = [value.cast(pl.Float64).sum().alias(f"v{place}") for place, value in enumerate(values)]
    sums = _collected(frame.lazy().group_by(cluster, *by).agg(added), frame).sort(cluster, *by)
    row, *codes = (_codes(sums[column]) for column in (cluster, *by))
    sizes = [int(code.max(initial=0)) + 1 for code in codes]
    cell, size = np.ravel_multi_index(codes, sizes), int(np.prod(sizes))
    table = sparse.coo_array(
        (
            np.concatenate([sums[f"v{place}"].to_numpy() for place in range(len(values))]),
            (np.tile(row, len(values)), np.concatenate([cell + size * at for at in range(len(values))])),
        ),
        shape=(int(row.max(initial=0)) + 1, size * len(values)),
    )
    return table.tocsr()


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums of all requested means.

    Attributes:
        sums: A row a group (``_group``) and cluster (``_cluster``), in order; of each mean, by its index, the
            sums of values ``x``, weights ``w``, subtracted values ``y`` and squares ``s``.
        groups: Fields and dimensions of each group.
        clusters: Name of each cluster, by its number.
    """

    sums: pl.DataFrame
    groups: Sequence[tuple[Mapping[str, Any], Dimensions]]
    clusters: np.ndarray

    def of(self, column: str, place: int) -> ClusterSums:
        """Return the sums of a column and the weights of the mean at ``index``."""
        group, cluster, x, w = (
            self.sums[name].to_numpy() for name in ("_group", "_cluster", f"{column}{place}", f"w{place}")
        )
        return ClusterSums(group, cluster, x, w, len(self.groups))

    def estimates(self, one: Mean, place: int) -> Estimates:
        """Estimate the mean at ``index`` in every group."""
        own = self.of("x", place)
        squares = self.of("s", place) if one.estimated == "difference" else None
        total = None if squares is None else squares.total(squares.x)
        if one.less is not None:
            return differences(own, self.of("y", place), one.estimated, discordant=total)
        return over_draws(ratios(own, one.kind, squares=total), one.kind, self.drawn(one, place), own)

    def drawn(self, one: Mean, place: int) -> Float[np.ndarray, "draw group"]:
        """Compute the mean at ``index`` in each of its random draws."""
        held = [self.of(f"d{number}_", place) for number in range(len(one.draws))]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = [sums.total(sums.x) / sums.total(sums.w) for sums in held]
        return np.array(found).reshape(len(found), len(self.groups))

    def contributions(self, one: Mean, place: int) -> Iterator[Contributions]:
        """Return the contribution of each cluster to the mean at ``index``, group by group."""
        own = self.of("x", place)
        if one.less is not None:
            own = dataclasses.replace(own, x=own.x - self.of("y", place).x)
        parts = of_ratios(dataclasses.replace(own, x=own.x * one.factor), self.clusters, one.estimated)
        drawn = self.drawn(one, place) * one.factor
        if len(drawn) <= 1:
            return parts
        return (
            dataclasses.replace(part, noise=((float(variance), len(drawn) - 1),))
            for part, variance in zip(parts, noise_of_draws(drawn), strict=True)
        )

    def templates(self, template: Score) -> list[Score]:
        """Build the score template of each group."""
        return [
            dataclasses.replace(template, dimensions=(*template.dimensions, *inner), **fields)
            for fields, inner in self.groups
        ]


def _added(
    frame: Table,
    asked: Sequence[Mean],
    by: By,
    columns: Sequence[str],
    cluster: str,
    minimum: int = 1,
    counted: pl.Expr | None = None,
) -> _Sums:
    named = [by] if isinstance(by, str) else by
    makes = named if isinstance(named, Mapping) else {name: pl.col(name) for name in named}
    # The first key makes one group of all rows where there is no other.
    values = [pl.lit(0), *map(pl.col, columns), *makes.values()]
    keys = [f"_key{place}" for place in range(len(values))]
    # What is added up is made first: sums of plain columns are much faster than sums of expressions.
    rows = frame.lazy().select(
        *(value.alias(key) for key, value in zip(keys, values, strict=True)),
        pl.col(cluster).alias("_cluster"),
        (pl.lit(1) if counted is None else counted).alias("_size"),
        *(part for place, one in enumerate(asked) for part in _parts(one, place)),
    )
    sums = _collected(rows.drop_nulls(keys).group_by(*keys, "_cluster").sum(), frame)
    sizes = sums.group_by(keys).agg(pl.col("_size").sum()).filter(pl.col("_size") >= minimum)
    groups = sizes.sort(keys).with_row_index("_group")
    held = sums.join(groups.select("_group", *keys), on=keys)
    dense = pl.col("_cluster").rank("dense").cast(pl.Int64) - 1
    within = 1 + len(columns)
    texts = groups.select(pl.col(keys).cast(pl.String)).rows()
    return _Sums(
        held.with_columns(pl.col("_group").cast(pl.Int64), _cluster=dense).sort("_group", "_cluster"),
        [
            (
                dict(zip(columns, own[1:within], strict=True)),
                tuple(zip(makes, text[within:], strict=True)),
            )
            for own, text in zip(groups.select(keys).rows(), texts, strict=True)
        ],
        held["_cluster"].unique().sort().to_numpy(),
    )


def _rows(
    found: Estimates,
    one: Mean,
    templates: Sequence[Score],
    n: Column,
    contributions: Iterable[Contributions] | None = None,
) -> Iterator[Score]:
    fields = {"metric": one.metric, **({"seeds": len(one.draws)} if one.draws else {}), **one.fields}
    return rows_of(found, templates, n, factor=one.factor, fields=fields, contributions=contributions)


def _parts(one: Mean, place: int) -> Iterator[pl.Expr]:
    """Yield the expressions whose sums a mean needs."""
    number = one.of.cast(pl.Float64)
    known, apart = one.of.is_not_null(), number
    sums = {"x": number, "w": pl.lit(1.0) if one.per is None else one.per}
    sums |= {f"d{number}_": draw for number, draw in enumerate(one.draws)}
    if one.less is not None:
        sums["y"] = one.less.cast(pl.Float64)
        known, apart = known & one.less.is_not_null(), number - sums["y"]
    if one.estimated == "difference":
        sums["s"] = apart**2 if one.squares is None else one.squares
    for name, value in sums.items():
        yield pl.when(known).then(value).cast(pl.Float64).alias(f"{name}{place}")


def _collected(sums: pl.LazyFrame, source: Table) -> pl.DataFrame:
    """Collect sums: streaming for lazy tables, in memory for the others."""
    return sums.collect(engine="streaming" if isinstance(source, pl.LazyFrame) else "in-memory")


def _codes(series: pl.Series) -> Int[np.ndarray, " row"]:
    return series.to_physical().rank("dense").cast(pl.Int64).to_numpy() - 1


MATCHED = "matched"
"""Metric: the share of one side's observations that lie in cells which the other side has too."""


def matched_cells(
    sums: pl.DataFrame, sides: tuple[str, str, str], by: Sequence[str], value: str, weight: str
) -> pl.DataFrame:
    """Return the cells that both sides have.

    >>> sums = pl.DataFrame(
    ...     {"stratum": "a", "side": ["old", "new"], "bits": [20.0, 15.0], "bytes": [20.0, 5.0]}
    ... )
    >>> match_cells(sums, ("side", "old", "new"), ["stratum"], "bits", "bytes").row(0)
    ('a', 4.0, 4.0, 12.0, 25.0)

    Args:
        sums: A row a side and cell.
        sides: Column that separates the sides, and its two values.
        cell_columns: Columns that form cells, the cluster among them.
        value: Column of the sums whose ratio to the weights is compared.
        weight: Column of the weights, for example bytes.

    Returns:
        The columns ``cell_columns`` and ``w``, the means ``first`` and ``second`` of the sides times ``w``,
        and in ``held`` the weights of both sides. The sum of ``second`` less that of ``first``, over that of
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
    """Add a column ``matched``: the weight of a cell that several sides have, else 0.

    Args:
        sums: A row a side and cell.
        side: Column that separates the sides.
        cell_columns: Columns that form cells.
        weight: Column of the weights.
    """
    sides = pl.col(side).filter(pl.col(weight) > 0).n_unique().over(by)
    return sums.with_columns(pl.when(sides > 1).then(weight).otherwise(0).alias(MATCHED))


_BATCH_ROWS = 25_000


_PENDING_ROWS = 50_000


_QUANTUM = 2.0**-30


def whole(value: pl.Expr) -> pl.Expr:
    """Convert to fixed point (multiples of 2^-30), so that sums are independent of the order of rows.

    Nine decimals are finer than what models repeat; 2^63 of these units are 8.6e9.
    """
    return (value.cast(pl.Float64) / _QUANTUM).round().cast(pl.Int64)


def whole_items(observations: pl.LazyFrame, item: str = "item_id") -> Iterator[pl.DataFrame]:
    """Iterate batches that never split an item; at least one batch, even if it is empty.

    Args:
        observations: A table in which the rows of an item are adjacent.
        item: Column of the item ids.
    """
    held = observations.head(0).collect()
    for batch in observations.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
        held = pl.concat([held, batch])
        if held.height < _BATCH_ROWS:
            continue
        last = held[item] == held[item][-1]
        if not last.all():
            yield held.filter(~last)
            held = held.filter(last)
    yield held


@dataclass(slots=True)
class Accumulator:
    """Sums by key, merged whenever enough parts are pending.

    Attributes:
        keys: Columns that form groups, the cluster among them.
        real: Columns in fixed point, see `to_fixed_point`.
    """

    keys: tuple[str, ...]
    real: Collection[str] = ()
    _waiting: list[pl.DataFrame] = field(default_factory=list)
    _rows: int = 0

    def add(self, part: pl.DataFrame) -> None:
        """Add the sums of one batch."""
        self._waiting.append(part)
        self._rows += part.height
        if self._rows > _PENDING_ROWS and len(self._waiting) > 1:
            total = self.added()
            # Where nearly every row is its own group, waiting longer saves work.
            self._waiting, self._rows = [total], max(0, total.height - _PENDING_ROWS // 2)

    def added(self) -> pl.DataFrame:
        """Merge all sums, in fixed point, one row a key, as another accumulator of these keys takes them."""
        return pl.concat(self._waiting).group_by(self.keys).sum()

    def total(self) -> pl.DataFrame:
        """Return all sums as real numbers, one row a key, sorted by key."""
        frame = self.added().sort(self.keys)
        return frame.with_columns(pl.col(name) * _QUANTUM for name in self.real if name in frame.columns)
