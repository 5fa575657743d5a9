"""Calls into the repository against calls out of it, in several weightings of the tags (PERPLEXED, Table 1).

Internal and external calls are not made of the same tags, so one mean over all their subwords mixes two
questions. ``count`` is that mean. The others are about tags that both sides hold often enough:
``count_common`` is the mean over their subwords, ``unweighted`` gives each of them the same weight, as the
paper does, ``standardised_external`` and ``standardised_internal`` give both sides one side's mix of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence, Set

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.lenses.surprisal.rows import cluster_sums
from sonde.results.clusters import kish
from sonde.results.dimensions import Dimensions
from sonde.results.estimate import Statistic, differences, jackknife, ratios
from sonde.results.intervals import Kind
from sonde.results.rows import rows_of
from sonde.results.scores import Score

UNWEIGHTED = "perplexed.unweighted"
CALL_TAGS = "perplexed.call_tags"

WEIGHTINGS = ("count_common", "unweighted", "standardised_external", "standardised_internal")

_SIDES = ("internal", "external")
_DIFFERENCE = "internal-external"
_ORIGINS = ("internal", "external", "local", "builtin")
_PAPER_TAGS = r"^<?(call|argument_list) -> "


def by_origin(
    calls: pl.DataFrame,
    template: Score,
    minimum: int,
    quirks: Set[str],
    kind: Kind = "nonnegative",
) -> Iterator[Score]:
    """Every row of the comparison, for all calls, then for names, arguments, bare and method calls apart.

    Args:
        calls: `Sums.calls`.
        template: What the scores share.
        minimum: Fewest subwords that a tag needs on both sides to enter a comparison.
        quirks: Those of the published code that are on.
        kind: What the means are: ``real`` for changes of surprisal.
    """
    if CALL_TAGS in quirks:
        calls = calls.filter(pl.col("tag").str.contains(_PAPER_TAGS))
    if UNWEIGHTED in quirks:
        minimum = 1
    weightings = ("unweighted",) if UNWEIGHTED in quirks else WEIGHTINGS
    template = dataclasses.replace(template, task="call_origin", metric="nats")
    for language, spoken in sorted(calls.partition_by("language", as_dict=True).items()):
        named = dataclasses.replace(template, language=str(language[0]))
        for part, held in _selections(spoken):
            yield from _origins(held, named, part, kind)
            if UNWEIGHTED not in quirks:
                yield from _every_subword(held, named, part, kind)
            tagged = _tagged(held, minimum)
            if tagged.is_empty():
                continue
            yield from _summaries(tagged, named, part, weightings, kind)
            if not part:
                yield from _by_tag(tagged, named, kind)


def _selections(calls: pl.DataFrame) -> Iterator[tuple[Dimensions, pl.DataFrame]]:
    """All calls, then parts of them with the dimension that they are chosen by."""
    yield (), calls
    for column, dimension in (("part", "origin_part"), ("form", "call_form")):
        for value in calls[column].unique().sort().to_list():
            if value:
                yield ((dimension, value),), calls.filter(pl.col(column) == value)


def _origins(calls: pl.DataFrame, template: Score, part: Dimensions, kind: Kind) -> Iterator[Score]:
    """The plain mean of every origin, over all its subwords."""
    sums = calls.group_by("origin", "cluster").agg(pl.col("n", "nats").sum())
    found = [origin for origin in _ORIGINS if origin in sums["origin"]]
    order = pl.col("origin").replace_strict(found, range(len(found)), default=None, return_dtype=pl.Int64)
    held = sums.with_columns(_group=order, _cluster=pl.col("cluster").rank("dense") - 1).drop_nulls("_group")
    ratio = cluster_sums(held, "nats", "n", len(found))
    templates = [template.within(("origin", origin), *part) for origin in found]
    yield from rows_of(ratios(ratio, kind), templates, ratio.total(ratio.w))


def _every_subword(calls: pl.DataFrame, template: Score, part: Dimensions, kind: Kind) -> Iterator[Score]:
    """Both sides with all of their subwords, however rare a tag is, and their difference."""
    sums = (
        calls.filter(pl.col("origin").is_in(_SIDES))
        .group_by("origin", "cluster")
        .agg(pl.col("n", "nats").sum())
    )
    held = sums.with_columns(_group=pl.lit(0), _cluster=pl.col("cluster").rank("dense") - 1)
    sides = [cluster_sums(held.filter(pl.col("origin") == side), "nats", "n", 1) for side in _SIDES]
    counts = [side.total(side.w) for side in sides]
    found = [*(ratios(side, kind) for side in sides), differences(sides[0], sides[1], "real")]
    for name, estimates, n in zip((*_SIDES, _DIFFERENCE), found, [*counts, sum(counts)], strict=True):
        named = dataclasses.replace(template.within(("origin", name), *part), weighting="count")
        yield from rows_of(estimates, [named], np.asarray(n))


def _tagged(calls: pl.DataFrame, minimum: int) -> pl.DataFrame:
    """Sums by side, tag and cluster, of the tags that both sides hold often enough."""
    sides = calls.filter(pl.col("origin").is_in(_SIDES) & (pl.col("tag") != ""))
    counts = sides.group_by("tag", "origin").agg(pl.col("n").sum()).filter(pl.col("n") >= minimum)
    common = counts.group_by("tag").len().filter(pl.col("len") == len(_SIDES)).select("tag").sort("tag")
    held = sides.join(common.with_row_index("_group"), on="tag")
    sums = held.group_by("origin", "tag", "_group", "cluster").agg(pl.col("n", "nats").sum())
    return sums.with_columns(_cluster=pl.col("cluster").rank("dense") - 1).sort("_group", "_cluster")


def _by_tag(tagged: pl.DataFrame, template: Score, kind: Kind) -> Iterator[Score]:
    tags = tagged.select("_group", "tag").unique().sort("_group")["tag"].to_list()
    sides = [cluster_sums(tagged.filter(pl.col("origin") == side), "nats", "n", len(tags)) for side in _SIDES]
    for side, sums in zip(_SIDES, sides, strict=True):
        templates = [template.within(("origin", side), ("tag", tag)) for tag in tags]
        yield from rows_of(ratios(sums, kind), templates, sums.total(sums.w))
    templates = [template.within(("origin", _DIFFERENCE), ("tag", tag)) for tag in tags]
    counts = sides[0].total(sides[0].w) + sides[1].total(sides[1].w)
    yield from rows_of(differences(sides[0], sides[1], "real"), templates, counts)


def _summaries(
    tagged: pl.DataFrame, template: Score, part: Dimensions, weightings: Sequence[str], kind: Kind
) -> Iterator[Score]:
    table = call_table(tagged)
    cells = table.reshape(len(table), len(_SIDES), -1, 2)
    counts = cells[..., 1].sum(axis=2)
    # The side whose clusters are worth less decides for the difference.
    scarcer = int(np.argmin([kish(counts[:, side]) for side in range(len(_SIDES))]))
    totals = counts.sum(axis=0)
    for weighting in weightings:
        for name, side in (("internal", 0), ("external", 1), (_DIFFERENCE, None)):
            weight = counts[:, scarcer if side is None else side]
            of_side = "real" if side is None else kind
            estimates = jackknife(weighted(weighting, side), table, weight, of_side)
            named = dataclasses.replace(template.within(("origin", name), *part), weighting=weighting)
            n = totals.sum() if side is None else totals[side]
            yield from rows_of(estimates, [named], [n])


def call_table(tagged: pl.DataFrame) -> Float[np.ndarray, "cluster total"]:
    """Sums in one row a cluster: for each side and tag, nats and count."""
    shape = (
        int(tagged["_cluster"].max()) + 1,  # pyright: ignore[reportArgumentType]
        len(_SIDES),
        tagged["_group"].n_unique(),
        2,
    )
    table = np.zeros(shape)
    side = (tagged["origin"] == "external").cast(pl.Int64).to_numpy()
    at = (tagged["_cluster"].cast(pl.Int64).to_numpy(), side, tagged["_group"].cast(pl.Int64).to_numpy())
    table[*at, 0] = tagged["nats"].to_numpy()
    table[*at, 1] = tagged["n"].to_numpy()
    return table.reshape(shape[0], -1)


def weighted(weighting: str, side: int | None) -> Statistic:
    """The mean of tag means of one side (0 internal, 1 external), or with None the difference of the two.

    A tag that a row of totals lacks on either side takes no part in it.
    """

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        cells = totals.reshape(len(totals), len(_SIDES), -1, 2)
        sums, counts = cells[..., 0], cells[..., 1]
        both = (counts > 0).all(axis=1, keepdims=True)
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=both & (counts > 0))
        mix = {
            "count_common": counts,
            "unweighted": np.ones_like(counts),
            "standardised_external": np.broadcast_to(counts[:, 1:], counts.shape),
            "standardised_internal": np.broadcast_to(counts[:, :1], counts.shape),
        }[weighting] * both
        with np.errstate(invalid="ignore"):
            sides = (mix * means).sum(axis=2) / mix.sum(axis=2)
        return sides[:, 0] - sides[:, 1] if side is None else sides[:, side]

    return statistic
