"""Means, differences and cells of a table, against loops over its rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sonde.results import Mean, Score, cells, mean_differences, means
from sonde.results.scores import scores_to_frame
from sonde.stats.estimate import cluster_sums, estimate_ratios

TEMPLATE = Score(model="m", lens="mine", metric="", value=0.0, n=0, n_clusters=0)
RIGHT, NATS = Mean("right", pl.col("right")), Mean("nats", pl.col("nats"), "nonnegative")
BITS = Mean("bits_per_byte", pl.col("nats"), "nonnegative", per=pl.col("bytes"), factor=1 / np.log(2))


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Three hundred rows of twelve clusters, some of them of no group and some without an answer."""
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "cluster": [f"c{number % 12}" for number in range(300)],
            "kind": rng.choice(["", "call", "import", None], 300).tolist(),
            "language": rng.choice(["java", "python"], 300).tolist(),
            "seen": rng.choice([True, False], 300).tolist(),
            "right": rng.choice([True, False, None], 300).tolist(),
            "other": rng.choice([True, False], 300).tolist(),
            "nats": rng.gamma(2, 1, 300),
            "bytes": rng.integers(1, 9, 300),
        },
        schema_overrides={"kind": pl.String, "right": pl.Boolean},
    )


def of(scores: list[Score], metric: str, **about: str) -> Score:
    (found,) = (
        one
        for one in scores
        if one.metric == metric and {**dict(one.dimensions), "language": one.language} == about
    )
    return found


def test_means_by_group_are_those_of_its_rows_with_a_value(rows: pl.DataFrame) -> None:
    found = list(means(rows, [RIGHT, NATS, BITS], TEMPLATE, by="kind", columns=["language"]))
    assert len(found) == 3 * 3 * 2
    held = rows.filter((pl.col("kind") == "call") & (pl.col("language") == "java"))
    one = of(found, "right", kind="call", language="java")
    answered = held["right"].drop_nulls()
    assert one.value == pytest.approx(answered.mean()) and one.n == len(answered)
    assert one.n_clusters == held.drop_nulls("right")["cluster"].n_unique()
    assert one.ci_method == "Korn-Graubard" and one.n_eff is not None
    bits = of(found, "bits_per_byte", kind="call", language="java")
    assert bits.value == pytest.approx(held["nats"].sum() / held["bytes"].sum() / np.log(2))
    assert bits.n == held["bytes"].sum()


def test_an_empty_text_is_a_group_and_null_is_none(rows: pl.DataFrame) -> None:
    found = list(means(rows, [NATS], TEMPLATE, by="kind"))
    assert [one.dimensions for one in found] == [(("kind", kind),) for kind in ("", "call", "import")]
    assert found[0].n == (rows["kind"] == "").sum()
    (everything,) = means(rows, [NATS], TEMPLATE)
    assert everything.n == 300


def test_small_groups_are_left_out_by_what_is_counted(rows: pl.DataFrame) -> None:
    sizes = rows.drop_nulls("kind").group_by("kind").agg(pl.len(), pl.col("bytes").sum())
    least = int(sizes["len"].median())
    kept = list(means(rows, [NATS], TEMPLATE, by="kind", minimum=least))
    assert len(kept) == (sizes["len"] >= least).sum() == 2
    most = int(sizes["bytes"].max())
    counted = means(rows, [NATS], TEMPLATE, by="kind", minimum=most, size=pl.col("bytes"))
    assert len(list(counted)) == 1


def test_files_and_sums_by_cluster_give_the_numbers_of_their_rows(rows: pl.DataFrame, tmp_path: Path) -> None:
    def table(frame: pl.DataFrame | pl.LazyFrame, per: str) -> pl.DataFrame:
        nats = Mean("nats", pl.col("nats"), "nonnegative", per=pl.col(per))
        return scores_to_frame(means(frame, [nats], TEMPLATE, by="kind"))

    counted = rows.with_columns(n=pl.lit(1))
    expected = table(counted, "n")
    counted.write_parquet(tmp_path / "rows.parquet")
    lazy = table(pl.scan_parquet(tmp_path / "rows.parquet"), "n")
    added = table(counted.group_by("kind", "cluster").agg(pl.col("nats", "n").sum()), "n")
    for other in (lazy, added):
        for column in ("value", "ci_low", "ci_high", "n", "effective_clusters"):
            assert other[column].to_list() == pytest.approx(expected[column].to_list())


def test_two_columns_of_the_same_rows_are_paired(rows: pl.DataFrame) -> None:
    held = rows.drop_nulls("right").with_columns(pl.col("right", "other").cast(pl.Int8))
    apart = pl.col("right") - pl.col("other")
    (two,) = means(
        held,
        [Mean("gain", pl.col("right"), baseline=pl.col("other"))],
        TEMPLATE,
    )
    (one,) = means(held, [Mean("gain", apart, "difference")], TEMPLATE)
    assert two.value == pytest.approx(held.select(apart.mean()).item()) == pytest.approx(one.value)
    assert (two.ci_low, two.ci_high, two.p_value) == pytest.approx((one.ci_low, one.ci_high, one.p_value))
    assert two.n == one.n == held.height


def test_two_groups_of_rows_are_held_against_each_other(rows: pl.DataFrame) -> None:
    found = list(mean_differences(rows, [RIGHT, NATS], TEMPLATE, ("seen", True, False), by="kind"))
    assert len(found) == 6
    score = found[1]
    assert score.dimensions == (("seen", "true-false"), ("kind", "call")) and score.p_value is not None
    sides = [rows.filter((pl.col("kind") == "call") & (pl.col("seen") == side)) for side in (True, False)]
    seen, unseen = (side["right"].drop_nulls() for side in sides)
    assert score.value == pytest.approx(seen.mean() - unseen.mean())  # type: ignore[operator]
    assert score.n == len(seen) + len(unseen)
    assert score.ci_low < score.value < score.ci_high  # type: ignore[operator]


def test_a_row_without_a_value_does_not_weigh(rows: pl.DataFrame) -> None:
    weighed = Mean("right", pl.col("right"), per=pl.col("bytes"))
    pairs = Mean("gain", pl.col("other"), baseline=pl.col("right"), per=pl.col("bytes"))
    answered = rows.drop_nulls("right")
    assert [one.n for one in means(rows, [weighed, pairs], TEMPLATE)] == [answered["bytes"].sum()] * 2


def test_a_group_that_lacks_a_side_has_no_difference(rows: pl.DataFrame) -> None:
    held = rows.filter((pl.col("kind") != "call") | pl.col("seen"))
    found = list(mean_differences(held, [NATS], TEMPLATE, ("seen", True, False), by="kind"))
    assert [dict(one.dimensions)["kind"] for one in found] == ["", "import"]


def test_cells_hold_each_value_of_each_cluster(rows: pl.DataFrame) -> None:
    held = rows.drop_nulls("kind")
    table = cells(held, [pl.col("nats"), pl.col("bytes")], ["kind", "language"]).toarray()
    clusters = sorted(set(held["cluster"]))
    assert table.shape == (len(clusters), 2 * 3 * 2)
    by_cell = table.reshape(len(clusters), 2, 3, 2)
    chosen = held.filter(
        (pl.col("cluster") == clusters[4]) & (pl.col("kind") == "import") & (pl.col("language") == "java")
    )
    assert by_cell[4, :, 2, 0] == pytest.approx([chosen["nats"].sum(), chosen["bytes"].sum()])


def drawn_world(rng: np.random.Generator, draws: int, spread: float) -> pl.DataFrame:
    """Six hundred rows of sixty clusters: what a change costs less what each draw of a control costs."""
    cluster = np.repeat(np.arange(60), 10)
    own = 0.2 + rng.normal(0, 0.5, 60)[cluster] + rng.normal(0, 1, 600)
    each = {f"draw {at}": own - rng.normal(0.2, spread) - rng.normal(0, 0.3, 600) for at in range(draws)}
    return pl.DataFrame({"cluster": cluster.astype(str), "group": ["a", "b"] * 300, **each})


def over_draws(draws: int) -> Mean:
    names = [pl.col(f"draw {at}") for at in range(draws)]
    return Mean("excess", pl.mean_horizontal(names), "real", draws=names, factor=3.0)


def test_draws_of_a_control_are_in_the_interval() -> None:
    rows = drawn_world(np.random.default_rng(3), 5, 0.3)
    (found,) = means(rows, [over_draws(5)], TEMPLATE)
    (alone,) = means(rows, [dataclasses.replace(over_draws(5), draws=())], TEMPLATE)
    assert found.value == pytest.approx(alone.value)
    between = 3.0 * np.std([rows[f"draw {at}"].mean() for at in range(5)], ddof=1) * np.sqrt(1 + 1 / 5)
    mean = rows.select(pl.mean_horizontal(rows.columns[2:]) * 3.0).to_series().to_numpy()
    plain = estimate_ratios(cluster_sums(mean[None], rows["cluster"].to_list()), "real")
    clustered, wider = plain.error[0], plain.width_factor.high[0]
    assert alone.ci_high == pytest.approx(plain.high[0]) and alone.df is not None
    variance = between**2 + clustered**2
    df = variance**2 / (clustered**4 / alone.df + between**4 / 4)
    assert found.ci_high == pytest.approx(found.value + wider * stats.t.ppf(0.975, df) * np.sqrt(variance))
    assert found.seeds == 5 and alone.seeds is None
    assert found.ci_method == "draws and clustered jackknife, bootstrap-t"
    assert found.contributions is not None
    assert found.contributions.noise == (pytest.approx((between**2, 4)),)


def test_differences_between_groups_hold_the_draws_too() -> None:
    rows = drawn_world(np.random.default_rng(4), 5, 0.3)
    asked = over_draws(5)
    (found,) = mean_differences(rows, [asked], TEMPLATE, ("group", "a", "b"))
    (alone,) = mean_differences(rows, [dataclasses.replace(asked, draws=())], TEMPLATE, ("group", "a", "b"))
    sides = {group: part for (group,), part in rows.partition_by("group", as_dict=True).items()}
    apart = [3.0 * (sides["a"][name].mean() - sides["b"][name].mean()) for name in rows.columns[2:]]
    assert found.value == pytest.approx(np.mean(apart))
    assert found.df is not None and alone.df is not None and None not in (alone.ci_high, found.ci_high)
    # Of these symmetric differences the bootstrap-t asks for no more than Student's t.
    clustered = (alone.ci_high - alone.value) / stats.t.ppf(0.975, alone.df)
    variance = clustered**2 + np.var(apart, ddof=1) * (1 + 1 / 5)
    assert found.ci_high == pytest.approx(found.value + stats.t.ppf(0.975, found.df) * np.sqrt(variance))


@pytest.mark.slow
@pytest.mark.parametrize("draws", [5, 20])
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5])
def test_intervals_over_draws_and_clusters_cover(draws: int, spread: float) -> None:
    rng = np.random.default_rng(draws)
    rows = [drawn_world(rng, draws, spread) for _ in range(400)]
    found = [one for world in rows for one in means(world, [over_draws(draws)], TEMPLATE)]
    inside = [one.ci_low <= 0 <= one.ci_high for one in found if one.ci_low is not None and one.ci_high]
    assert np.mean(inside) >= 0.93
