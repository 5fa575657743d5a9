"""Baselines as methods: a run with all, what makes one be trained again, and what vectors may not see."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.lenses.test_finetune import code, experiment, save_encoder

from sonde.base.errors import UnknownNameError, UsageError
from sonde.experiments import Execution
from sonde.experiments.run import run
from sonde.lenses import LensSettings, Method, load_training_lens
from sonde.lenses.finetune.options import FinetuneOptions, further_texts
from sonde.report.headlines import describe_scores
from sonde.training.finetune.recipe import BASELINES

LENS = load_training_lens("finetune")
TASKS = ("variable_misuse", "misuse_repair")
OPTIONS = {
    "epochs": 1, "length": 64, "batch": 16, "methods": ",".join(("pretrained", *BASELINES)),
    "embedding": 16, "lstm_width": 16, "lstm_layers": 1, "transformer_width": 16, "transformer_layers": 1,
    "word2vec_epochs": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drawn")
    for package in range(12):
        (root / f"package{package}").mkdir()
        text = "\n\n".join(code(package, index) for index in range(12))
        (root / f"package{package}" / "module.py").write_text(text)
    return root


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("models") / "encoder", [code(1, 1)])


def asked(project: Path, *models: Path, **options: Any) -> Any:
    plain = experiment(project, models[0])
    return dataclasses.replace(
        plain, models=tuple(map(str, models)), tasks=TASKS, options={"finetune": {**OPTIONS, **options}}
    )


@pytest.mark.slow
def test_a_run_tells_every_baseline_and_what_the_model_gains(
    project: Path, encoder: Path, tmp_path: Path
) -> None:
    outcome = run(asked(project, encoder), Execution(output=tmp_path))
    assert outcome.trained == (1 + 6) + (1 + 7)
    rows = pl.read_parquet(tmp_path / "observations/lens=finetune/*/*.parquet")
    test = rows.filter((pl.col("kind") == "example") & (pl.col("split") == "test"))
    examples = test.filter(pl.col("method") == "pretrained").group_by("task").agg(pl.col("example_id").sort())
    for task, names in examples.iter_rows():
        for part in test.filter(pl.col("task") == task).partition_by("method"):
            assert part["example_id"].sort().to_list() == names
            assert (
                part["truncated"].sum()
                == test.filter((pl.col("task") == task) & (pl.col("method") == "pretrained"))[
                    "truncated"
                ].sum()
            )
    scores = pl.read_parquet(tmp_path / "scores.parquet")
    gains = scores.filter(pl.col("metric") == "gain")
    assert set(gains.filter(pl.col("task") == "misuse_repair")["control"]) == set(BASELINES)
    classified = gains.filter((pl.col("task") == "variable_misuse") & (pl.col("control") == "bilstm"))
    correct = (
        test.filter(pl.col("task") == "variable_misuse").group_by("method").agg(pl.col("correct").mean())
    )
    share = dict(correct.iter_rows())
    assert classified["value"].item() == pytest.approx(share["pretrained"] - share["bilstm"])
    left_out = scores.filter(pl.col("metric") == "left_out").row(0, named=True)
    assert (left_out["task"], left_out["control"]) == ("variable_misuse", "lstm_pointer")
    lines = list(describe_scores(scores))
    assert any(
        line.startswith("left out (lstm_pointer), ") and ": lstm_pointer points at places" in line
        for line in lines
    )
    assert any("over a BiLSTM on skip-grams (hs)" in line for line in lines)
    # What a method does not know does not train it again: of this change only the LSTMs know.
    again = run(asked(project, encoder, lstm_width=8), Execution(output=tmp_path))
    assert again.trained == 5 + 6
    assert run(asked(project, encoder, methods="pretrained"), Execution(output=tmp_path)).trained == 0


def methods(**options: Any) -> tuple[Method, ...]:
    return LENS.methods(("variable_misuse",), LensSettings(options=options))


def test_methods_differ_in_what_they_know_alone() -> None:
    names = "pretrained,bilstm,transformer,word2vec_cbow_ns"

    def changed(**options: Any) -> set[str]:
        return {
            method.name for method in set(methods(methods=names, **options)) - set(methods(methods=names))
        }

    assert changed(rates="1e-4") == {"pretrained"}
    assert changed(frozen=True) == {"pretrained"}
    assert changed(baseline_rates="1e-4") == {"bilstm", "transformer", "word2vec_cbow_ns"}
    assert changed(transformer_layers=3) == {"transformer"}
    assert changed(embedding=8) == {"bilstm", "word2vec_cbow_ns"}
    assert changed(word2vec_corpus="stdlib") == {"word2vec_cbow_ns"}
    assert changed(length=64) == set(names.split(","))


def test_default_methods_are_the_model_its_control_and_the_bag_of_tokens() -> None:
    assert [method.name for method in methods()] == ["bag_of_tokens", "pretrained", "scratch"]


def test_in_subwords_of_their_own_baselines_are_the_same_for_every_model() -> None:
    own = {
        method.name: method.needs_model for method in methods(methods="pretrained,bilstm", subwords="program")
    }
    assert own == {"pretrained": True, "bilstm": False}
    assert all(method.needs_model for method in methods(methods="bilstm"))


def test_baselines_have_rates_and_epochs_of_their_own() -> None:
    settings = LensSettings(options={"rates": "1e-5", "epochs": 2, "baseline_epochs": "10,20"})
    options = FinetuneOptions.read(settings.options)
    of_models = options.recipe(settings)
    assert (of_models.rates, of_models.epochs) == ((1e-5,), 2)
    recipe = of_models.with_grid(options.baseline_rates, options.baseline_epochs)
    assert recipe.rates == (1e-3,)
    assert (recipe.epochs, recipe.other_epochs) == (10, (20,))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"lstm_layers": 0}, UsageError, "option lstm_layers = 0 is not a whole number"),
        (
            {"baseline_rates": "2"},
            UsageError,
            "baseline_rates = '2' is not a number above 0 and below 1",
        ),
        ({"lstm_dropout": 1}, UsageError, "option lstm_dropout = 1 is not a number from 0 to 0.9"),
        ({"subwords": "programs"}, UnknownNameError, "did you mean 'program'"),
        ({"methods": "word2vec_cbow"}, UnknownNameError, "did you mean 'word2vec_cbow_"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        FinetuneOptions.read(options)


def test_further_texts_share_nothing_with_what_is_chosen_on_or_told(project: Path, tmp_path: Path) -> None:
    """Package 1 is a cluster of test; package 2 holds a near-copy of one of its functions."""
    held = pl.DataFrame({"example_id": ["x"], "text": [code(1, 1)], "cluster": ["package1"]})
    near = code(1, 1).replace("missing 1 of 1", "missing one of 1")
    (tmp_path / "package2").mkdir()
    (tmp_path / "package1").mkdir()
    (tmp_path / "package2" / "module.py").write_text(f"{near}\n\n{code(2, 3)}")
    (tmp_path / "package1" / "module.py").write_text(code(1, 4))
    texts, source = further_texts(f"local:{tmp_path}", "python", {"valid": held, "test": held})
    assert [text.split("(")[0] for text in texts] == ["def find_d2_3"]
    assert json.loads(json.dumps(source)) == {
        "corpus": f"local:{tmp_path}",
        "clusters of valid or test": 1,
        "near valid or test": 1,
    }
