"""Predictions in the form of CodeXGLUE's evaluator, read back as the evaluator reads them."""

import json
from pathlib import Path
from typing import Any

import polars as pl
from tests.lenses.test_cloze_scores import answer, query, tables

from sonde.corpora import SkipCounter, read_files
from sonde.lenses.cloze.score import write_predictions
from sonde.store.run_folder import RunDirectory
from sonde.tasks.engine.task import TASKS

MODELS = ["org/first", "org/second"]


def given(folder: Path, sizes: dict[str, int]) -> pl.DataFrame:
    """The queries of published files, as a run draws them."""
    frames: list[pl.DataFrame] = []
    for language, size in sizes.items():
        path = folder / "data" / language / "clozeTest.json"
        path.parent.mkdir(parents=True)
        entry: dict[str, Any] = {"nl_tokens": ["Find", "it", "."]}
        entries = [
            {**entry, "idx": f"maxmin-{n}", "pl_tokens": [language, "=", f"x{n}", ".", "<mask>"]}
            for n in range(1, size + 1)
        ]
        path.write_text(json.dumps(entries), encoding="utf-8")
        files = list(read_files(f"codexglue:{path}", (), SkipCounter()))
        data = TASKS.load("api_cloze").draw(files, size=1000, seed=0, language="text", options={})
        frames.append(data.examples)
    return pl.concat(frames)


def run_of(root: Path, queries: pl.DataFrame, model: str, nats: dict[str, float]) -> None:
    labels = root / "labels" / "task=api_cloze"
    labels.mkdir(parents=True, exist_ok=True)
    queries.write_parquet(labels / "text-1.parquet")
    place = root / "observations" / "lens=cloze" / f"model={model.replace('/', '_')}"
    place.mkdir(parents=True)
    rows = [answer(query_id, 1, nats=nats[query_id]) for query_id in queries["query_id"] if query_id in nats]
    tables([], rows)[0].write_parquet(place / "a.parquet")
    (root / "run.json").write_text(json.dumps({"models": [{"name": name} for name in MODELS]}))


def read_as_the_evaluator(folder: Path, language: str) -> dict[str, str]:
    lines = (folder / language / "predictions.txt").read_text(encoding="utf-8").split("\n")
    return dict(line.strip().split("<CODESPLIT>") for line in lines if line.strip())


def test_each_model_and_folder_has_a_file(tmp_path: Path) -> None:
    queries = given(tmp_path, {"ruby": 12, "go": 3})
    root = tmp_path / "run"
    assert queries.height == 30
    for at, model in enumerate(MODELS):
        # The first model always prefers "max", the second the word that the entry's number has.
        nats = {
            row["query_id"]: float(row["answer"] != ("min" if at and int(row["name"][7:]) % 2 else "max"))
            for row in queries.to_dicts()
        }
        run_of(root, queries, model, nats)
    written = write_predictions(RunDirectory(root))
    assert sorted((told, asked) for _, told, asked in written) == [(3, 3), (3, 3), (12, 12), (12, 12)]
    first = read_as_the_evaluator(root / "predictions" / "model=org_first", "ruby")
    assert first == {f"maxmin-{n}": "max" for n in range(1, 13)}
    assert list(first) == [f"maxmin-{n}" for n in range(1, 13)]
    second = read_as_the_evaluator(root / "predictions" / "model=org_second", "go")
    assert second == {"maxmin-1": "min", "maxmin-2": "max", "maxmin-3": "min"}


def test_entries_that_could_not_be_asked_are_missing_and_counted(tmp_path: Path) -> None:
    queries = given(tmp_path, {"go": 3})
    root = tmp_path / "run"
    nats = {row["query_id"]: 1.0 for row in queries.to_dicts() if row["name"] != "maxmin-2"}
    run_of(root, queries, MODELS[0], nats)
    ((path, told, asked),) = write_predictions(RunDirectory(root))
    assert (told, asked) == (2, 3)
    assert set(read_as_the_evaluator(path.parent.parent, "go")) == {"maxmin-1", "maxmin-3"}


def test_a_run_without_such_a_test_writes_nothing(tmp_path: Path) -> None:
    run_of(tmp_path, tables([query(0)], [])[1], MODELS[0], {"q0": 1.0})
    assert write_predictions(RunDirectory(tmp_path)) == []
    assert not (tmp_path / "predictions").exists()
