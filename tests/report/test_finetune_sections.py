"""The section of the fine-tuning lens on scores written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import write_run

from sonde.report import PLOTS, RunData, build_report
from sonde.report._plot import Figure
from sonde.stats.scores import Score, scores_frame
from sonde.store.rundir import RunDirectory

MODELS = {"org/one": 1.0}
SHARES = {
    "wrong_operator": {"accuracy": {None: 0.8, "scratch": 0.6, "bag_of_tokens": 0.55}},
    "swapped_operand": {"accuracy": {None: 0.5, "scratch": 0.7, "bag_of_tokens": 0.5}},
    "misuse_repair": {
        "accuracy": {None: 0.9, "scratch": 0.2},
        "classification": {None: 0.9, "scratch": 0.6, "bag_of_tokens": 0.5},
        "localisation_repair": {None: 0.42, "scratch": 0.4},
    },
}


def row(task: str, metric: str, value: float, **more: Any) -> Score:
    ends = {"ci_low": value - 0.05, "ci_high": value + 0.05, "ci_method": "clustered jackknife"}
    fields: dict[str, Any] = {"split": "test", "language": "python", "n": 400, "n_clusters": 30, **ends}
    return Score(model="org/one", lens="finetune", task=task, metric=metric, value=value, **(fields | more))


def scores(*, few: bool = False) -> list[Score]:
    found: list[Score] = []
    many: dict[str, Any] = (
        {"n_clusters": 3, "ci_method": "clustered jackknife, too few clusters"} if few else {}
    )
    for task, metrics in SHARES.items():
        for metric, arms in metrics.items():
            for control, value in arms.items():
                found.append(row(task, metric, value, control=control))
                found.append(row(task, metric, 0.01, control=control, slice="seed=1"))
                if control is not None:
                    difference = arms[None] - value
                    found.append(
                        row(task, "gain", difference, control=control, params={"name": metric}, **many)
                    )
        for epoch in (1, 2):
            at = {"params": {"k": epoch}, "slice": "epoch", "split": "valid"}
            found.append(row(task, "valid", 0.3 * epoch, **at))
            found.append(row(task, "valid", 0.2 * epoch, control="scratch", **at))
        found.append(row(task, "learning_rate", 2e-4, split="valid"))
        found.append(row(task, "truncated", 0.125))
    return found


def drawn(folder: Path, listed: list[Score]) -> Figure | None:
    root = write_run(folder, [], MODELS)
    scores_frame(listed).write_parquet(RunDirectory(root).scores)
    return PLOTS.load("finetune_summary").draw(RunData(root))


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> Figure:
    found = drawn(tmp_path_factory.mktemp("runs") / "finetune", scores())
    assert found is not None
    return found


def test_the_verdict_counts_tasks_beyond_the_interval(figure: Figure) -> None:
    """Of the pointer it is errors located and repaired that count, which here are level."""
    assert figure.lead == (
        "Pre-training helps beyond the interval in 1 of 3 fine-tuned tasks and hurts in 1."
    )


def test_every_arm_stands_beside_the_model_with_the_difference(figure: Figure) -> None:
    assert figure.table is not None
    cells = {tuple(cell.text for cell in line[:3]): line for line in figure.table.rows}
    bag = cells["wrong operator", "right", "bag of tokens"]
    assert bag[3].text == "55.0"
    assert bag[5].text == "25.0"
    assert cells["wrong operator", "right", "pre-trained"][5].text == "–"
    assert len(cells) == 3 + 3 + 2 + 3 + 2
    assert "wrong operator, right: pre-trained less from scratch 20.0 [15.0, 25.0] points." in figure.answer
    assert "wrong operator: 12.5 % of the test examples are longer than the limit." in figure.notes


def test_charts_are_valid_and_the_page_holds_them(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", [], MODELS)
    scores_frame(scores()).write_parquet(RunDirectory(root).scores)
    figure = PLOTS.load("finetune_summary").draw(RunData(root))
    assert figure is not None
    names = {chart.name for chart in figure.charts}
    assert names == {
        f"finetune-{name}" for name in ("accuracy", "classification", "localisation_repair", "course")
    }
    for chart in figure.charts:
        validate_jsonschema(dict(chart.spec), load_schema())
    assert '<section id="finetune_summary"' in build_report(root).read_text(encoding="utf-8")


def test_too_few_clusters_give_no_verdict(tmp_path: Path) -> None:
    figure = drawn(tmp_path / "run", scores(few=True))
    assert figure is not None
    assert figure.lead == ""
    assert "too few clusters for a verdict" in figure.answer


def test_a_run_without_the_lens_has_no_section(tmp_path: Path) -> None:
    assert drawn(tmp_path / "run", []) is None
