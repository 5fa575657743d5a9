"""The fine-tuning lens: a whole run with a tiny model, and its numbers against plain arithmetic."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.slices import with_slices
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.lenses import (
    LENSES,
    LensSettings,
    Method,
    ScoringContext,
    Training,
    TrainingLens,
    load_training_lens,
)
from sonde.lenses.finetune.data import ROWS_SCHEMA
from sonde.lenses.finetune.options import FinetuneOptions
from sonde.models import ModelSpec, load_model
from sonde.report.headlines import describe_scores
from sonde.results.scores import Score, read_scores, scores_to_frame

LENS = load_training_lens("finetune")
TASKS = ("variable_misuse", "function_docstring", "misuse_repair")
OPTIONS = {"epochs": 1, "length": 64, "batch": 16, "rates": "1e-3", "seeds": 2}


def save_encoder(folder: Path, texts: list[str], *, context: int = 128, layers: int = 2) -> Path:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<bos>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    special = {"bos_token": "<bos>", "pad_token": "<pad>", "mask_token": "<mask>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=400, hidden_size=48, intermediate_size=96, num_hidden_layers=layers,
        num_attention_heads=4, max_position_embeddings=context, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def code(package: int, index: int) -> str:
    name = f"{'abcdefghij'[index % 10]}{package}_{index}"
    return (
        f"def find_{name}(left_{name}, right_{name}):\n"
        f'    """Find {name} number {index} of package {package}."""\n'
        f"    for {name} in left_{name}:\n"
        f"        if {name} == right_{name} or {name} is None and {index} < {package}:\n"
        f"            return {name}\n"
        f"    raise KeyError(right_{name}, 'missing {index} of {package}')\n"
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drawn")
    for package in range(12):
        folder = root / f"package{package}"
        folder.mkdir()
        (folder / "module.py").write_text("\n\n".join(code(package, index) for index in range(12)))
    return root


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("models") / "encoder", [code(1, 1)])


def experiment(project: Path, encoder: Path) -> Experiment:
    return Experiment(
        models=(str(encoder),),
        lenses=("finetune",),
        tasks=TASKS,
        corpora=(f"local:{project}",),
        selection=Selection(limit=80, languages=("python",)),
        options={"finetune": OPTIONS},
    )


@pytest.fixture(scope="module")
def finished(project: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "finetune"
    outcome = run(experiment(project, encoder), Execution(output=folder))
    assert not outcome.refused
    assert outcome.trained == len(TASKS) * 5
    return folder


@pytest.fixture(scope="module")
def rows(finished: Path) -> pl.DataFrame:
    table = pl.read_parquet(finished / "observations/lens=finetune/*/*.parquet")
    return table.filter(pl.col("kind") != "attention")


def test_it_is_a_lens_that_trains() -> None:
    assert isinstance(LENSES.load("finetune"), TrainingLens)
    methods = LENS.methods(("a", "b"), LensSettings(options={"seeds": 2}, seed=7))
    assert [(method.task, method.name, method.seed) for method in methods if method.task == "a"] == [
        ("a", "bag_of_tokens", 7), ("a", "pretrained", 7), ("a", "scratch", 7), ("a", "pretrained", 8),
        ("a", "scratch", 8),
    ]  # fmt: skip
    assert [method.needs_model for method in methods[:2]] == [False, True]
    only = LENS.methods(("a",), LensSettings(options={"methods": "scratch"}))
    assert [method.name for method in only] == ["scratch"]


def test_every_arm_answers_to_every_test_example(finished: Path, rows: pl.DataFrame) -> None:
    for task in TASKS:
        examples = pl.read_parquet(finished / f"labels/task={task}/*[0-9a-f].parquet")
        asked = examples.filter(pl.col("split") == "test")
        mine = rows.filter((pl.col("task") == task) & (pl.col("split") == "test"))
        for part in mine.partition_by("method", "seed", "baseline"):
            assert sorted(part["example_id"]) == sorted(asked["example_id"])
            told = part.join(asked, on="example_id", suffix="_asked")
            assert told["label"].to_list() == told["label_asked"].to_list()
            assert told["cluster"].to_list() == told["cluster_asked"].to_list()
        assert mine.select("method", "seed", "baseline").n_unique() == 4 + 7
    tuned = rows.filter(pl.col("probability").is_not_null())
    assert tuned["probability"].list.sum().to_list() == pytest.approx([1.0] * tuned.height, abs=1e-5)


def test_scores_are_the_means_of_the_rows(finished: Path, rows: pl.DataFrame) -> None:
    scores = with_slices(pl.read_parquet(finished / "scores.parquet"))
    test = rows.filter((pl.col("kind") == "example") & (pl.col("split") == "test"))
    out = test.filter(~pl.col("reached"))["example_id"].unique()
    assert len(out)
    test = test.filter(~pl.col("example_id").is_in(out.implode()))

    def told(task: str, metric: str, control: str | None, **where: Any) -> float:
        found = scores.filter(
            (pl.col("task") == task)
            & (pl.col("metric") == metric)
            & pl.col("control").eq_missing(pl.lit(control, pl.String))
            & (pl.col("slice") == where.get("slice", "all"))
            & pl.col("of_metric").eq_missing(pl.lit(where.get("of_metric"), pl.String))
        )
        return float(found["value"].item())

    for task in TASKS[:2]:
        mine = test.filter(pl.col("task") == task)
        share = {
            (method, seed): float(part["correct"].mean())  # type: ignore[arg-type]
            for (method, seed), part in mine.filter(pl.col("method") != "bag_of_tokens")
            .partition_by("method", "seed", as_dict=True)
            .items()
        }
        own, other = (
            np.mean([share[method, seed] for seed in (0, 1)]) for method in ("pretrained", "scratch")
        )
        assert told(task, "accuracy", None) == pytest.approx(own)
        assert told(task, "accuracy", None, slice="seed=1") == pytest.approx(share["pretrained", 1])
        assert told(task, "accuracy", "scratch") == pytest.approx(other)
        assert told(task, "gain", "scratch", of_metric="accuracy") == pytest.approx(own - other)
        said = mine.filter((pl.col("method") == "scratch") & (pl.col("seed") == 1))["predicted"].to_list()
        most = max(map(said.count, said)) / len(said)
        assert told(task, "commonest_answer", "scratch", slice="seed=1") == pytest.approx(most)
        bag = mine.filter(pl.col("baseline") == "bag_of_tokens")["correct"].mean()
        assert told(task, "accuracy", "bag_of_tokens") == pytest.approx(bag)
        assert told(task, "gain", "bag_of_tokens", of_metric="accuracy") == pytest.approx(own - bag)
    mine = test.filter((pl.col("task") == "misuse_repair") & (pl.col("method") == "pretrained"))
    buggy = [row for row in mine.to_dicts() if row["label"] == "Variable misuse"]
    clean = [row for row in mine.to_dicts() if row["label"] != "Variable misuse"]
    expected = {
        "true_positive": np.mean([row["predicted"] == "nothing" for row in clean]),
        "classification": np.mean(
            [row["predicted"] == "nothing" for row in clean]
            + [row["predicted"] != "nothing" for row in buggy]
        ),
        "localisation": np.mean([row["located"] for row in buggy]),
        "localisation_repair": np.mean([row["located"] and row["repaired"] for row in buggy]),
    }
    for metric, value in expected.items():
        assert told("misuse_repair", metric, None) == pytest.approx(value)
    assert told("misuse_repair", "classification", "majority") == pytest.approx(0.5)
    assert scores.filter(pl.col("metric") == "learning_rate")["value"].unique().to_list() == [1e-3]
    epochs = scores.filter((pl.col("metric") == "valid") & (pl.col("slice") == "epoch"))
    assert epochs["k"].unique().to_list() == [1]


def test_trained_models_are_read_by_every_lens(finished: Path) -> None:
    folders = sorted((finished / "trained").glob("*/model"))
    assert len(folders) == len(TASKS) * 4
    loaded = load_model(ModelSpec(name=str(folders[0])))
    assert loaded.capabilities.masks


def test_every_trained_model_has_a_card_with_what_it_reached(finished: Path, rows: pl.DataFrame) -> None:
    for folder in (finished / "trained").glob("*/model"):
        text = (folder / "README.md").read_text(encoding="utf-8")
        about = json.loads((folder / "head.json").read_text())["about"]
        own = (
            (pl.col("task") == about["task"])
            & (pl.col("method") == about["method"])
            & (pl.col("seed") == about["seed"])
        )
        test = rows.filter(own & (pl.col("kind") == "example") & (pl.col("split") == "test"))
        share = 100 * float(test["correct"].mean())  # type: ignore[arg-type]
        assert f"Test: {share:.1f} [" in text
        assert f"right of {test.height:,} examples in {test['cluster'].n_unique()} clusters" in text
        assert f"# {about['task']} (python), {about['method']} from" in text


def test_the_last_layer_is_drawn_for_a_few_test_examples(finished: Path, encoder: Path) -> None:
    """The most of the heads, against a forward that hands all of its attention up."""
    table = pl.read_parquet(finished / "observations/lens=finetune/*/*.parquet")
    drawn = table.filter(pl.col("kind") == "attention")
    assert set(drawn["task"]) == set(TASKS)
    assert set(drawn["method"]) == {"pretrained"} and set(drawn["seed"]) == {0}
    texts = dict(
        pl.concat(
            [
                pl.read_parquet(finished / name).select("item_id", "text")
                for name in ("items.parquet", "inputs.parquet")
            ]
        ).iter_rows()
    )
    row = drawn.filter(pl.col("task") == "variable_misuse").row(0, named=True)
    text, words = texts[row["item_id"]], row["words"]
    for word, start in zip(words, row["starts"], strict=True):
        assert start < 0 or text.startswith(word, start)
    assert "".join("".join(words).split()) in "".join(text.split())
    weights = np.frombuffer(row["weights"], np.float16).reshape(len(words), len(words))
    folder = next(
        path
        for path in (finished / "trained").glob("*/model")
        if json.loads((path / "head.json").read_text())["recipe"]["seed"] == 0
        and _answers_like(path, texts, weights, row)
    )
    assert folder


def _answers_like(folder: Path, texts: dict[str, str], weights: np.ndarray, row: dict[str, Any]) -> bool:
    """Whether this trained model's attention gives these weights, worked out slowly."""
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = texts[row["item_id"]]
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    ids = encoded["input_ids"][:64]
    with torch.no_grad():
        heads = model(torch.tensor([ids]), output_attentions=True).attentions[-1][0].double().numpy()
    starts = row["starts"]
    word_of: list[int] = []
    for start, end in encoded["offset_mapping"][: len(ids)]:
        first = next((at for at in range(start, end) if not text[at].isspace()), start)
        word_of.append(max(place for place, begin in enumerate(starts) if begin <= first))
    size = len(starts)
    expected = np.zeros((size, size))
    for one in range(size):
        for other in range(size):
            rows = [at for at, word in enumerate(word_of) if word == one]
            columns = [at for at, word in enumerate(word_of) if word == other]
            expected[one, other] = max(
                np.mean([sum(head[at, column] for column in columns) for at in rows]) for head in heads
            )
    return np.allclose(expected, weights.astype(np.float64), atol=2e-3)


def test_going_on_trains_nothing_again(project: Path, encoder: Path, finished: Path) -> None:
    outcome = run(experiment(project, encoder), Execution(output=finished))
    assert outcome.trained == 0


def test_a_run_says_what_pre_training_adds(finished: Path) -> None:
    every = list(describe_scores(read_scores(finished / "scores.parquet")))
    lines = [line for line in every if "examples right" in line]
    assert [line for line in every if "may need more" in line]
    assert len(lines) == len(TASKS)
    assert "from scratch" in lines[0] and "a bag of tokens" in lines[0]


def observed(*rows: dict[str, Any]) -> pl.LazyFrame:
    shared = {
        "kind": "example", "baseline": "", "split": "test", "task": "t", "seed": 0, "label": "x",
        "variant": "", "classes": ["x", "y"],
    }  # fmt: skip
    table = pl.DataFrame([{**shared, **row} for row in rows], infer_schema_length=None)
    missing = [
        pl.lit(None, kind).alias(name) for name, kind in ROWS_SCHEMA.items() if name not in table.columns
    ]
    return table.with_columns(missing).lazy()


def test_a_paired_difference_is_tighter_than_its_parts() -> None:
    """Methods that are right on nearly the same examples differ by little, however hard the examples are."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for number in range(400):
        hard = rng.random() < 0.5
        for method, extra in (("pretrained", 0.1), ("scratch", 0.0)):
            right = not hard or rng.random() < extra
            rows.append(
                {
                    "example_id": f"{number:03}",
                    "cluster": f"c{number // 8}",
                    "method": method,
                    "correct": bool(right),
                }
            )
    template = Score(model="m", lens="finetune", metric="", value=0.0, n=0, n_clusters=0)
    scoring = ScoringContext(
        observations=observed(*rows),
        items=pl.DataFrame(),
        template=template,
        settings=LensSettings(),
        labels={"t": pl.DataFrame()},
    )
    table = with_slices(scores_to_frame(LENS.score(scoring)))
    gain = table.filter(pl.col("metric") == "gain").row(0, named=True)
    own = table.filter((pl.col("metric") == "accuracy") & pl.col("control").is_null()).row(0, named=True)
    assert gain["control"] == "scratch"
    assert gain["ci_high"] - gain["ci_low"] < 0.6 * (own["ci_high"] - own["ci_low"])
    assert gain["n_clusters"] == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "option epochs = 0 is not a whole number"),
        ({"rates": "fast"}, "option rates = 'fast'"),
        ({"rates": "1e-3,2"}, "option rates = '1e-3,2'"),
        ({"fraction": 0}, "is not a number above 0 and of at most 1"),
        ({"warmup": 2}, "option warmup = 2 is not a number from 0 to 1"),
        ({"frozen": "yes"}, "is not true or false"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FinetuneOptions.read(options)


def test_unknown_methods_and_poolings_name_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'scratch'"):
        FinetuneOptions.read({"methods": "scrach"})
    with pytest.raises(UnknownNameError, match="pooling of lens 'finetune'"):
        FinetuneOptions.read({"pooling": "middle"})


def test_quirks_belong_to_the_paper() -> None:
    options = FinetuneOptions()
    assert not options.recipe(LensSettings()).masked_zero
    assert options.recipe(LensSettings(mode="paper")).masked_zero
    only = options.recipe(LensSettings(quirks=frozenset({"cubert.sum_of_logs"})))
    assert only.sum_of_logs and not only.masked_zero


def test_two_places_of_a_text_are_no_pair_of_texts(encoder: Path, tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "example_id": ["a", "b", "c", "d"],
            "item_id": ["a", "b", "c", "d"],
            "text": ["x = y"] * 4,
            "start": [0] * 4,
            "end": [1] * 4,
            "other_start": [4] * 4,
            "other_end": [5] * 4,
            "label": ["yes", "no", "yes", "no"],
            "split": ["train", "train", "valid", "test"],
            "cluster": ["c"] * 4,
        }
    )
    training = Training(
        examples=frame,
        model=ModelSpec(name=str(encoder)),
        language="python",
        folder=tmp_path,
        settings=LensSettings(),
    )
    with pytest.raises(InputError, match="two places of a text"):
        LENS.train(Method(name="pretrained", task="same_scope", seed=0), training)
    empty = dataclasses.replace(training, examples=frame.head(3))
    with pytest.raises(InputError, match="no example in split 'test'"):
        LENS.train(Method(name="pretrained", task="same_scope", seed=0), empty)
