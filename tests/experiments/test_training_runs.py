"""Runs that train: what is trained again, and a second test set told beside the corpus's own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from sonde.base.errors import UsageError
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.report import write_report
from sonde.training.finetune.batches import Batch
from sonde.training.finetune.model import LoadedBody

TASK = "wrong_operator"


def function(name: str, sign: str) -> str:
    return (
        f"def near_{name}(left_{name}, right_{name}):\n"
        f"    for step_{name} in left_{name}:\n"
        f"        if step_{name} {sign} right_{name}:\n"
        f"            return far_{name}(step_{name}, 'of {name}')\n"
        f"    raise KeyError(right_{name}, 'no {name}')\n"
    )


def line(text: str, label: str, repository: str) -> str:
    info = f"dataset/ETHPy150Open {repository}/src/a.py near/original"
    return json.dumps({"function": text, "label": label, "info": info}) + "\n"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trained")
    for package in range(12):
        folder = root / f"package{package}"
        folder.mkdir()
        body = "\n\n".join(function(f"{'abcdefgh'[index]}{package}", "<") for index in range(8))
        (folder / "module.py").write_text(body)
    return root


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve functions of three repositories, and one that the training code nearly has."""
    path = tmp_path_factory.mktemp("published") / "eval.jsontxt"
    lines = [
        line(function(f"pub{index}", sign), label, f"owner/project{index % 3}")
        for index in range(6)
        for sign, label in (("==", "Correct"), ("is", "Wrong binary operator"))
    ]
    lines.append(line(function("c3", ">"), "Wrong binary operator", "owner/copied"))
    path.write_text("".join(lines))
    return path


def experiment(code: Path, **options: Any) -> Experiment:
    return Experiment(
        lenses=("finetune",),
        tasks=(TASK,),
        corpora=(f"local:{code}",),
        selection=Selection(limit=150, languages=("python",)),
        options={"finetune": {"methods": "bag_of_tokens", **options}},
    )


def examples(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(next((folder / f"labels/task={TASK}").glob("*[0-9a-f].parquet")))


def test_one_more_task_trains_its_own_methods_alone(code: Path, tmp_path: Path) -> None:
    """Hours of training would be lost otherwise."""
    one = experiment(code)
    two = dataclasses.replace(one, tasks=(TASK, "swapped_operand"))
    assert run(one, Execution(output=tmp_path)).trained == 1
    assert run(two, Execution(output=tmp_path)).trained == 1
    assert run(one, Execution(output=tmp_path)).trained == 0
    other = dataclasses.replace(two, selection=dataclasses.replace(two.selection, limit=140))
    assert run(other, Execution(output=tmp_path)).trained == 2


def test_a_corpus_read_beside_the_examples_is_trained_on_again_when_it_changes(
    code: Path, tmp_path: Path
) -> None:
    pytest.importorskip("gensim", reason="needs the extra baselines")
    more = tmp_path / "more"
    more.mkdir()
    (more / "module.py").write_text(function("more", "<"))
    small = {"subwords": "program", "vocabulary": 300, "embedding": 8, "lstm_width": 8, "epochs": 1}
    methods = {"methods": "bag_of_tokens,word2vec_cbow_ns", "word2vec_epochs": 1}
    asked = experiment(code, **small, **methods, word2vec_corpus=f"local:{more}")
    folder = tmp_path / "run"
    assert run(asked, Execution(output=folder)).trained == 2
    assert run(asked, Execution(output=folder)).trained == 0
    (more / "module.py").write_text(function("more", ">"))
    assert run(asked, Execution(output=folder)).trained == 1


def test_the_second_test_set_is_told_as_published(code: Path, published: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(experiment(code, external_test=f"cubert:{published}"), Execution(output=folder))
    other = examples(folder).filter(pl.col("split") == "external")
    assert other.height == 13
    assert sorted(other["label"].value_counts()["count"].to_list()) == [6, 7]
    assert other["cluster"].n_unique() == 4
    scores = pl.read_parquet(folder / "scores.parquet")
    accuracy = scores.filter((pl.col("metric") == "accuracy") & (pl.col("control") == "bag_of_tokens"))
    assert accuracy.select("split", "n").sort("split").rows() == [
        ("external", 13),
        ("test", examples(folder).filter(pl.col("split") == "test").height),
    ]
    rows = pl.read_parquet(folder / "observations/lens=finetune/*/*.parquet")
    right = rows.filter((pl.col("split") == "external") & (pl.col("baseline") == "bag_of_tokens"))["correct"]
    assert accuracy.filter(pl.col("split") == "external")["value"].item() == pytest.approx(right.mean())
    texts = pl.read_parquet(folder / "inputs.parquet")["text"].to_list()
    assert function("pub0", "==").strip() in {text.strip() for text in texts}


def test_nothing_is_trained_on_that_nearly_repeats_it(code: Path, published: Path, tmp_path: Path) -> None:
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    run(experiment(code), Execution(output=alone))
    run(experiment(code, external_test=f"cubert:{published}"), Execution(output=beside))
    before, after = examples(alone), examples(beside).filter(pl.col("split") != "external")
    gone = before.join(after, on="example_id", how="anti")
    names = dict(
        pl.concat(
            [
                pl.read_parquet(alone / name).select("item_id", "text")
                for name in ("items.parquet", "inputs.parquet")
            ]
        ).iter_rows()
    )
    copied = [row for row in before.to_dicts() if "near_c3(" in names[row["item_id"]]]
    assert copied
    expected = {row["example_id"] for row in copied if row["split"] != "test"}
    assert set(gone["example_id"]) == expected


def test_without_it_nothing_changes_and_another_file_is_another_set(
    code: Path, published: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    asked = experiment(code, external_test=f"cubert:{published}")
    assert run(asked, Execution(output=folder)).trained == 1
    assert run(asked, Execution(output=folder)).trained == 0
    copy = tmp_path / "eval.jsontxt"
    copy.write_text(published.read_text().replace("pub5", "pub6"))
    changed = dataclasses.replace(
        asked, options={"finetune": {"methods": "bag_of_tokens", "external_test": f"cubert:{copy}"}}
    )
    assert run(changed, Execution(output=folder)).trained == 1


def test_a_file_of_another_task_is_refused_in_one_line(code: Path, published: Path, tmp_path: Path) -> None:
    asked = dataclasses.replace(
        experiment(code, external_test=f"cubert:{published}"), tasks=("variable_misuse",)
    )
    with pytest.raises(
        UsageError, match="has labels of wrong_operator, but the run measures variable_misuse"
    ):
        run(asked, Execution(output=tmp_path / "run"))


@pytest.mark.slow
def test_batches_of_a_training_that_do_not_fit_into_memory_are_counted(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = LoadedBody.forward

    def scarce(body: LoadedBody, batch: Batch) -> torch.Tensor:
        if len(batch.ids) > 4:
            raise torch.OutOfMemoryError("out of memory")
        return read(body, batch)

    monkeypatch.setattr(LoadedBody, "forward", scarce)
    asked = experiment(code, methods="pretrained,bag_of_tokens", epochs=1, rates=1e-4)
    run(asked, Execution(output=tmp_path))
    forwards = json.loads((tmp_path / "run.json").read_text())["forwards"]
    assert forwards["batches of trainings halved for memory"] > 0
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "batches of trainings halved for memory" in page
