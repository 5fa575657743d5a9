"""The comparison of internal and external calls on the figures of PERPLEXED's Table 1."""

from __future__ import annotations

import polars as pl
import pytest
from tests.slices import slice_of

from sonde.lenses import LensSettings
from sonde.lenses.surprisal.origin import SUMMARY, OriginSummary, scores_by_origin
from sonde.results.scores import Score

# Tag, count and mean cross-entropy of internal calls, then of external ones.
TABLE_1 = (
    ("call -> identifier", 6236, 0.359, 297963, 0.322),
    ("argument_list -> (", 2944, 1.215, 675737, 0.912),
    ("argument_list -> )", 1306, 0.690, 335217, 0.676),
    ("argument_list -> ,", 1345, 1.187, 197373, 0.865),
    ("argument_list -> comment", 87, 1.897, 17211, 1.494),
    ("argument_list -> false", 9, 0.234, 2184, 0.199),
    ("argument_list -> float", 123, 0.672, 25448, 0.879),
    ("argument_list -> identifier", 5320, 0.280, 473886, 0.195),
    ("argument_list -> integer", 380, 0.738, 84628, 0.512),
    ("argument_list -> none", 23, 0.170, 3806, 0.200),
    ("argument_list -> string", 4851, 1.206, 912211, 1.139),
    ("argument_list -> true", 9, 0.675, 2621, 0.235),
)
TEMPLATE = Score(model="", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0)


def calls_of(rows: tuple[tuple[str, int, float, int, float], ...], clusters: int) -> pl.DataFrame:
    """The table spread evenly over clusters."""
    parts = [
        {
            "language": "python", "origin": origin, "part": "name" if tag.startswith("call") else "arguments",
            "form": "bare", "tag": tag, "cluster": f"c{cluster}", "n": n, "nats": n * mean / clusters,
        }
        for tag, inside, inner, outside, outer in rows
        for origin, n, mean in (("internal", inside, inner), ("external", outside, outer))
        for cluster in range(clusters)
    ]  # fmt: skip
    return pl.DataFrame(parts).with_columns(pl.col("n") / clusters)


def summary(
    calls: pl.DataFrame, minimum: int = 1, quirks: frozenset[str] = frozenset()
) -> dict[tuple[str, str], Score]:
    asked = SUMMARY.resolve(LensSettings(quirks=quirks), OriginSummary(minimum))
    found = scores_by_origin(calls, TEMPLATE, asked)
    return {
        (slice_of(score.dimensions), score.weighting): score for score in found if score.weighting is not None
    }


@pytest.mark.parametrize(
    ("weighting", "internal", "external"),
    [
        ("unweighted", 0.777, 0.636),
        ("count", 0.715, 0.771),
        ("count_common", 0.715, 0.771),
        ("standardised_external", 0.905, 0.771),
        ("standardised_internal", 0.715, 0.607),
    ],
)
def test_table_1_says_four_things(weighting: str, internal: float, external: float) -> None:
    found = summary(calls_of(TABLE_1, 20))
    assert found["origin=internal", weighting].value == pytest.approx(internal, abs=6e-4)
    assert found["origin=external", weighting].value == pytest.approx(external, abs=6e-4)
    difference = found["origin=internal-external", weighting]
    assert difference.value == pytest.approx(internal - external, abs=1e-3)
    # Clusters that are all alike leave no doubt.
    assert difference.ci_low == pytest.approx(difference.value)
    assert difference.n_clusters == 20


def test_counts_are_those_of_the_paper() -> None:
    found = summary(calls_of(TABLE_1, 1))
    assert found["origin=internal", "unweighted"].n == 22633
    # The paper's sum is 3,028,246; its rows add up to 39 more.
    assert found["origin=external", "unweighted"].n == 3028285


def test_tags_too_rare_on_one_side_are_not_compared() -> None:
    found = summary(calls_of(TABLE_1, 1), minimum=20)
    assert found["origin=internal", "unweighted"].n == 22633 - 18
    paper = summary(calls_of(TABLE_1, 1), minimum=20, quirks=frozenset({"perplexed.unweighted"}))
    assert paper["origin=internal", "unweighted"].n == 22633


def test_a_tag_that_is_rare_on_one_side_stays_in_the_count_of_every_subword() -> None:
    rare = [("call -> rare", 3, 9.0, 4000, 0.1), *TABLE_1]
    calls = calls_of(rare, 12).with_columns(
        pl.col("nats") * (1 + pl.col("cluster").str.slice(1).cast(pl.Int64) / 40)
    )
    found = summary(calls, minimum=20)
    every = {
        side: part["nats"].sum() / part["n"].sum()
        for (side,), part in calls.partition_by("origin", as_dict=True).items()
    }
    difference = found["origin=internal-external", "count"]
    assert difference.value == pytest.approx(every["internal"] - every["external"])
    assert difference.ci_low < difference.value < difference.ci_high
    assert difference.n == pytest.approx(sum(row[1] + row[3] for row in rare), abs=1)
    common = found["origin=internal-external", "count_common"]
    assert common.n < difference.n and common.value != pytest.approx(difference.value, abs=1e-4)
    alone = {
        slice_of(s.dimensions): s
        for s in scores_by_origin(calls, TEMPLATE, OriginSummary(20))
        if s.weighting is None
    }
    for side in ("internal", "external"):
        assert found[f"origin={side}", "count"].value == alone[f"origin={side}"].value


def test_intervals_hold_the_difference_between_clusters() -> None:
    calls = calls_of(TABLE_1, 12).with_columns(
        pl.col("nats") * (1 + pl.col("cluster").str.slice(1).cast(pl.Int64) / 40)
    )
    found = summary(calls)
    for weighting in (
        "count",
        "count_common",
        "unweighted",
        "standardised_external",
        "standardised_internal",
    ):
        score = found["origin=internal-external", weighting]
        assert score.ci_low < score.value < score.ci_high
        assert score.ci_method == "clustered jackknife, bootstrap-t"
        sides = [found[f"origin={side}", weighting].value for side in ("internal", "external")]
        assert score.value == pytest.approx(sides[0] - sides[1])


def test_names_and_arguments_bare_and_method_calls_are_apart() -> None:
    slices = {
        slice_of(score.dimensions)
        for score in scores_by_origin(calls_of(TABLE_1, 2), TEMPLATE, OriginSummary(1))
    }
    assert {
        "origin=internal;origin_part=name",
        "origin=external;origin_part=arguments",
        "origin=internal-external;call_form=bare",
        "origin=internal-external;tag=argument_list -> float",
    } <= slices


def test_builtin_and_local_calls_have_their_own_row_and_no_part_in_the_comparison() -> None:
    calls = calls_of(TABLE_1, 2)
    others = [
        calls.filter(pl.col("origin") == "external").with_columns(origin=pl.lit(o))
        for o in ("builtin", "local")
    ]
    found = {
        slice_of(score.dimensions): score
        for score in scores_by_origin(pl.concat([calls, *others]), TEMPLATE, OriginSummary(1))
    }
    assert found["origin=builtin"].value == found["origin=local"].value == pytest.approx(0.771, abs=6e-4)
    assert summary(pl.concat([calls, *others]))["origin=external", "count"].n == 3028285
