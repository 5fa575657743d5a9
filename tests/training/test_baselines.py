"""The baselines of CuBERT: what each learns, what its vectors are, and that a kill changes nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gensim.models import Word2Vec
from safetensors.torch import load_file
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from tests.training.test_finetuning import WORDS, KilledError, save, split

from sonde.base.errors import InputError, UsageError
from sonde.models import ModelSpec, load_model
from sonde.training.finetune import baselines
from sonde.training.finetune.baselines import FACTS, FurtherTexts, tune_baseline
from sonde.training.finetune.data import Sample, TaskData
from sonde.training.finetune.recipe import (
    BASELINES,
    LSTM_POINTER,
    PROGRAM,
    WORD2VEC,
    FinetuneRecipe,
)
from sonde.training.finetune.tune import tune

RECIPE = FinetuneRecipe(
    length=32, epochs=6, batch=16, rates=(5e-3,), patience=6,
    embedding=32, lstm_layers=1, lstm_width=32, transformer_width=32, transformer_layers=2,
)  # fmt: skip
SHORT = dataclasses.replace(RECIPE, epochs=2, batch=8, rates=(1e-3, 3e-3), checkpoint=3)
CLASSIFIERS = [name for name in BASELINES if name != LSTM_POINTER]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    return save(tmp_path_factory.mktemp("model") / "bert", "bert")


def orders(size: int, seed: int) -> list[Sample]:
    """Does a stand before b? Both stand in every text once."""
    rng = np.random.default_rng(seed)
    found: list[Sample] = []
    for number in range(size):
        words = list(rng.choice(list("cdefgh"), int(rng.integers(3, 7))))
        near, far = sorted(rng.choice(len(words) + 1, 2, replace=False))
        target = int(rng.integers(2))
        words.insert(far, "ab"[target])
        words.insert(near, "ba"[target])
        found.append(Sample(f"{seed}-{number}", " ".join(words), target))
    return found


def misuses(size: int, seed: int) -> list[Sample]:
    """In brackets belongs the one of two variables that is called a, b or c; both stand in a text twice."""
    rng = np.random.default_rng(seed)
    found: list[Sample] = []
    for number in range(size):
        right, other = rng.choice(list("abc")), rng.choice(list("def"))
        buggy = bool(rng.integers(2))
        first, second = rng.permutation([right, other])
        blanks = [" ".join(rng.choice(list("xyz"), int(rng.integers(1, 4)))) for _ in range(2)]
        used, bracketed = (right, other) if buggy else (other, right)
        text = f"{first} {second} = {blanks[0]} - {used} {blanks[1]} ( {bracketed} )"
        places = tuple((at, at + 1) for at, letter in enumerate(text) if letter in "abcdef")
        repairs = tuple(place for place in places[:-1] if text[place[0]] == right) if buggy else ()
        found.append(
            Sample(
                f"{seed}-{number}",
                text,
                int(buggy),
                candidates=places,
                error=places[-1] if buggy else None,
                repairs=repairs,
            )
        )
    return found


def bag_accuracy(data: TaskData) -> float:
    """scikit-learn's bag of words on the same texts."""
    counts = CountVectorizer(token_pattern=r"\S+")
    found = LogisticRegression(max_iter=1000).fit(
        counts.fit_transform([one.text for one in data.train]), [one.target for one in data.train]
    )
    tested = counts.transform([one.text for one in data.test])
    return float(found.score(tested, [one.target for one in data.test]))


@pytest.fixture(scope="module")
def pattern() -> TaskData:
    return split(orders, 400, 100, 200)


@pytest.fixture(scope="module")
def few() -> TaskData:
    return split(orders, 60, 24, 24)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_an_order_that_a_bag_of_tokens_cannot_see_is_learned(
    name: str, spec: ModelSpec, pattern: TaskData, tmp_path: Path
) -> None:
    assert bag_accuracy(pattern) < 0.65
    tuned = tune_baseline(name, spec, pattern, RECIPE, tmp_path)
    assert tuned.test.share > 0.95


@pytest.mark.slow
def test_a_planted_misuse_is_located_and_repaired_by_lstm_and_pointer(
    spec: ModelSpec, tmp_path: Path
) -> None:
    data = split(misuses, 2000, 200, 400)
    assert bag_accuracy(data) < 0.6
    recipe = dataclasses.replace(RECIPE, epochs=3, batch=32, rates=(1e-2,))
    tuned = tune_baseline(LSTM_POINTER, spec, data, recipe, tmp_path)
    assert tuned.test.correct.mean() > 0.95
    buggy = np.array([one.target for one in data.test]) == 1
    assert tuned.test.located is not None
    assert tuned.test.repaired is not None
    assert tuned.test.located[buggy].mean() > 0.95
    assert tuned.test.repaired[buggy].mean() > 0.95


def gensim_by_hand(data: TaskData, name: str, seed: int) -> Word2Vec:
    """Words as they are, where the baseline has numbers."""
    texts = list(dict.fromkeys(one.text for one in data.train))
    _, algorithm, objective = name.split("_")
    return Word2Vec(
        [text.split() for text in texts],
        vector_size=32,
        window=5,
        min_count=1,
        epochs=10,
        workers=1,
        sg={"cbow": 0, "skipgram": 1}[algorithm],
        hs={"ns": 0, "hs": 1}[objective],
        negative={"ns": 5, "hs": 0}[objective],
        seed=seed,
    )


@pytest.mark.parametrize("name", WORD2VEC)
def test_the_table_holds_what_gensim_learned_on_the_same_texts(
    name: str, spec: ModelSpec, few: TaskData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "derive_seed", lambda *_: 11)
    # At so small a rate no weight of this size moves in single precision.
    still = dataclasses.replace(RECIPE, epochs=1, rates=(1e-30,))
    tuned = tune_baseline(name, spec, few, still, tmp_path)
    table = load_file(tuned.folder / "model.safetensors")["embedding.weight"].numpy()
    expected = gensim_by_hand(few, name, 11).wv
    assert len(expected.index_to_key) == 8
    for word in expected.index_to_key:
        np.testing.assert_array_equal(table[WORDS.index(word)], expected[word])
    assert np.abs(table[WORDS.index("z")]).max() <= 1 / 32
    nearest = expected.most_similar("a", topn=1)[0][0]
    others = [word for word in expected.index_to_key if word != "a"]
    assert nearest == max(others, key=lambda one: cosine(table[WORDS.index(one)], table[WORDS.index("a")]))


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


PROCESS = """
import hashlib, sys
from sonde.training.finetune.recipe import FinetuneRecipe
from sonde.training.finetune.baselines import learn_vectors
texts = [[(7 * at * at + place) % 50 for place in range(40)] for at in range(60)]
for name in sys.argv[1:]:
    ids, values = learn_vectors(texts, name, FinetuneRecipe(embedding=16, seed=3))
    print(hashlib.sha256(ids.tobytes() + values.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_vectors_are_the_same_in_every_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", PROCESS, *WORD2VEC],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
    assert len(set(told.pop().split())) == len(WORD2VEC)


def test_vectors_are_learned_on_train_and_on_what_is_given_beside_it(
    spec: ModelSpec, few: TaskData, tmp_path: Path
) -> None:
    """A word of valid and test alone has no vector; one of the further texts has, and they are asked once."""
    hidden = [dataclasses.replace(one, text=f"{one.text} z") for one in few.valid]
    data = dataclasses.replace(few, valid=hidden, test=hidden)
    asked: list[int] = []

    def further() -> FurtherTexts:
        asked.append(1)
        return ("w x w x",), {"corpus": "local:else"}

    still = dataclasses.replace(RECIPE, epochs=1, rates=(1e-30,))
    alone = tune_baseline("word2vec_cbow_ns", spec, data, still, tmp_path / "alone")
    beside = [
        tune_baseline("word2vec_cbow_ns", spec, data, still, tmp_path / "beside", load_texts=further)
        for _ in range(2)
    ][1]
    about = [json.loads((one.folder / FACTS).read_text())["vectors"] for one in (alone, beside)]
    assert [one["distinct subwords"] for one in about] == [8, 10]
    assert [one["further texts"] for one in about] == [0, 1]
    assert about[1]["further texts from"] == {"corpus": "local:else"}
    assert about[0]["training texts"] == len({one.text for one in few.train})
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["word2vec_skipgram_ns", "bilstm", "transformer", "lstm_pointer"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_baseline_killed_anywhere_goes_on_to_the_same_weights(
    name: str, seed: int, spec: ModelSpec, few: TaskData, tmp_path: Path
) -> None:
    """Three kills each, at updates drawn at random; two rates, dropout, a checkpoint every third update."""
    data = split(misuses, 60, 24, 24) if name == LSTM_POINTER else few
    recipe = dataclasses.replace(SHORT, lstm_layers=2)
    kills = np.random.default_rng([seed, 1]).integers(1, 10, 3).tolist()
    whole = tune_baseline(name, spec, data, recipe, tmp_path / "whole")
    for kill in kills:
        with pytest.raises(KilledError):
            tune_baseline(name, spec, data, recipe, tmp_path / "broken", on_step=killer(kill))
        torch.rand(kill)
    resumed = tune_baseline(name, spec, data, recipe, tmp_path / "broken")
    assert resumed.courses == whole.courses
    first, second = (everything(one.folder) for one in (whole, resumed))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    np.testing.assert_array_equal(resumed.test.probability, whole.test.probability)


def killer(after: int) -> Callable[[int], None]:
    done: list[int] = []

    def kill(step: int) -> None:
        done.append(step)
        if len(done) == after:
            raise KilledError

    return kill


def everything(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors") | load_file(folder / "head.safetensors")


def test_seeds_draw_other_bodies_and_the_same_seed_the_same(
    spec: ModelSpec, few: TaskData, tmp_path: Path
) -> None:
    still = dataclasses.replace(RECIPE, epochs=1, rates=(1e-30,))
    for name in ("bilstm", "word2vec_cbow_hs", "transformer"):
        tables = [
            everything(
                tune_baseline(
                    name, spec, few, dataclasses.replace(still, seed=seed), tmp_path / name / str(at)
                ).folder
            )
            for at, seed in enumerate((1, 1, 2))
        ]
        assert all(torch.equal(tables[0][key], tables[1][key]) for key in tables[0])
        # What stands on a saved Transformer for other lenses was not trained, and is the same each time.
        matrices = [key for key, one in tables[0].items() if one.ndim > 1 and not key.startswith("cls.")]
        assert not any(torch.equal(tables[0][key], tables[2][key]) for key in matrices)


def test_padding_is_read_by_no_direction(spec: ModelSpec, few: TaskData, tmp_path: Path) -> None:
    """What is answered to a text does not depend on the length of those beside it."""
    long = Sample("long", " ".join("cdefgh" * 5), 0)
    recipe = dataclasses.replace(RECIPE, epochs=1)
    for name in ("bilstm", "transformer"):
        with_long = dataclasses.replace(few, test=[*few.test, long])
        alone = dataclasses.replace(few, test=few.test[:1])
        told = [
            tune_baseline(name, spec, data, recipe, tmp_path / name / str(at)).test.probability[0]
            for at, data in enumerate((with_long, alone))
        ]
        np.testing.assert_allclose(told[0], told[1], atol=1e-6)


def test_a_vocabulary_of_program_pieces_may_be_read_instead(
    spec: ModelSpec, pattern: TaskData, tmp_path: Path
) -> None:
    """The words of train give few merges; a text beyond them is spelled in bytes."""
    texts = [dataclasses.replace(one, text=one.text.replace("a", "alpha")) for one in pattern.train]
    data = dataclasses.replace(pattern, train=texts)
    recipe = dataclasses.replace(RECIPE, epochs=1, subwords=PROGRAM, vocabulary=266)
    tuned = tune_baseline("bilstm", spec, data, recipe, tmp_path)
    table = everything(tuned.folder)["embedding.weight"]
    assert len(table) == 266
    tokenizer = json.loads((tuned.folder / "tokenizer.json").read_text())
    assert "Ġalpha" in tokenizer["model"]["vocab"]
    more = dataclasses.replace(recipe, vocabulary=4096)
    with pytest.raises(InputError, match="vocabulary size 4096: the texts give only"):
        tune_baseline("bilstm", spec, data, more, tmp_path)


@pytest.mark.parametrize("kind", ["bert", "llama", "t5"])
def test_a_transformer_reads_the_subwords_of_any_model_and_is_read_again(
    kind: str, few: TaskData, tmp_path: Path
) -> None:
    spec = save(tmp_path / "model", kind)
    recipe = dataclasses.replace(RECIPE, epochs=1)
    tuned = tune_baseline("transformer", spec, few, recipe, tmp_path / "tuned")
    loaded = load_model(ModelSpec(name=str(tuned.folder), device="cpu", dtype="float32"))
    assert (loaded.capabilities.layers, loaded.capabilities.d_model) == (2, 32)
    state = load_file(tuned.folder / "model.safetensors")
    embedding = state["bert.embeddings.word_embeddings.weight"]
    assert torch.equal(loaded.model.bert.embeddings.word_embeddings.weight, embedding)


def test_all_methods_read_the_same_subwords_as_the_model(
    spec: ModelSpec, few: TaskData, tmp_path: Path
) -> None:
    """What is beyond the limit is beyond it for every method."""
    long = [
        dataclasses.replace(one, text=f"{one.text} {'c ' * (at % 12)}") for at, one in enumerate(few.test)
    ]
    data = dataclasses.replace(few, test=long)
    recipe = dataclasses.replace(RECIPE, epochs=1, length=12)
    cut = tune(spec, data, recipe, tmp_path / "model").test.truncated
    assert 0 < cut.sum() < len(cut)
    for name in ("bilstm", "transformer"):
        told = tune_baseline(name, spec, data, recipe, tmp_path / name).test.truncated
        assert told.tolist() == cut.tolist()


def test_without_gensim_one_line_says_what_to_install(
    spec: ModelSpec, few: TaskData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(InputError, match=r"not installed; install sonde\[baselines\], or leave out word2vec"):
        tune_baseline("word2vec_cbow_ns", spec, few, RECIPE, tmp_path)


def test_a_limit_without_room_for_a_text_is_refused(spec: ModelSpec, few: TaskData, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="length 5: model 'baseline' reads 6 to"):
        tune_baseline("bilstm", spec, few, dataclasses.replace(RECIPE, length=5), tmp_path)
