"""Whole runs that read minimal pairs: Python and Java, decoders and masked models, again and compared."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import UsageError
from sonde.comparison.compare import compare
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.resolve import resolve_lenses
from sonde.experiments.run import run
from sonde.report import PLOTS, RunData
from sonde.store.run_folder import RunDirectory
from sonde.tasks.engine.pairs import makes_pairs
from sonde.tasks.engine.task import TASKS
from tests.slices import with_slices

JAVA = """class C{n} {{
    int count{n}(int first{n}, int[] values, int limit) {{
        int sum{n} = {n};
        for (int i = first{n}; i < limit; i++) {{ sum{n} = sum{n} + values[i] - first{n}; }}
        return sum{n} - limit;
    }}
}}
"""


@pytest.fixture(scope="module")
def mixed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Python of eleven packages and Java of twelve, in one folder."""
    root = tmp_path_factory.mktemp("mixed")
    for path in project.rglob("*.py"):
        (root / f"{path.parent.name}_{path.name}").write_text(path.read_text(encoding="utf-8"))
    for number in range(12):
        folder = root / f"java{number}"
        folder.mkdir()
        (folder / "C.java").write_text(JAVA.format(n=number))
    return f"local:{root}"


def experiment(model: Path, corpus: str, pairs: str, **options: str | int) -> Experiment:
    return Experiment(
        models=(str(model),),
        lenses=("surprisal",),
        corpora=(corpus,),
        selection=Selection(limit=12),
        options={"surprisal": {"pairs": pairs, "min_count": 1, **options}},
    )


def test_a_run_reads_pairs_in_two_languages_and_finds_all_there_the_second_time(
    decoder: Path, mixed: str, tmp_path: Path
) -> None:
    asked = experiment(decoder, mixed, "variable_misuse,jbl")
    first = run(asked, Execution(output=tmp_path))
    assert first.observed > 0
    scores = with_slices(pl.read_parquet(tmp_path / "scores.parquet"))
    own = scores.filter(
        (pl.col("metric") == "preferred") & pl.col("control").is_null() & (pl.col("slice") == "all")
    )
    assert set(own.select("task", "language").rows()) == {
        (task, language) for task in ("variable_misuse", "jbl") for language in ("python", "java")
    }
    assert own["n"].to_list() == [12] * 4
    assert set(scores["control"].drop_nulls()) == {"chance", "length", "ngram", "parse_error", "frequency"}
    assert set(scores["metric"]) == {"preferred", "margin", "gain"}
    rows = pl.read_parquet(tmp_path / "observations" / "**" / "*.parquet")
    sides = rows.group_by("task", "source_id").agg(pl.col("original").sort())
    assert set(map(tuple, sides["original"].to_list())) == {(False, True)}
    again = run(asked, Execution(output=tmp_path))
    assert (again.observed, again.reused) == (0, first.observed)
    assert with_slices(pl.read_parquet(tmp_path / "scores.parquet")).equals(scores)


def test_masked_models_read_some_pairs_and_never_beside_decoders(
    encoder: Path, decoder: Path, mixed: str, tmp_path: Path
) -> None:
    asked = experiment(encoder, mixed, "variable_misuse", masked_items=5)
    run(asked, Execution(output=tmp_path))
    scores = with_slices(pl.read_parquet(tmp_path / "scores.parquet"))
    assert set(scores["objective"]) == {"pll"}
    own = scores.filter((pl.col("metric") == "margin") & (pl.col("slice") == "all"))
    assert own["n"].to_list() == [5, 5]
    both = dataclasses.replace(asked, models=(str(encoder), str(decoder)))
    outcome = run(both, Execution(output=tmp_path / "both"))
    assert {refused.model for refused in outcome.refused} >= {str(encoder)}


def test_sections_and_comparison_show_pairs(decoder: Path, mixed: str, tmp_path: Path) -> None:
    asked = experiment(decoder, mixed, "variable_misuse,wrong_operator")
    run(asked, Execution(output=tmp_path / "a"))
    data = RunData(tmp_path / "a")
    figure = PLOTS.load("minimal_pairs").draw(data)
    assert figure is not None
    assert figure.charts[0].name == "minimal-pairs"
    assert figure.table is not None
    assert {"model", "n-grams of code tokens", "the shorter text"} <= set(figure.table.frame()["Who"])
    missed = PLOTS.load("missed_pairs").draw(data)
    assert missed is not None
    assert missed.table is not None
    frame = missed.table.frame()
    assert (frame["Bits"] > 0).all()
    assert frame["As it was written"].str.contains("⟨").all()
    assert (frame["As it was written"] != frame["Mutant"]).all()
    run(asked, Execution(output=tmp_path / "b"))
    (found,) = compare([tmp_path / "a", tmp_path / "b"])
    tasks = {(one.score.task, one.score.metric) for one in found.differences}
    assert {("variable_misuse", "preferred"), ("wrong_operator", "preferred")} <= tasks
    assert all(one.value == 0 for one in found.differences)


def test_a_run_without_pairs_has_no_such_section(decoder: Path, project: Path, tmp_path: Path) -> None:
    run(
        Experiment(models=(str(decoder),), corpora=(f"local:{project}",), selection=Selection(limit=5)),
        Execution(output=tmp_path),
    )
    data = RunData(tmp_path)
    assert PLOTS.load("minimal_pairs").draw(data) is None
    assert PLOTS.load("missed_pairs").draw(data) is None


def test_unknown_tasks_and_paper_mode_are_refused_before_anything_is_read(
    decoder: Path, mixed: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="exception_type"):
        run(experiment(decoder, mixed, "exception_type"), Execution(output=tmp_path))
    paper = dataclasses.replace(experiment(decoder, mixed, "sri"), mode="paper")
    with pytest.raises(UsageError, match="pairs cannot be combined with paper mode"):
        run(paper, Execution(output=tmp_path))
    assert not RunDirectory(tmp_path).items.is_file()


def test_the_pairs_stand_in_run_json(decoder: Path, mixed: str, tmp_path: Path) -> None:
    run(experiment(decoder, mixed, "sri"), Execution(output=tmp_path))
    summary = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    (lens,) = summary["lenses"]
    assert lens["tasks"] == ["sri"]
    reports = [one["sri"] for one in summary["data_sets"].values()]
    assert all(one["size"] == 12 and one["counted"] > 0 for one in reports)


@pytest.mark.parametrize("task", [name for name in TASKS.names() if makes_pairs(TASKS.load(name))])
def test_a_task_beside_surprisal_is_told_the_option_for_pairs(task: str) -> None:
    asked = Experiment(models=("sonde/mini-decoder",), lenses=("surprisal",), tasks=(task,))
    with pytest.raises(UsageError, match=f"--option surprisal.pairs={task} in place of -t {task}"):
        resolve_lenses(asked)
