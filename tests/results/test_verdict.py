from __future__ import annotations

import pytest

from sonde.results.text_format import caveat, interval
from sonde.stats.verdict import allows_verdict, no_verdict_reason

FIRM = {
    "value": 0.5, "ci_low": 0.45, "ci_high": 0.55, "n_clusters": 40, "effective_clusters": 30.0,
    "n_eff": 400.0, "seeds": None,
}  # fmt: skip


def test_a_firm_row_allows_a_verdict() -> None:
    assert allows_verdict(FIRM)
    assert caveat(FIRM) == ""
    assert interval(FIRM, 100, 1) == "[45.0, 55.0]"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"effective_clusters": 9.9}, "9.9 effective clusters"),
        ({"ci_low": None, "ci_high": None}, "no interval"),
        ({"n_eff": 29.0}, "29 independent observations"),
        ({"ci_low": 0.3, "ci_high": 0.61}, "31 points"),
        ({"value": 0.05, "ci_low": 0.02, "ci_high": 0.10}, "too wide for so small a share"),
        ({"value": 0.95, "ci_low": 0.90, "ci_high": 0.98}, "too wide for so small a share"),
        ({"seeds": 4}, "4 seeds or draws,"),
        ({"seeds": 1}, "1 seed or draw,"),
    ],
)
def test_what_lacks_a_verdict_says_why(changed: dict[str, float | None], why: str) -> None:
    assert why in no_verdict_reason(FIRM | changed)
    assert why in caveat(FIRM | changed)
    assert not allows_verdict(FIRM | changed)


def test_a_narrow_interval_of_a_small_share_and_five_seeds_are_enough() -> None:
    assert allows_verdict(FIRM | {"value": 0.01, "ci_low": 0.002, "ci_high": 0.04})
    assert allows_verdict(FIRM | {"seeds": 5})


def test_means_without_bounds_are_not_held_to_the_widths_of_proportions() -> None:
    assert allows_verdict(FIRM | {"value": 3.0, "ci_low": 2.0, "ci_high": 4.0, "n_eff": None})


def test_rows_of_earlier_versions_are_taken_by_their_clusters() -> None:
    assert allows_verdict({"value": 1.0, "ci_low": 0.9, "ci_high": 1.1, "n_clusters": 10})
    assert not allows_verdict({"value": 1.0, "ci_low": 0.9, "ci_high": 1.1, "n_clusters": 9})
