"""Sentences of comparisons that found nothing, compared with their numbers."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

from sonde.comparison.differences import WITHIN_PRECISION
from sonde.comparison.summary import add_text_columns, count_outcomes, format_counts
from sonde.report.comparison_page import _describe_null_results
from sonde.results.text_format import OUTCOMES, TOO_LITTLE

NOTHING = ("slight", "alike", "undecided")
FEW = "8 effective clusters, a verdict needs 10"


def rows(outcomes: tuple[str, ...], open_ones: int) -> pl.DataFrame:
    """Differences with some outcomes, and others that allow no verdict."""
    said = [*outcomes, *["undecided"] * open_ones]
    return pl.DataFrame(
        {
            "base": "a", "model": "b", "lens": "surprisal", "task": "", "metric": "bits", "k": None,
            "language": "python",
            "dimensions": [[] for _ in said], "layer": None, "base_layer": None, "head": None,
            "pooling": None, "side": None, "matching": None, "aggregation": None,
            "outcome": said, "why": [""] * len(outcomes) + [FEW] * open_ones,
            "difference": 0.1, "detectable": 0.2,
        },
        schema_overrides={
            "k": pl.Int64, "layer": pl.Int64, "base_layer": pl.Int64, "head": pl.Int64,
            "dimensions": pl.List(pl.Struct({"name": pl.String, "value": pl.String})),
            **dict.fromkeys(("pooling", "side", "matching", "aggregation"), pl.String),
        },
        strict=False,
    )  # fmt: skip


CASES = [
    (some, few)
    for size in range(4)
    for some in itertools.combinations_with_replacement(NOTHING, size)
    for few in range(3)
    if some or few
]


@pytest.mark.parametrize(("some", "few"), CASES)
def test_no_difference_and_too_little_data_are_different_sentences(some: tuple[str, ...], few: int) -> None:
    frame = rows(some, few)
    said = _describe_null_results(frame)
    assert (FEW in said) == bool(few)
    assert (f"{few:,} with {TOO_LITTLE}" in said) == bool(few)
    for outcome, words in (
        ("slight", "apart by less than matters"),
        ("undecided", "with no difference found"),
    ):
        assert (f"{some.count(outcome)} {words}" in said) == (outcome in some)


@pytest.mark.parametrize(("some", "few"), CASES)
def test_counts_and_rows_use_the_same_words(some: tuple[str, ...], few: int) -> None:
    frame = rows(some, few)
    (row,) = count_outcomes(frame)
    sentence = format_counts(row)
    told = add_text_columns(frame)["said"].to_list()
    assert told.count(TOO_LITTLE) == few
    assert (f"{few:,} with {TOO_LITTLE}" in sentence) == bool(few)
    untold = told.count(OUTCOMES["undecided"])
    assert (OUTCOMES["undecided"] in sentence) == bool(untold)
    assert f"{untold:,} with {OUTCOMES['undecided']}" in sentence or not untold
    assert ("of 1 number" in sentence and "numbers" not in sentence) == (len(told) == 1)


def test_numerical_noise_is_counted_for_itself() -> None:
    frame = pl.concat([rows(("undecided",), 1), rows((), 2).with_columns(why=pl.lit(WITHIN_PRECISION))])
    (counts,) = count_outcomes(frame)
    assert (counts["undecided"], counts["noise"], counts["no_verdict"]) == (1, 2, 1)
    assert add_text_columns(frame)["said"].to_list() == [
        *("no difference found", "too little data", "numerical noise", "numerical noise")
    ]
    assert _describe_null_results(frame) == (
        "Nothing is found to be better or worse: 1 with no difference found, 2 with numerical noise, "
        f"1 with too little data ({FEW}); of 4 numbers."
    )
