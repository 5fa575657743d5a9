"""What fine-tuning cannot do is said in one line, and nothing that was done is lost."""

from __future__ import annotations

import dataclasses
import json
import resource
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.lenses.test_finetune import code, save_encoder

from sonde.base.errors import InputError, SondeError, StoreError
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer
from sonde.lenses import LensSettings, Method, Training, load_training_lens
from sonde.models import ModelSpec
from sonde.papers.cubert.subtokens import mask_program

LENS = load_training_lens("finetune")
OPTIONS: dict[str, Any] = {"epochs": 1, "length": 48, "rates": "1e-3", "methods": "pretrained,bag_of_tokens"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("models") / "encoder", [code(1, 1)], layers=1)


def written(root: Path, text: Any) -> Path:
    for package in range(10):
        folder = root / f"package{package}"
        folder.mkdir(parents=True)
        (folder / "module.py").write_text("\n\n".join(text(package, index) for index in range(8)))
    return root


def experiment(encoder: Path, project: Path, *tasks: str, **options: Any) -> Experiment:
    return Experiment(
        models=(str(encoder),),
        lenses=("finetune",),
        tasks=tasks,
        corpora=(f"local:{project}",),
        selection=Selection(limit=60, languages=("python",)),
        options={"finetune": {**OPTIONS, **options}},
    )


def plain(package: int, index: int) -> str:
    """A function with variables and without an operator."""
    name = f"{'abcdefgh'[index]}{package}"
    return (
        f"def take_{name}(first_{name}, second_{name}):\n"
        f"    kept_{name} = first_{name}.take({index}, {package})\n"
        f"    give_{name}(kept_{name}, 'some {name}')\n"
        f"    return second_{name}.keep(kept_{name})\n"
    )


def test_a_task_without_examples_is_left_out_and_the_others_go_on(encoder: Path, tmp_path: Path) -> None:
    project = written(tmp_path / "code", plain)
    asked = experiment(encoder, project, "variable_misuse", "wrong_operator", methods="bag_of_tokens")
    outcome = run(asked, Execution(output=tmp_path / "run"))
    assert [one.task for one in outcome.refused] == ["wrong_operator"]
    assert "\n" not in outcome.refused[0].reason
    assert outcome.trained == 1
    with pytest.raises(InputError, match="wrong_operator") as caught:
        run(dataclasses.replace(asked, tasks=("wrong_operator",)), Execution(output=tmp_path / "alone"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["pretrained", "bag_of_tokens"])
def test_training_examples_of_one_class_are_refused(encoder: Path, tmp_path: Path, method: str) -> None:
    frame = pl.DataFrame(
        {
            "example_id": list("abcd"), "item_id": list("abcd"), "text": ["x = y"] * 4,
            "start": [0] * 4, "end": [5] * 4, "other_start": [None] * 4, "other_end": [None] * 4,
            "label": ["yes", "yes", "no", "no"], "split": ["train", "train", "valid", "test"],
            "cluster": ["c"] * 4, "characters": [5] * 4, "tokens": [3] * 4, "type": [""] * 4,
        }
    )  # fmt: skip
    training = Training(
        examples=frame, model=ModelSpec(name=str(encoder)), language="python", folder=tmp_path,
        settings=LensSettings(options=OPTIONS),
    )  # fmt: skip
    with pytest.raises(InputError, match="all 2 training examples are 'yes'") as caught:
        LENS.train(Method(name=method, task="variable_misuse", seed=0), training)
    assert "\n" not in str(caught.value)


def test_functions_that_do_not_parse_are_left_out(encoder: Path, tmp_path: Path) -> None:
    project = written(tmp_path / "code", code)
    broken = "".join(f"def broken_{index}(left, right:\n    return left right (\n\n" for index in range(9))
    (project / "package3" / "broken.py").write_text(broken)
    asked = experiment(encoder, project, "misuse_repair", methods="bag_of_tokens")
    run(asked, Execution(output=tmp_path / "run"))
    read = [pl.read_parquet(tmp_path / "run" / name) for name in ("items.parquet", "inputs.parquet")]
    assert not any("broken_" in text for table in read for text in table["text"])


def test_a_pointer_into_a_text_that_does_not_parse_is_asked_like_others(
    encoder: Path, tmp_path: Path
) -> None:
    """A published test set is told as it is; what cannot be pointed at in it is a failure."""
    project = written(tmp_path / "code", code)
    text = "def f(a, b):\n    return a b\n"
    marked = mask_program(
        get_facet("python", "program", ProgramLexer), text,
        error=(24, 25), targets=((9, 10),), candidates=((6, 7), (9, 10), (24, 25), (26, 27)),
    )  # fmt: skip
    masks = {
        "function": marked.subtokens, "target_mask": marked.targets,
        "error_location_mask": marked.error, "candidate_mask": marked.candidates,
    }  # fmt: skip
    path = tmp_path / "eval.jsontxt"
    info = "dataset/ETHPy150Open owner/project/src/a.py f/VarMisuse"
    path.write_text(json.dumps({**masks, "provenance": info}) + "\n")
    asked = experiment(encoder, project, "misuse_repair", external_test=f"cubert:{path}")
    run(asked, Execution(output=tmp_path / "run"))
    scores = pl.read_parquet(tmp_path / "run/scores.parquet").filter(pl.col("split") == "external")
    assert scores.filter(pl.col("metric") == "localisation")["n"].unique().to_list() == [1]


def test_a_model_of_another_architecture_than_its_weights_is_one_line(encoder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(encoder, broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps({**config, "hidden_size": 64, "intermediate_size": 128}))
    project = written(tmp_path / "code", code)
    with pytest.raises(SondeError, match="broken") as caught:
        run(experiment(broken, project, "variable_misuse"), Execution(output=tmp_path / "run"))
    assert "\n" not in str(caught.value)


@contextmanager
def room(size: int) -> Generator[None]:
    """Let no file grow beyond so many bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_line_and_training_goes_on_afterwards(encoder: Path, tmp_path: Path) -> None:
    project = written(tmp_path / "code", code)
    asked = experiment(encoder, project, "variable_misuse", epochs=2)
    run(asked, Execution(output=tmp_path / "undisturbed"))
    folder = tmp_path / "disturbed"
    with room(150_000), pytest.raises(StoreError, match="cannot write") as caught:
        run(asked, Execution(output=folder))
    assert "\n" not in str(caught.value)
    assert not list(folder.rglob(".*.tmp"))
    # The bag of tokens was trained before; only the model is left.
    assert run(asked, Execution(output=folder)).trained == 1
    found, expected = (
        pl.read_parquet(one / "scores.parquet").filter(pl.col("split") == "test").select("metric", "value")
        for one in (folder, tmp_path / "undisturbed")
    )
    assert found.equals(expected)
