"""A matched difference is that of least squares with an effect for every cell."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sonde.results import Mean, Score, means
from sonde.results.group_means import mark_matched_cells, match_cells
from sonde.stats.intervals import bootstrap_t_factors

SIDES, CELL = ("side", "old", "new"), ["cluster", "stratum"]
TEMPLATE = Score(model="m", lens="l", metric="", value=0, n=0, n_clusters=0)


def random_sums(seed: int) -> pl.DataFrame:
    """Cells of nine clusters and five strata, some of them on one side alone."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"c{cluster}", f"s{stratum}", side, float(rng.integers(1, 90)), float(rng.normal(3, 1)))
        for cluster in range(9)
        for stratum in range(5)
        for side in ("old", "new")
        if rng.random() < 0.8
    ]
    sums = pl.DataFrame(rows, ["cluster", "stratum", "side", "size", "mean"], orient="row")
    return sums.with_columns(total=pl.col("mean") * pl.col("size"))


def difference(cells: pl.DataFrame) -> Score:
    mean = Mean("x", pl.col("second"), "nonnegative", per=pl.col("w"), baseline=pl.col("first"))
    (score,) = means(cells, [mean], TEMPLATE)
    return score


def least_squares(sums: pl.DataFrame) -> float:
    """The effect of the newer side beside one effect a cell, by weighted least squares."""
    cell = (sums["cluster"] + sums["stratum"]).to_physical().rank("dense").to_numpy().astype(int) - 1
    design = np.zeros((len(sums), cell.max() + 2))
    design[np.arange(len(sums)), cell] = 1
    design[:, -1] = (sums["side"] == "new").to_numpy()
    root = np.sqrt(sums["size"].to_numpy())
    return float(np.linalg.lstsq(design * root[:, None], sums["mean"].to_numpy() * root, rcond=None)[0][-1])


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_effect_of_least_squares_and_its_jackknife(seed: int) -> None:
    sums = random_sums(seed)
    found = difference(match_cells(sums, SIDES, CELL, "total", "size"))
    assert found.value == pytest.approx(least_squares(sums))
    names = sums["cluster"].unique().to_list()
    without = [least_squares(sums.filter(pl.col("cluster") != name)) for name in names]
    error = np.sqrt((len(names) - 1) / len(names) * np.sum((np.array(without) - found.value) ** 2))
    assert found.df is not None and found.ci_low is not None
    wider = bootstrap_t_factors(
        np.zeros(len(names), int), found.value - np.array(without), np.array([found.value]), "real"
    )
    assert found.value - found.ci_low == pytest.approx(wider.low[0] * stats.t.ppf(0.975, found.df) * error)


def test_numbers_made_by_hand() -> None:
    rows = [
        ("a", "call", "old", 30.0, 60.0), ("a", "call", "new", 10.0, 30.0),  # 2 and 3; w = 7.5
        ("a", "name", "old", 10.0, 50.0), ("a", "name", "new", 10.0, 40.0),  # 5 and 4; w = 5
        ("a", "loop", "new", 99.0, 99.0),
        ("b", "call", "old", 20.0, 20.0), ("b", "call", "new", 20.0, 60.0),  # 1 and 3; w = 10
        ("b", "name", "old", 0.0, 0.0), ("b", "name", "new", 7.0, 7.0),
    ]  # fmt: skip
    sums = pl.DataFrame(rows, ["cluster", "stratum", "side", "size", "total"], orient="row")
    cells = match_cells(sums, SIDES, CELL, "total", "size")
    assert cells["w"].to_list() == [7.5, 5.0, 10.0]
    assert cells["held"].to_list() == [40.0, 20.0, 40.0]
    assert difference(cells).value == pytest.approx((7.5 * 1 - 5 * 1 + 10 * 2) / 22.5)
    # The mix does not matter where each cell costs the same on both sides.
    same = sums.with_columns(total=pl.col("size") * pl.col("stratum").str.len_chars())
    assert difference(match_cells(same, SIDES, CELL, "total", "size")).value == pytest.approx(0)
    shares = (
        mark_matched_cells(sums, "side", CELL, "size").group_by("side").agg(pl.col("matched", "size").sum())
    )
    assert shares.sort("side").rows() == [("new", 40.0, 146.0), ("old", 60.0, 60.0)]
