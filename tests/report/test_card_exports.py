"""A card goes to trackers by their interface, here by fakes of it, and to the Hub as files of its form."""

from __future__ import annotations

import io
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from huggingface_hub.repocard_data import model_index_to_eval_results
from tests.report.test_card import NUMBERS, row, run_of
from typer.testing import CliRunner

import sonde
from sonde.base.errors import StoreError, UnknownNameError, UsageError
from sonde.cli import app
from sonde.report import Card, export_card, write_card


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path / "run", [*NUMBERS, row(0.4, model="org/two", task="cpx")])


@pytest.fixture
def card(run: Path) -> Card:
    return write_card(run)


class FakeWandb(ModuleType):
    """What of W&B is used; runs keep what they were given."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.runs: list[Any] = []

    def init(self, **arguments: Any) -> Any:
        run = SimpleNamespace(
            arguments=arguments, logged={}, artifacts=[], finished=False, url=None,
            settings=SimpleNamespace(sync_dir="wandb/offline-run-1"),
        )  # fmt: skip
        run.log = run.logged.update
        run.log_artifact = run.artifacts.append
        run.finish = lambda: setattr(run, "finished", True)
        self.runs.append(run)
        return run

    def Settings(self, **settings: Any) -> dict[str, Any]:
        return settings

    def Table(self, columns: list[str], data: list[list[Any]]) -> Any:
        return SimpleNamespace(columns=columns, data=data)

    def Artifact(self, name: str, type: str) -> Any:
        files: dict[str, io.StringIO] = {}

        @contextmanager
        def new_file(path: str, **_: Any) -> Generator[io.StringIO]:
            files[path] = io.StringIO()
            yield files[path]

        return SimpleNamespace(name=name, type=type, files=files, new_file=new_file)


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return fake


def test_each_model_is_a_run_of_wandb_with_its_numbers(card: Card, wandb: FakeWandb, tmp_path: Path) -> None:
    places = export_card(card, "wandb", tmp_path)
    assert places == [f"wandb: org/{name}: wandb/offline-run-1" for name in ("one", "two")]
    first, second = wandb.runs
    assert first.finished and second.finished
    assert first.arguments["project"] == "sonde" and first.arguments["resume"] == "allow"
    assert first.arguments["id"] != second.arguments["id"]
    assert first.arguments["config"]["probe.folds"] == 3
    assert first.logged["probe/cpx/accuracy"] == 0.7
    assert first.logged["probe/cpx/accuracy_low"] == pytest.approx(0.65)
    assert first.logged["probe/cpx/accuracy_difference"] == 0.2
    assert first.logged["probe/cpx/accuracy_n"] == 500.0
    assert second.logged["probe/cpx/accuracy"] == 0.4
    assert {row[1] for row in first.logged["headlines"].data} == {"cpx", "jbl", "len", ""}
    assert set(first.artifacts[0].files) == {"card.json", "card.md"}


def test_the_same_card_is_the_same_run_again_and_the_project_is_the_users(
    card: Card, wandb: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    for _ in range(2):
        export_card(card, "wandb", tmp_path)
    identities = [run.arguments["id"] for run in wandb.runs]
    assert identities[:2] == identities[2:]
    assert wandb.runs[0].arguments["project"] == "mine"


class FakeClient:
    """What of MLflow's client is used."""

    experiments: ClassVar[dict[str, str]] = {}
    runs: ClassVar[dict[str, Any]] = {}

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        self.experiments[name] = str(len(self.experiments))
        return self.experiments[name]

    def search_runs(self, experiments: list[str], query: str, max_results: int) -> list[Any]:
        del experiments, max_results
        return [
            run for run in self.runs.values() if query == f"tags.`sonde.card` = '{run.tags['sonde.card']}'"
        ]

    def create_run(self, experiment_id: str, run_name: str, tags: dict[str, str]) -> Any:
        identity = f"r{len(self.runs)}"
        self.runs[identity] = SimpleNamespace(
            info=SimpleNamespace(run_id=identity), tags=tags, name=run_name, metrics={}, params={}, texts={}
        )
        return self.runs[identity]

    def log_batch(self, run_id: str, metrics: list[Any], params: list[Any]) -> None:
        self.runs[run_id].metrics.update({metric.key: metric.value for metric in metrics})
        self.runs[run_id].params.update({param.key: param.value for param in params})

    def log_text(self, run_id: str, text: str, file: str) -> None:
        self.runs[run_id].texts[file] = text

    def set_terminated(self, run_id: str) -> None:
        self.runs[run_id].is_finished = True


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    monkeypatch.setattr(FakeClient, "experiments", {})
    monkeypatch.setattr(FakeClient, "runs", {})
    fake = ModuleType("mlflow")
    entities = SimpleNamespace(
        Metric=lambda key, value, timestamp, step: SimpleNamespace(key=key, value=value),
        Param=lambda key, value: SimpleNamespace(key=key, value=value),
    )
    vars(fake).update(MlflowClient=FakeClient, entities=entities, get_tracking_uri=lambda: "file:///store")
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return FakeClient


def test_each_model_is_a_run_of_mlflow_that_is_written_again(
    card: Card, mlflow: type[FakeClient], tmp_path: Path
) -> None:
    places = export_card(card, "mlflow", tmp_path)
    assert places[0] == "mlflow: org/one: run r0 of experiment 'sonde' at file:///store"
    assert export_card(card, "mlflow", tmp_path) == places and len(mlflow.runs) == 2
    first = mlflow.runs["r0"]
    assert first.is_finished and first.name == "one, run"
    assert first.metrics["probe/cpx/accuracy"] == 0.7
    assert first.params["revision"] == "r1" and first.params["version.sonde"] == "0.1.0"
    assert set(first.texts) == {"card.json", "card.md"}


def test_names_that_mlflow_refuses_are_changed(tmp_path: Path, mlflow: type[FakeClient]) -> None:
    score = row(0.5, lens="attention", task="a/b->c", dimensions=(("relation", "x->y [z]"),))
    export_card(write_card(run_of(tmp_path / "run", [score])), "mlflow", tmp_path)
    (run,) = mlflow.runs.values()
    assert "attention/a_b-_c/relation x-_y _z_/accuracy" in run.metrics


def test_the_hub_gets_a_model_index_of_its_own_form(card: Card, tmp_path: Path) -> None:
    places = export_card(card, "hub", tmp_path)
    assert [place.rpartition("/")[2] for place in places] == ["org_one", "org_two"]
    content = yaml.safe_load((tmp_path / "hub" / "org_one" / "model-index.yaml").read_text(encoding="utf-8"))
    name, results = model_index_to_eval_results(content["model-index"])
    assert name == "one" and len(results) == len(
        [one for one in card.headlines if one.number.model == "org/one"]
    )
    (cpx,) = [result for result in results if result.task_type == "probe-cpx"]
    assert (cpx.metric_type, cpx.metric_value, cpx.dataset_name) == ("accuracy", 0.7, "local:src")
    assert cpx.metric_args["ci_low"] == pytest.approx(0.65) and cpx.metric_args["n"] == 500
    assert cpx.dataset_args["corpus_hash"] == "c0ffee"
    # No corpus of this run is a data set of the Hub.
    assert not list(tmp_path.rglob(".eval_results"))


def test_a_corpus_of_the_hub_gives_evaluation_results(card: Card, tmp_path: Path) -> None:
    headlines = [
        entry.model_copy(
            update={"number": entry.number.model_copy(update={"corpus": "hub:org/data?split=test"})}
        )
        for entry in card.headlines
    ]
    export_card(card.model_copy(update={"headlines": headlines}), "hub", tmp_path)
    file = tmp_path / "hub" / "org_one" / ".eval_results" / "sonde.yaml"
    entries = parse_eval_result_entries(yaml.safe_load(file.read_text(encoding="utf-8")))
    assert {entry.dataset_id for entry in entries} == {"org/data"}
    assert next(entry.value for entry in entries if entry.task_id == "probe-cpx") == 0.7


@pytest.mark.parametrize("target", ["wandb", "mlflow"])
def test_a_package_that_is_missing_is_named_with_its_extra(
    card: Card, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, target, None)
    with pytest.raises(
        UsageError, match=rf"--to {target} needs the package {target}: pip install 'sonde\[{target}\]'"
    ):
        export_card(card, target, tmp_path)


def test_an_unknown_target_and_a_failure_are_one_line(
    card: Card, wandb: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UnknownNameError, match=r"'mlfow'; did you mean 'mlflow'\?; known: hub, mlflow, wandb"
    ):
        export_card(card, "mlfow", tmp_path)

    def fail(**_: Any) -> None:
        raise RuntimeError("no key\nlog in")

    monkeypatch.setattr(wandb, "init", fail)
    with pytest.raises(StoreError, match=r"^wandb: the card was not taken: RuntimeError: no key log in$"):
        export_card(card, "wandb", tmp_path)


def test_a_run_without_headlines_has_nothing_to_export(tmp_path: Path) -> None:
    empty = write_card(run_of(tmp_path / "run", []))
    with pytest.raises(UsageError, match="no headline to export to hub"):
        export_card(empty, "hub", tmp_path)


def test_command_and_python_export_alike(run: Path, wandb: FakeWandb) -> None:
    result = CliRunner().invoke(app, ["card", str(run), "--to", "wandb", "--to", "hub"])
    assert result.exit_code == 0, result.output
    assert "wandb: org/one: wandb/offline-run-1" in result.output
    sonde.card(run, to=["wandb", "hub"])
    assert len(wandb.runs) == 4
    assert (run / "hub" / "org_two" / "model-index.yaml").is_file()
