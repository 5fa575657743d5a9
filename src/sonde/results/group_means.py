"""Means of observations by group, differences between groups, and sums by cell.

A lens declares the values (`Mean`), the rows and the columns that form groups. Observations are summed by
group and cluster in place, so a lazy table may be larger than memory; the kind of number decides the
interval.

Two sets of observations can be compared over the same mix of strata (`match_cells`). In each cell, a
cluster's observations of one stratum, the means of both sides are weighted alike: by w = a b / (a + b), where
a and b are the amounts on the two sides. A cell that one side lacks weighs nothing. This is the difference
that least squares finds with a separate effect for every cell (Cochran 1954; the overlap weights of Li,
Morgan and Zaslavsky 2018). Every cluster is compared with itself.

`Accumulator` and `iterate_item_batches` sum tables larger than memory for lenses whose rows only have meaning
beside the other rows of an item: batches of whole items are added one by one, and only the sums of a batch
are kept. If rows mean something independently, `sonde.results.means` of a lazy table does as much.
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
from sonde.results.scores import Score, estimates_to_scores
from sonde.stats.estimate import (
    ClusterSums,
    Contributions,
    Estimates,
    estimate_differences,
    estimate_ratios,
    ratio_contributions,
)
from sonde.stats.intervals import DIFFERENCE_OF, GroupValues, Kind
from sonde.stats.resampling import add_draw_noise, control_draw_variance

Frame = pl.DataFrame | pl.LazyFrame


GroupBy = str | Sequence[str] | Mapping[str, pl.Expr]
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
    baseline: pl.Expr | None = None
    squares: pl.Expr | None = None
    draws: Sequence[pl.Expr] = ()
    factor: float = 1.0
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def estimate_kind(self) -> Kind:
        """Return the kind of the estimate: that of the values, or of their difference."""
        return self.kind if self.baseline is None else DIFFERENCE_OF[self.kind]


def means(
    frame: Frame,
    mean_specs: Iterable[Mean],
    template: Score,
    *,
    by: GroupBy = (),
    columns: Sequence[str] = (),
    cluster: str = "cluster",
    minimum: int = 1,
    size: pl.Expr | None = None,
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
    specs = list(mean_specs)
    sums = _sum_groups(frame, specs, by, columns, cluster, minimum, size)
    templates = sums.templates(template)
    for index, spec in enumerate(specs):
        weights = sums.column_sums("w", index)
        estimates, parts = sums.estimates(spec, index), sums.contributions(spec, index)
        yield from _build_scores(estimates, spec, templates, weights.total(weights.w), parts)


def mean_differences(
    frame: Frame,
    mean_specs: Iterable[Mean],
    template: Score,
    contrast: tuple[str, Any, Any],
    *,
    by: GroupBy = (),
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
    column, *values = contrast
    specs = list(mean_specs)
    sides = [pl.col(column) == value for value in values]
    split = [
        dataclasses.replace(
            spec,
            of=pl.when(side).then(spec.of),
            draws=[pl.when(side).then(draw) for draw in spec.draws],
        )
        for side in sides
        for spec in specs
    ]
    sums = _sum_groups(frame.filter(pl.any_horizontal(sides)), split, by, columns, cluster)
    labels = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    templates = sums.templates(template.within((column, "-".join(labels))))
    for index, spec in enumerate(specs):
        first, second = sums.column_sums("x", index), sums.column_sums("x", len(specs) + index)
        estimates = estimate_differences(first, second, DIFFERENCE_OF[spec.kind])
        draw_values = sums.draw_means(spec, index) - sums.draw_means(spec, len(specs) + index)
        estimates = add_draw_noise(estimates, DIFFERENCE_OF[spec.kind], draw_values, first)
        yield from _build_scores(estimates, spec, templates, first.total(first.w) + second.total(second.w))


def cells(
    frame: Frame, values: Sequence[pl.Expr], cell_columns: Sequence[str], *, cluster: str = "cluster"
) -> sparse.csr_array:
    """Sum values by cluster and cell, for statistics of several sums at once.

    Args:
        frame: The observations.
        values: Expressions to sum.
        cell_columns: Columns that form cells.
        cluster: Column of the independent units.

    Returns:
        ``cluster (value cell)``: a row per cluster, and in it the cells of the first value, then those of the
        second. Cells are all combinations of what the columns hold, in order, the last column fastest.
    """
    sum_exprs = [value.cast(pl.Float64).sum().alias(f"v{index}") for index, value in enumerate(values)]
    sums = _collect(frame.lazy().group_by(cluster, *cell_columns).agg(sum_exprs), frame).sort(
        cluster, *cell_columns
    )
    row, *codes = (_dense_codes(sums[column]) for column in (cluster, *cell_columns))
    sizes = [int(code.max(initial=0)) + 1 for code in codes]
    cell, size = np.ravel_multi_index(codes, sizes), int(np.prod(sizes))
    table = sparse.coo_array(
        (
            np.concatenate([sums[f"v{index}"].to_numpy() for index in range(len(values))]),
            (
                np.tile(row, len(values)),
                np.concatenate([cell + size * index for index in range(len(values))]),
            ),
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

    def column_sums(self, column: str, index: int) -> ClusterSums:
        """Return the sums of a column and the weights of the mean at ``index``."""
        group, cluster, x, w = (
            self.sums[name].to_numpy() for name in ("_group", "_cluster", f"{column}{index}", f"w{index}")
        )
        return ClusterSums(group, cluster, x, w, len(self.groups))

    def estimates(self, spec: Mean, index: int) -> Estimates:
        """Estimate the mean at ``index`` in every group."""
        value_sums = self.column_sums("x", index)
        squares = self.column_sums("s", index) if spec.estimate_kind == "difference" else None
        total = None if squares is None else squares.total(squares.x)
        if spec.baseline is not None:
            return estimate_differences(
                value_sums, self.column_sums("y", index), spec.estimate_kind, discordant=total
            )
        return add_draw_noise(
            estimate_ratios(value_sums, spec.kind, squares=total),
            spec.kind,
            self.draw_means(spec, index),
            value_sums,
        )

    def draw_means(self, spec: Mean, index: int) -> Float[np.ndarray, "draw group"]:
        """Compute the mean at ``index`` in each of its random draws."""
        draw_sums = [self.column_sums(f"d{draw}_", index) for draw in range(len(spec.draws))]
        with np.errstate(divide="ignore", invalid="ignore"):
            values = [sums.total(sums.x) / sums.total(sums.w) for sums in draw_sums]
        return np.array(values).reshape(len(values), len(self.groups))

    def contributions(self, spec: Mean, index: int) -> Iterator[Contributions]:
        """Return the contribution of each cluster to the mean at ``index``, group by group."""
        value_sums = self.column_sums("x", index)
        if spec.baseline is not None:
            value_sums = dataclasses.replace(value_sums, x=value_sums.x - self.column_sums("y", index).x)
        parts = ratio_contributions(
            dataclasses.replace(value_sums, x=value_sums.x * spec.factor), self.clusters, spec.estimate_kind
        )
        draw_values = self.draw_means(spec, index) * spec.factor
        if len(draw_values) <= 1:
            return parts
        return (
            dataclasses.replace(part, noise=((float(variance), len(draw_values) - 1),))
            for part, variance in zip(parts, control_draw_variance(draw_values), strict=True)
        )

    def templates(self, template: Score) -> list[Score]:
        """Build the score template of each group."""
        return [
            dataclasses.replace(template, dimensions=(*template.dimensions, *dimensions), **fields)
            for fields, dimensions in self.groups
        ]


def _sum_groups(
    frame: Frame,
    specs: Sequence[Mean],
    group_by: GroupBy,
    columns: Sequence[str],
    cluster: str,
    minimum: int = 1,
    size: pl.Expr | None = None,
) -> _Sums:
    names = [group_by] if isinstance(group_by, str) else group_by
    group_exprs = names if isinstance(names, Mapping) else {name: pl.col(name) for name in names}
    # The first key makes one group of all rows where there is no other.
    values = [pl.lit(0), *map(pl.col, columns), *group_exprs.values()]
    keys = [f"_key{index}" for index in range(len(values))]
    # What is added up is made first: sums of plain columns are much faster than sums of expressions.
    rows = frame.lazy().select(
        *(value.alias(key) for key, value in zip(keys, values, strict=True)),
        pl.col(cluster).alias("_cluster"),
        (pl.lit(1) if size is None else size).alias("_size"),
        *(part for index, spec in enumerate(specs) for part in _build_terms(spec, index)),
    )
    sums = _collect(rows.drop_nulls(keys).group_by(*keys, "_cluster").sum(), frame)
    sizes = sums.group_by(keys).agg(pl.col("_size").sum()).filter(pl.col("_size") >= minimum)
    groups = sizes.sort(keys).with_row_index("_group")
    group_sums = sums.join(groups.select("_group", *keys), on=keys)
    dense = pl.col("_cluster").rank("dense").cast(pl.Int64) - 1
    n_columns = 1 + len(columns)
    texts = groups.select(pl.col(keys).cast(pl.String)).rows()
    return _Sums(
        group_sums.with_columns(pl.col("_group").cast(pl.Int64), _cluster=dense).sort("_group", "_cluster"),
        [
            (
                dict(zip(columns, key_values[1:n_columns], strict=True)),
                tuple(zip(group_exprs, text[n_columns:], strict=True)),
            )
            for key_values, text in zip(groups.select(keys).rows(), texts, strict=True)
        ],
        group_sums["_cluster"].unique().sort().to_numpy(),
    )


def _build_scores(
    estimates: Estimates,
    spec: Mean,
    templates: Sequence[Score],
    n: GroupValues,
    contributions: Iterable[Contributions] | None = None,
) -> Iterator[Score]:
    fields = {"metric": spec.metric, **({"seeds": len(spec.draws)} if spec.draws else {}), **spec.fields}
    return estimates_to_scores(
        estimates, templates, n, factor=spec.factor, fields=fields, contributions=contributions
    )


def _build_terms(spec: Mean, index: int) -> Iterator[pl.Expr]:
    """Yield the expressions whose sums a mean needs."""
    value = spec.of.cast(pl.Float64)
    is_present, difference = spec.of.is_not_null(), value
    sums = {"x": value, "w": pl.lit(1.0) if spec.per is None else spec.per}
    sums |= {f"d{draw_index}_": draw for draw_index, draw in enumerate(spec.draws)}
    if spec.baseline is not None:
        sums["y"] = spec.baseline.cast(pl.Float64)
        is_present, difference = is_present & spec.baseline.is_not_null(), value - sums["y"]
    if spec.estimate_kind == "difference":
        sums["s"] = difference**2 if spec.squares is None else spec.squares
    for name, term in sums.items():
        yield pl.when(is_present).then(term).cast(pl.Float64).alias(f"{name}{index}")


def _collect(sums: pl.LazyFrame, source: Frame) -> pl.DataFrame:
    """Collect sums: streaming for lazy tables, in memory for the others."""
    return sums.collect(engine="streaming" if isinstance(source, pl.LazyFrame) else "in-memory")


def _dense_codes(series: pl.Series) -> Int[np.ndarray, " row"]:
    return series.to_physical().rank("dense").cast(pl.Int64).to_numpy() - 1


MATCHED_SHARE = "matched"
"""Metric: the share of one side's observations that lie in cells which the other side has too."""


def match_cells(
    sums: pl.DataFrame, sides: tuple[str, str, str], cell_columns: Sequence[str], value: str, weight: str
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
    first_side, second_side = (
        sums.filter((pl.col(column) == name) & (pl.col(weight) > 0)).select(*cell_columns, value, weight)
        for name in names
    )
    a, b = pl.col(weight), pl.col(f"{weight}_right")
    w = a * b / (a + b)
    return (
        first_side.join(second_side, on=list(cell_columns))
        .select(
            *cell_columns,
            w=w,
            first=pl.col(value) / a * w,
            second=pl.col(f"{value}_right") / b * w,
            held=a + b,
        )
        .sort(cell_columns)
    )


def mark_matched_cells(
    sums: pl.DataFrame, side: str, cell_columns: Sequence[str], weight: str
) -> pl.DataFrame:
    """Add a column ``matched``: the weight of a cell that several sides have, else 0.

    Args:
        sums: A row a side and cell.
        side: Column that separates the sides.
        cell_columns: Columns that form cells.
        weight: Column of the weights.
    """
    sides = pl.col(side).filter(pl.col(weight) > 0).n_unique().over(cell_columns)
    return sums.with_columns(pl.when(sides > 1).then(weight).otherwise(0).alias(MATCHED_SHARE))


_BATCH_ROWS = 25_000


_PENDING_ROWS = 50_000


_QUANTUM = 2.0**-30


def to_fixed_point(value: pl.Expr) -> pl.Expr:
    """Convert to fixed point (multiples of 2^-30), so that sums are independent of the order of rows.

    Nine decimals are finer than what models repeat; 2^63 of these units are 8.6e9.
    """
    return (value.cast(pl.Float64) / _QUANTUM).round().cast(pl.Int64)


def iterate_item_batches(observations: pl.LazyFrame, item: str = "item_id") -> Iterator[pl.DataFrame]:
    """Iterate batches that never split an item; at least one batch, even if it is empty.

    Args:
        observations: A table in which the rows of an item are adjacent.
        item: Column of the item ids.
    """
    buffer = observations.head(0).collect()
    for batch in observations.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
        buffer = pl.concat([buffer, batch])
        if buffer.height < _BATCH_ROWS:
            continue
        last = buffer[item] == buffer[item][-1]
        if not last.all():
            yield buffer.filter(~last)
            buffer = buffer.filter(last)
    yield buffer


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
            total = self.merge_parts()
            # Where nearly every row is its own group, waiting longer saves work.
            self._waiting, self._rows = [total], max(0, total.height - _PENDING_ROWS // 2)

    def merge_parts(self) -> pl.DataFrame:
        """Merge all sums, in fixed point, one row a key, as another accumulator of these keys takes them."""
        return pl.concat(self._waiting).group_by(self.keys).sum()

    def total(self) -> pl.DataFrame:
        """Return all sums as real numbers, one row a key, sorted by key."""
        frame = self.merge_parts().sort(self.keys)
        return frame.with_columns(pl.col(name) * _QUANTUM for name in self.real if name in frame.columns)
