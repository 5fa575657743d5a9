"""Models over lenses: what is put beside what, what an interval is over, and what may be said."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from scipy.stats import spearmanr
from tests.report.synthetic import dims
from tests.report.test_joined import BASE, run_of

from sonde.report import RunData, build_section, save_figures, write_report
from sonde.report.section import Section
from sonde.results.scores import Score
from sonde.stats.metrics import MIN_LINEAGES, _correlate_draws, rank_correlation

LEARNED = np.array([0.50, 0.55, 0.61, 0.58, 0.70, 0.66, 0.75, 0.72, 0.80, 0.78])


def score(model: str, lens: str, metric: str, value: float, **more: object) -> Score:
    ends = {"ci_low": value - 0.02, "ci_high": value + 0.02}
    return dataclasses.replace(BASE, model=model, lens=lens, metric=metric, value=value, **ends, **more)  # type: ignore[arg-type]


def of_model(model: str, learned: float, other: float) -> Iterable[Score]:
    """Bits that fall as learning rises, erasures whose excess alone rises with it, and a number of no use."""
    yield score(model, "finetune", "accuracy", learned, task="variable_misuse")
    yield score(model, "surprisal", "bits_per_byte", 3 - learned)
    best = {"task": "idn", "dimensions": dims(selection="best")}
    yield score(model, "causal", "bits", 5.0, **best)
    yield score(model, "causal", "bits", 5.0 - learned, control="uniform", **best)
    yield score(model, "causal", "excess", learned, control="uniform", **best)
    yield score(model, "surprisal", "preferred", other, task="wrong_operator")


def section(root: Path, names: Iterable[str]) -> Section | None:
    rng = np.random.default_rng(0)
    held = [
        one
        for name, value in zip(names, LEARNED, strict=False)
        for one in of_model(name, value, rng.random())
    ]
    return build_section(RunData(run_of(root, held)), "over_models")


def test_each_number_is_held_against_what_was_learned(tmp_path: Path) -> None:
    found = section(tmp_path, [f"org/m{number}" for number in range(10)])
    assert found is not None and found.figure.table is not None
    table = found.figure.table.frame()
    values = dict(zip(table["Number"], table["Spearman"], strict=True))
    # Less surprisal is better, and an erasure counts by what it costs beyond its control.
    assert values["Surprisal"] == values["Interventions, IDN"] == pytest.approx(1)
    (chart,) = (one for one in found.figure.charts if one.title.startswith("Likelier originals"))
    other = [dot["x"] for dot in chart.spec["data"]["values"]]
    ranked = values["Likelier originals, wrong operator"]
    assert ranked == pytest.approx(spearmanr(other, LEARNED).statistic)
    assert "of 3 numbers, 2 rank the models as fine-tuning does" in found.figure.answer
    for chart in found.figure.charts:
        validate_jsonschema(dict(chart.spec), load_schema())
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert '<section id="over-models"' in page or '<section id="over_models"' in page
    assert "over_models.csv" in {path.name for path in save_figures(tmp_path, ["over_models"])}


def test_checkpoints_of_one_training_are_one_lineage_and_too_few_allow_no_verdict(tmp_path: Path) -> None:
    found = section(tmp_path, [f"runs/a/series/step{2**number}" for number in range(9)] + ["runs/b/model"])
    assert found is not None and found.figure.table is not None
    assert set(found.figure.table.frame()["Lineages"]) == {2}
    assert "too little data on 3 numbers (2 lineages of models, 8 are needed)" in found.figure.answer


def test_two_models_or_no_fine_tuning_show_nothing(tmp_path: Path) -> None:
    assert section(tmp_path, ["org/a", "org/b"]) is None


@pytest.mark.parametrize("size", [MIN_LINEAGES, 14])
def test_intervals_hold_the_truth_and_narrow_with_lineages_not_with_checkpoints(size: int) -> None:
    rng = np.random.default_rng(size)
    hits = 0
    for seed in range(60):
        one, two = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size).T
        found = rank_correlation(one, two, [str(place) for place in range(size)], seed=seed)
        assert found.value == pytest.approx(spearmanr(one, two).statistic) and not found.why
        hits += found.low <= 0.58 <= found.high
    assert hits >= 54
    names = [str(place) for place in range(size)] * 3
    again = rank_correlation(np.tile(one, 3), np.tile(two, 3), names, seed=59)
    assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=0.02)


def test_a_model_without_a_number_and_a_number_that_does_not_vary() -> None:
    gone = np.array([np.nan, 1.0, 2.0, 3.0])
    assert rank_correlation(gone, np.arange(4.0), list("abcd")).models == 3
    flat = rank_correlation(np.ones(9), np.arange(9.0), list("abcdefghi"))
    assert np.isnan(flat.value) and flat.why == "one number does not vary"


def test_a_draw_is_ranked_as_if_its_models_stood_in_a_row() -> None:
    rng = np.random.default_rng(3)
    one, two = rng.integers(0, 4, (2, 9)).astype(float)
    times = rng.integers(0, 3, (30, 9))
    expected = [spearmanr(np.repeat(one, row), np.repeat(two, row)).statistic for row in times]
    np.testing.assert_allclose(_correlate_draws(one, two, times), expected, atol=1e-12)
