"""The sections of the cloze lens on scores and answers written by hand."""

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import write_run

from sonde.report import PLOTS, RunData
from sonde.report._plot import Figure
from sonde.stats.scores import Score, scores_frame
from sonde.store.rundir import RunDirectory, slug

MODELS = {"org/base": 1.0, "org/other": 1.0}
NAMES = sorted(name for name in PLOTS.names() if name.startswith("cloze_"))


def row(model: str, where: str, k: int, value: float, **more: Any) -> Score:
    fields: dict[str, Any] = {
        "language": "python", "n": 300, "n_clusters": 30, "params": {"name": "single", "k": k},
        "ci_low": value - 0.05, "ci_high": value + 0.05, "ci_method": "clustered jackknife",
    }  # fmt: skip
    return Score(
        model=model,
        lens="cloze",
        task="api_cloze",
        metric="p_at_k",
        slice=where,
        value=value,
        **{**fields, **more},
    )


def scores_of(model: str, level: float) -> list[Score]:
    found = [
        row(model, f"template={one}", k, level + k / 100) for one in ("call", "import") for k in (1, 10, 50)
    ]
    found += [row(model, "template=call", k, 0.01, control="majority") for k in (1, 10, 50)]
    found.append(row(model, "template=call", 10, 0.99, params={"name": "any", "k": 10}))
    for mode in ("full", "first"):
        found.append(row(model, f"template=call;mode={mode}", 10, level))
    found += [row(model, f"template=call;library=lib{at}", 10, at / 100) for at in range(30)]
    found.append(row(model, "template=alias-adversarial", 10, 0.02))
    found.append(row(model, "template=call;words=with", 10, 0.5))
    for metric, other, where, value in (
        ("preferred", "sum", "pair=replacement", level),
        ("preferred", "mean", "pair=replacement", 0.9),
        ("preferred", "sum", "pair=fake_name;form=import", 0.7),
        ("preferred", "sum", "pair=fake_name", 0.6),
        ("margin", "sum", "pair=replacement", -1.5),
    ):
        params = {"name": "causal", "other": other}
        found.append(dataclasses.replace(row(model, where, 1, value, params=params), metric=metric))
    control = row(model, "pair=replacement", 1, 0.55, params={"name": "causal"}, control="length")
    found.append(dataclasses.replace(control, metric="preferred"))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = write_run(tmp_path_factory.mktemp("runs") / "cloze", [], MODELS)
    scores = [score for at, model in enumerate(MODELS) for score in scores_of(model, 0.2 + 0.1 * at)]
    scores_frame(scores).write_parquet(RunDirectory(folder).scores)
    quizzes = pl.DataFrame(
        {
            "quiz_id": ["q0", "q1", "q2"], "template": ["call", "import", "call"], "mode": ["full"] * 3,
            "prefix": ["np.", "from a import ", "os."], "answer": ["ones", "b", "path"],
            "suffix": ["(", "", "("], "calls": [5, 9, 7],
        }
    )  # fmt: skip
    labels = folder / "labels" / "task=api_cloze"
    labels.mkdir(parents=True)
    quizzes.write_parquet(labels / "python-x.parquet")
    answers = pl.DataFrame(
        {
            "quiz_id": ["q0", "q1", "q2"], "rank": [3, 2, 1],
            "top": [["zeros", " x"], ["c"], ["path"]], "top_nats": [[0.6931472, 2.0], [1.0], [0.1]],
        }
    )  # fmt: skip
    for model in MODELS:
        place = folder / "observations" / "lens=cloze" / f"model={slug(model)}"
        place.mkdir(parents=True, exist_ok=True)
        answers.write_parquet(place / "a.parquet")
    return RunData(folder)


def drawn(run: RunData, name: str) -> Figure:
    figure = PLOTS.load(name).draw(run)
    assert figure is not None
    return figure


@pytest.mark.parametrize("name", NAMES)
def test_charts_are_valid(run: RunData, name: str) -> None:
    for chart in drawn(run, name).charts:
        validate_jsonschema({**chart.spec, "$schema": "s"}, load_schema())


def test_curves_hold_the_model_and_its_controls(run: RunData) -> None:
    figure = drawn(run, "cloze_curves")
    assert figure.table is not None
    cells = [[cell.text for cell in line] for line in figure.table.rows]
    assert list(figure.table.columns[3:6]) == ["P@1", "P@10", "P@50"]
    base = next(line for line in cells if line[:3] == ["calls", "base", "model"])
    assert base[3].startswith("21.0 ")
    assert base[4].startswith("30.0 ")
    assert ["calls", "base", "most frequent answers"] in [line[:3] for line in cells]
    assert figure.lead.startswith("other has")
    assert "2.0 [−3.0, 7.0] percentage points" in figure.answer


def test_cuts_show_the_best_and_the_least_known_libraries(run: RunData) -> None:
    figure = drawn(run, "cloze_cuts")
    libraries = next(chart for chart in figure.charts if chart.name == "cloze-by-library")
    data = libraries.spec.get("data") or libraries.spec["layer"][0]["data"]
    names = {value["name"] for value in data["values"]}
    assert names == {f"lib{at}" for at in (*range(10), *range(20, 30))}
    assert figure.table is not None
    assert not any(line[2].text == "with" for line in figure.table.rows)
    assert sum(line[1].text == "Library" for line in figure.table.rows) == 60


def test_wrong_answers_come_first_and_the_most_called_before(run: RunData) -> None:
    figure = drawn(run, "cloze_answers")
    assert figure.table is not None
    mine = [[cell.text for cell in line] for line in figure.table.rows if line[0].text == "base"]
    assert [line[2] for line in mine] == ["from a import [?]", "np.[?](", "os.[?]("]
    assert mine[1][3:6] == ["ones", "3", "zeros 0.50, ␣x 0.14"]


def test_a_run_without_names_shows_nothing(tmp_path: Path) -> None:
    run = RunData(write_run(tmp_path / "empty", [], {"m": 1.0}))
    assert [PLOTS.load(name).draw(run) for name in NAMES] == [None] * len(NAMES)


def test_pairs_stand_beside_their_controls(run: RunData) -> None:
    figure = drawn(run, "cloze_margins")
    assert figure.table is not None
    cells = [[cell.text for cell in line[:5]] for line in figure.table.rows]
    assert ["base", "replacement against deprecated", "all", "model", "20.0"] in cells
    assert ["base", "replacement against deprecated", "all", "shorter statement", "55.0"] in cells
    assert ["base", "name against a made-up one", "import", "model", "70.0"] in cells
    assert not any("90.0" in line for line in cells)
    assert "other prefers the replacement to the deprecated name in 30 %" in figure.answer
