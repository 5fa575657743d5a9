"""Lenses that draw data sets, have controls and follow up, from the run's point of view."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import InputError, UsageError
from sonde.base.progress import Advance, NullProgress
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run

LENS = '''
"""Counts the inputs that it is shown, and looks at them a second time."""
import dataclasses

import polars as pl

from sonde.capture.requests import HiddenStates, Pass, Plain
from sonde.lenses import Control, ReadingLens


class Counting(ReadingLens):
    name = "counting"
    version = "1"
    quirks = {}
    options = {}
    tasks = ("sri", "cpx")
    targets = frozenset({"mutation", "item"})
    uses_datasets = True

    def unsupported_reason(self, capabilities):
        return None

    def controls(self, settings):
        return (Control(5, 0.5),)

    def input_requests(self, prepared, labels, settings):
        for task, table in labels.items():
            assert set(table["item_id"]) <= {one.item.item_id for one in prepared}
        return (Pass(Plain(), (HiddenStates(),)),)

    def observe(self, observed, labels, settings, surfaces):
        norms = [float((one.captures[0].states["mean"] ** 2).sum()) for one in observed]
        ids = [one.prepared.item.item_id for one in observed]
        return pl.DataFrame({"item_id": ids, "norm": norms, "stage": [settings.stage] * len(ids)})

    def score(self, scoring):
        table = scoring.observations.collect()
        assert set(table["stage"]) == {scoring.settings.stage}
        shown = set(table["item_id"])
        for examples in scoring.labels.values():
            assert set(examples["item_id"]) <= shown
        assert shown == set(scoring.texts.collect()["item_id"]) == set(scoring.items["item_id"])
        metric = "norm" if scoring.settings.stage == 0 else f"again_{scoring.settings.found['most']}"
        made = dataclasses.replace(
            scoring.template, metric=metric, value=table["norm"].mean(), n=table.height, n_clusters=1
        )
        controls = [
            dataclasses.replace(made, control="random_weights", n=one.observations.collect().height, seed=5)
            for one in scoring.controls
            if one.control.seed == 5
        ]
        return [made, *controls]

    def next_stage(self, scores, settings):
        return {"most": scores[0].n} if settings.stage == 0 else None


lens = Counting()
'''


def code(package: int, index: int) -> str:
    name = f"{'abcdefghij'[index % 10]}{package}_{index}"
    first, second = f"left_{name}", f"right_{name}"
    return (
        f"def find_{name}({first}, {second}):\n"
        f"    for {name} in {first}:\n"
        f"        if {name} == {second} or {name} is None and {index} < {package}:\n"
        f"            return {name}\n"
        f"    raise KeyError({second}, 'missing {index} of {package}')\n"
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drawn")
    for package in range(12):
        folder = root / f"package{package}"
        folder.mkdir()
        (folder / "module.py").write_text("\n\n".join(code(package, index) for index in range(12)))
    (root / "counting.py").write_text(LENS)
    return root


def experiment(project: Path, encoder: Path, **changes: object) -> Experiment:
    values: dict[str, object] = {
        "models": (str(encoder),),
        "lenses": (str(project / "counting.py"),),
        "corpora": (f"local:{project}",),
        "selection": Selection(limit=60, languages=("python",)),
        **changes,
    }
    return Experiment(**values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finished(project: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "drawn"
    outcome = run(experiment(project, encoder), Execution(output=folder))
    assert [refused.task for refused in outcome.refused] == ["cpx"]
    assert "class" in outcome.refused[0].reason
    return folder


def test_a_task_without_a_data_set_is_left_out_and_the_others_go_on(finished: Path) -> None:
    scores = pl.read_parquet(finished / "scores.parquet")
    examples = pl.read_parquet(finished / "labels/task=sri/*[0-9a-f].parquet")
    shown = examples["item_id"].n_unique()
    assert scores.filter(pl.col("control").is_null() & (pl.col("metric") == "norm"))["n"].item() == shown
    assert not list(finished.glob("labels/task=cpx/*"))


class Told(NullProgress):
    """What a run says, in order, with the titles of its stages."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, title: str, total: int | None = None) -> AbstractContextManager[Advance]:
        self.lines.append(title)
        return super().stage(title, total)

    def note(self, line: str) -> None:
        self.lines.append(line)


def test_too_few_clusters_for_a_verdict_are_told_before_the_model_reads(
    project: Path, encoder: Path, tmp_path: Path
) -> None:
    told = Told()
    run(experiment(project, encoder), Execution(output=tmp_path / "run"), told)
    (lack,) = [line for line in told.lines if "too few effective clusters" in line]
    assert lack.startswith("counting on ") and ": sri, with " in lack and "-c environment" in lack
    assert told.lines.index(lack) < told.lines.index("observing")
    held = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["data_sets"]
    (report,) = [reports["sri"] for reports in held.values()]
    assert report["effective_clusters"] < 10


def test_what_a_task_derives_is_an_input_but_no_item_of_the_corpus(finished: Path) -> None:
    examples = pl.read_parquet(finished / "labels/task=sri/*[0-9a-f].parquet")
    faulty = set(examples.filter(pl.col("item_id") != pl.col("source_id"))["item_id"])
    assert faulty
    assert faulty == set(pl.read_parquet(finished / "inputs.parquet")["item_id"])
    assert not faulty & set(pl.read_parquet(finished / "items.parquet")["item_id"])


def test_a_control_reads_its_share_and_a_second_stage_knows_the_first(finished: Path) -> None:
    scores = pl.read_parquet(finished / "scores.parquet")
    norm = scores.filter(pl.col("metric") == "norm")
    shown = norm.filter(pl.col("control").is_null())["n"].item()
    control = norm.filter(pl.col("control") == "random_weights")
    assert control["seed"].to_list() == [5]
    assert 0 < control["n"].item() < shown
    assert scores.filter(pl.col("metric") == f"again_{shown}")["n"].to_list() == [shown]
    assert {path.name for path in (finished / "observations").iterdir()} == {
        "lens=counting",
        "lens=counting.1",
    }


def test_going_on_computes_nothing_again(project: Path, encoder: Path, finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}
    outcome = run(experiment(project, encoder), Execution(output=finished))
    assert outcome.observed == 0
    assert outcome.reused > 0
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}


def test_a_user_names_tasks_that_the_lens_takes(project: Path, encoder: Path, tmp_path: Path) -> None:
    run(experiment(project, encoder, tasks=("sra",)), Execution(output=tmp_path))
    assert [path.name for path in (tmp_path / "labels").iterdir()] == ["task=sra"]
    with pytest.raises(UsageError, match="'call_origin' is about span, and no lens of this run takes it"):
        run(experiment(project, encoder, tasks=("call_origin",)), Execution(output=tmp_path))


def test_a_lens_without_any_data_set_says_why(project: Path, encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no data set to read: task 'cpx' in python: class"):
        run(experiment(project, encoder, tasks=("cpx",)), Execution(output=tmp_path))
