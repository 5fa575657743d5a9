"""How often the intervals of the gap between two models hold the truth, by code token and by byte.

Two models with different tokenizers cost the same code tokens. Costs are log-normal (standard deviation 1 on
the log scale) in clusters whose own means are too, and the second model's are those of the first times a
factor of the cluster and one of the code token. A third of the code tokens are of a construct. Clusters have
log-normal sizes or those of a Pareto distribution with exponent 1.3. Every draw goes through the scores of
surprisal and the differences of `sonde compare`. Held to 93 to 97.5 % (92 % for Pareto with the larger
spread), with at most 7.5 % of misses on one side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import polars as pl

from sonde.comparison.differences import compute_differences
from sonde.lenses.surprisal.common_text import _PER_TOKEN  # pyright: ignore[reportPrivateUsage]
from sonde.lenses.surprisal.score import score_dimension
from sonde.results.schema import SHARED_TOKENS
from sonde.results.score_pairs import Direction
from sonde.results.scores import Score
from tests.calibration import Bound, Row

DRAWS, SHORT = 2000, 50

_SIZES = ("log-normal", "Pareto 1.3")
_SPREADS = (0.25, 0.6)
_CLUSTERS = (12, 30, 60)
_TOKENS = 40
"""Code tokens of a cluster, about."""
_NATS, _HIGHER, _OF_TOKEN = 2.0, 1.05, 0.5
"""Mean cost of a code token, the second model's factor of it, and the spread of that factor over tokens."""
_BYTES = 4.0
_IN_CONSTRUCT = 1 / 3
_PARTS = ("all", "construct")
_TRUTHS = {
    "nats_per_token": _NATS * (_HIGHER - 1),
    "bits_per_byte": _NATS * (_HIGHER - 1) / _BYTES / math.log(2),
}
_AT_ONCE = 100
_ERRORS = 3.0
"""Errors of the simulation that counts of fewer draws than in full are given."""


class _Cell(NamedTuple):
    sizes: str
    spread: float
    clusters: int


def run(draws: int, seed: int) -> list[Row]:
    """A row for each number and cell, and the misses on one side."""
    rows: list[Row] = []
    misses: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for cell in (_Cell(*place) for place in product(_SIZES, _SPREADS, _CLUSTERS)):
        is_hard = cell.sizes == _SIZES[-1] and cell.spread == max(_SPREADS)
        held: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
        for start in range(0, draws, _AT_ONCE):
            place = [_SIZES.index(cell.sizes), round(100 * cell.spread), cell.clusters, start]
            rng = np.random.default_rng([seed, *place])
            for part, metric, low, high in _find_gaps(min(_AT_ONCE, draws - start), cell, rng):
                if math.isfinite(low) and math.isfinite(high):
                    held[part, metric].append((high < _TRUTHS[metric], low > _TRUTHS[metric]))
        for (part, metric), outcomes in sorted(held.items()):
            below, above = (sum(side) for side in zip(*outcomes, strict=True))
            size = len(outcomes)
            name = f"{metric}, {part}, {cell.sizes} sizes, spread {cell.spread:g}, {cell.clusters} clusters"
            bound = _between(0.92 if is_hard else 0.93, 0.975, size, draws)
            rows.append(Row(name, size, size - below - above, bound))
            misses[metric].append((max(below, above) / size, max(below, above), size))
    for metric, found in sorted(misses.items()):
        _, worst, size = max(found)
        bound = _between(0.0, 0.075, size, draws)
        rows.append(Row(f"{metric}: misses on one side, at most", size, worst, bound))
    return rows


def _between(least: float, most: float, size: int, draws: int) -> Bound:
    slack = [
        _ERRORS * math.sqrt(size * share * (1 - share)) if draws < DRAWS else 0.0 for share in (least, most)
    ]
    return Bound(math.floor(least * size - slack[0]), math.ceil(min(most * size + slack[1], size)))


def _find_gaps(draws: int, cell: _Cell, rng: np.random.Generator) -> Iterator[tuple[str, str, float, float]]:
    """Yield part, metric and interval of the gap of each draw."""
    base_sums, other_sums = _draw_sums(draws, cell, rng)
    for part in _PARTS:
        scores = [
            _score(sums.filter(pl.col("part") == part), model)
            for sums, model in ((base_sums, "base"), (other_sums, "other"))
        ]
        pairs: list[tuple[Score, Score, Direction]] = [
            (score, scores[1][key], "lower") for key, score in scores[0].items()
        ]
        for difference in compute_differences(pairs):
            yield part, difference.score.metric, difference.low, difference.high


def _score(sums: pl.DataFrame, model: str) -> dict[tuple[str, str], Score]:
    """Score the sums of a model, a construct for each draw, by metric and draw."""
    template = Score(model=model, lens="surprisal", metric="", value=math.nan, n=0, n_clusters=0)
    scores = score_dimension(sums, "construct", _PER_TOKEN, template.within(SHARED_TOKENS), 1)
    return {(score.metric, dict(score.dimensions)["construct"]): score for score in scores}


def _draw_sums(draws: int, cell: _Cell, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the sums of code tokens of both models by draw, part and cluster."""
    shape = draws * cell.clusters
    sizes = (
        _TOKENS * rng.lognormal(-0.5, 1.0, shape)
        if cell.sizes == _SIZES[0]
        else _TOKENS / 4 * (1 + rng.pareto(1.3, shape))
    )
    owner = np.repeat(np.arange(shape), np.ceil(np.minimum(sizes, 1e5)).astype(np.int64))

    def effect(spread: float, size: int) -> np.ndarray:
        return rng.lognormal(-(spread**2) / 2, spread, size)

    base = _NATS * effect(cell.spread, shape)[owner] * effect(1.0, len(owner))
    factor = _HIGHER * effect(cell.spread / 2, shape)[owner] * effect(_OF_TOKEN, len(owner))
    width = np.maximum(1, rng.poisson(_BYTES - 1, len(owner)) + 1)
    tokens = pl.DataFrame(
        {
            "owner": owner,
            "bytes": width,
            "base": base,
            "other": base * factor,
            "is_inside": rng.random(len(owner)) < _IN_CONSTRUCT,
        }
    )
    frames = [
        part.group_by("owner", maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("bytes", "base", "other").sum())
        .with_columns(
            language=pl.lit("python"),
            slice=(pl.col("owner") // cell.clusters).cast(pl.String),
            cluster=(pl.col("owner") % cell.clusters).cast(pl.String),
            part=pl.lit(name),
        )
        for name, part in zip(_PARTS, (tokens, tokens.filter("is_inside")), strict=True)
    ]
    sums = pl.concat(frames)
    base_sums, other_sums = (
        sums.select("language", "slice", "cluster", "part", "n", "bytes", nats=name)
        for name in ("base", "other")
    )
    return base_sums, other_sums
