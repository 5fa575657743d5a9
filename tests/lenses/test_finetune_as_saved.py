"""A fine-tuned model asked as it is on a published file alone: every example a test, nothing trained."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sysconfig
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from tests.corpora.test_great import TOKENS, buggy, entry, write
from tests.facade.test_predicted_bugs import function, samples
from tests.lenses.test_finetune import save_encoder
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import sonde
from sonde.base.errors import SondeError
from sonde.corpora import Selection, SkipCounter, read_items
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.models import ModelSpec
from sonde.training.finetune.data import TaskData
from sonde.training.finetune.recipe import FinetuneRecipe
from sonde.training.finetune.tune import tune

SIZE = 24


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("saved")
    spec = ModelSpec(name=str(save_encoder(root / "encoder", [function(0)])), device="cpu")
    data = TaskData(
        ("Correct", "Variable misuse"), *(samples("variable_misuse", 16, at) for at in (0, 50, 99))
    )
    recipe = FinetuneRecipe(length=96, epochs=1, rates=(1e-3,))
    about = {"task": "variable_misuse", "language": "python", "method": "pretrained"}
    return tune(spec, data, recipe, root / "tuned", metadata=about).folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Examples of a dozen repositories, each with names of its own."""
    entries = [
        json.loads(json.dumps(one).replace("value", f"value{number}").replace("a/b", f"a{number % 12}/b"))
        for number in range(SIZE // 2)
        for one in (entry(TOKENS), buggy())
    ]
    return write(tmp_path_factory.mktemp("great") / "eval.jsontxt", *entries)


def asked(model: Path, published: Path, task: str = "variable_misuse") -> Experiment:
    return Experiment(
        models=(str(model),),
        lenses=("finetune",),
        tasks=(task,),
        corpora=(f"great:{published}",),
        selection=Selection(languages=("python",), near_duplicates=False),
        options={"finetune": {"as_saved": True}},
    )


def test_every_example_is_asked_and_answered_as_the_model_answers(
    model: Path, published: Path, tmp_path: Path
) -> None:
    outcome = run(asked(model, published), Execution(output=tmp_path))
    assert not outcome.refused and outcome.trained == 1
    (table,) = tmp_path.glob("observations/lens=finetune/*/*.parquet")
    rows = pl.read_parquet(table)
    assert rows.height == SIZE and set(rows["split"]) == {"test"}
    texts = {item.item_id: item.text for item in read_items(f"great:{published}", SkipCounter())}
    told = sonde.FineTuned.from_pretrained(model, "cpu").tell([texts[name] for name in rows["item_id"]])
    assert rows["predicted"].to_list() == [one.label for one in told]
    for chances, one in zip(rows["probability"].to_list(), told, strict=True):
        assert chances == pytest.approx(list(one.chances.values()), abs=1e-5)
    scores = pl.read_parquet(tmp_path / "scores.parquet")
    own = scores.filter((pl.col("metric") == "accuracy") & pl.col("control").is_null()).row(0, named=True)
    assert own["n"] == SIZE and own["n_clusters"] == 12
    assert own["value"] == pytest.approx(rows["correct"].mean())
    assert not list(tmp_path.glob("trained/*/model"))


def test_another_task_than_that_of_the_model_is_refused(model: Path, published: Path, tmp_path: Path) -> None:
    with pytest.raises(SondeError, match="was fine-tuned for task 'variable_misuse'"):
        run(asked(model, published, "misuse_repair"), Execution(output=tmp_path))


def test_a_model_that_was_never_fine_tuned_is_refused(model: Path, published: Path, tmp_path: Path) -> None:
    plain = dataclasses.replace(asked(model, published), models=(str(model.parents[1] / "encoder"),))
    with pytest.raises(SondeError, match="its head cannot be read"):
        run(plain, Execution(output=tmp_path))


MODULES = (
    "calendar",
    "cmd",
    "code",
    "csv",
    "difflib",
    "dis",
    "filecmp",
    "fnmatch",
    "glob",
    "gzip",
    "heapq",
    "pdb",
)


@pytest.mark.slow
def test_other_lenses_read_a_fine_tuned_model_as_transformers_does(model: Path, tmp_path: Path) -> None:
    """Its own weights, not those that it began with: states equal those of its body."""
    for name in MODULES:
        folder = tmp_path / "code" / name
        folder.mkdir(parents=True)
        shutil.copy(Path(sysconfig.get_path("stdlib"), f"{name}.py"), folder)
    ran = sonde.run(
        models=model,
        lenses=["probe", "attention", "surprisal"],
        tasks="jft",
        corpora=f"local:{tmp_path / 'code'}",
        limit=40,
        output=tmp_path / "run",
        options={"probe": {"controls": False, "curves": False, "folds": 1}},
        include_seen=True,
        workers=1,
    )
    assert set(ran.scores["lens"]) == {"probe", "attention", "surprisal"}
    states = ran.states("jft", 2)
    texts = dict(ran.items.select("item_id", "text").collect().iter_rows())
    body = AutoModelForSequenceClassification.from_pretrained(model).base_model.eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    compared = 0
    for at, item in enumerate(states.examples["item_id"]):
        row = tokenizer(texts[item], return_tensors="pt")["input_ids"]
        if row.shape[1] <= body.config.max_position_embeddings:
            with torch.no_grad():
                hidden = body(row, output_hidden_states=True).hidden_states[2]
            wanted = hidden[0].mean(0).numpy()
            np.testing.assert_allclose(states.values[at], wanted, atol=2e-3 * np.abs(wanted).max())
            compared += 1
    assert compared
