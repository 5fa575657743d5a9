import dataclasses
import lzma
import math
import shutil
import subprocess

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

from sonde.base.errors import InputError
from sonde.corpora import is_holdout_package
from sonde.corpora.engine.ngram import NGram
from sonde.training.pretrain.evaluate import (
    EvaluationResult,
    compute_document_nats,
    compute_xz_bits_per_byte,
    evaluate_decoder,
    evaluate_encoder,
    evaluation_windows,
    sample_files,
)
from sonde.training.pretrain.pretrain import evaluate_languages
from sonde.training.pretrain.recipe import read_recipe
from sonde.training.pretrain.vocabulary import learn_vocabulary


@pytest.fixture
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2
    )
    return LlamaForCausalLM(config).eval()


def test_each_language_is_measured_on_its_reserved_names(tmp_path):
    names = [f"package{n}" for n in range(12)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text("")
        (tmp_path / name / "a.py").write_text(f"def {name}(a):\n    return a\n" * 10)
        (tmp_path / name / "a.go").write_text(f"package {name}\n" * 20)
    (tmp_path / "recipe.toml").write_text(
        '[model]\nrole = "decoder"\narchitecture = "llama"\n[training]\nsteps = 100\n[data]\n'
        + "".join(
            f'[[data.corpora]]\nname = "local:{tmp_path}"\nlanguage = "{language}"\n'
            for language in ("python", "go", "ruby")
        )
    )
    read: list[list[str]] = []

    def tell(files, *, corpus):
        read.append([file.path for file in files])
        return EvaluationResult(corpus=corpus, files=len(files), bytes=1, subwords=1)

    told = list(evaluate_languages(read_recipe(tmp_path / "recipe.toml"), tell))
    kept = {name for name in names if is_holdout_package(name)}
    assert kept and [one.language for one in told] == ["python", "go"]
    for one, paths, suffix in zip(told, read, ("py", "go"), strict=True):
        assert set(paths) == {f"{name}/a.{suffix}" for name in kept} and one.files == len(kept)


@given(st.integers(1, 300), st.integers(2, 64))
def test_windows_score_every_position_once_with_context(length, context):
    scored: list[int] = []
    for start, end, first in evaluation_windows(length, context, max(1, context // 2)):
        assert 0 <= start < first < end <= length
        assert end - start <= context
        assert start == 0 or first - start >= context - max(1, context // 2)
        scored += range(first, end)
    assert scored == list(range(1, length))


@torch.no_grad()
def test_nats_are_those_of_a_plain_forward(model):
    generator = np.random.default_rng(0)
    documents = [generator.integers(0, 300, size) for size in (5, 16, 16, 41, 2, 1)]
    for document, own in zip(documents, compute_document_nats(model, documents, 16), strict=True):
        expected = []
        for start, end, first in evaluation_windows(len(document), 16, 8):
            logits = model(input_ids=torch.tensor(document[start:end])[None]).logits[0].log_softmax(-1)
            expected += [-float(logits[p - start - 1, document[p]]) for p in range(first, end)]
        np.testing.assert_allclose(own, expected, atol=1e-5)


def test_a_model_that_knows_nothing_needs_the_vocabulary_s_bits(model, corpus):
    torch.nn.init.zeros_(model.lm_head.weight)
    files = sample_files(f"local:{corpus}", "python", 3000)
    vocabulary = learn_vocabulary([file.text for file in files] * 3, 300)
    nothing = NGram(np.zeros(0, np.uint16), 300, 2)
    figures = evaluate_decoder(model, vocabulary, files, corpus="x", context=16, ngram=nothing)
    expected = figures.subwords * math.log2(300) / figures.bytes
    (part,) = figures.compression
    assert part.model == pytest.approx(expected, rel=1e-5)
    assert part.ngram == pytest.approx(expected, rel=1e-5)
    assert part.xz == compute_xz_bits_per_byte(file.text for file in files)
    assert part.nats_per_subword == pytest.approx(math.log(300), rel=1e-5)
    assert figures.bytes == sum(len(file.text.encode()) for file in files)


def test_counting_the_text_itself_beats_knowing_nothing(model, corpus):
    files = sample_files(f"local:{corpus}", "python", 3000)
    vocabulary = learn_vocabulary([file.text for file in files] * 3, 300)
    stream = np.concatenate([np.array(vocabulary.encode(file.text).ids, np.uint16) for file in files])
    figures = evaluate_decoder(model, vocabulary, files, corpus="x", context=16, ngram=NGram(stream, 300, 4))
    (part,) = figures.compression
    assert part.ngram < 0.5 * part.model


@pytest.mark.skipif(shutil.which("xz") is None, reason="needs the program xz")
def test_xz_is_the_program(tmp_path):
    texts = ["def f(x):\n    return x\n" * 40, "class Ä:\n    pass\n" * 30]
    raw = "".join(texts).encode()
    packed = subprocess.run(["xz", "-9e", "-c"], input=raw, capture_output=True, check=True).stdout
    # The program checks with CRC64 and the library does so by default: both give the same bytes.
    assert compute_xz_bits_per_byte(texts) == 8 * len(packed) / len(raw)
    assert lzma.decompress(packed) == raw


def test_an_encoder_is_asked_for_what_is_hidden(corpus):
    files = sample_files(f"local:{corpus}", "python", 6000)
    vocabulary = learn_vocabulary([file.text for file in files], 300)
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=300,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=1,
            max_position_embeddings=32,
        )
    ).eval()
    counts = np.zeros(300, np.int64)
    for file in files:
        counts += np.bincount(vocabulary.encode(file.text).ids, minlength=300)
    # A head with a bias and nothing else always says the most frequent subword.
    torch.nn.init.zeros_(model.cls.predictions.decoder.weight)
    with torch.no_grad():
        model.cls.predictions.decoder.bias.copy_(torch.tensor(np.log(counts + 1)))
    figures = evaluate_encoder(model, vocabulary, files, corpus="x", context=32, frequencies=counts)
    (guesses,) = figures.guesses
    assert guesses.top1 == guesses.majority_top1 > 0.02
    assert guesses.nats == pytest.approx(guesses.unigram_nats, rel=1e-5)
    assert figures.compression == ()


def test_tables_are_told_apart_for_encoders_too(corpus):
    table = corpus / "north" / "codes.py"
    table.write_text("TABLE = {\n" + "".join(f"    {n}: {n + 7},\n" for n in range(300)) + "}\n")
    files = sample_files(f"local:{corpus}", "python", 10**6)
    # Which subwords are hidden depends on a file's place, so the table goes last.
    files.sort(key=lambda file: file.path.endswith("codes.py"))
    vocabulary = learn_vocabulary([file.text for file in files], 300)
    fields = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(vocab_size=300, max_position_embeddings=32, **fields)).eval()
    counts = np.ones(300, np.int64)

    def measured(some):
        return evaluate_encoder(model, vocabulary, some, corpus="x", context=32, frequencies=counts).guesses

    everything, code = measured(files)
    (alone,) = measured(files[:-1])
    assert code == dataclasses.replace(alone, of=code.of)
    assert everything.bytes == code.bytes + table.stat().st_size and everything.asked > code.asked
    assert everything.nats != code.nats


def test_tables_are_told_apart(model, corpus):
    (corpus / "north" / "codes.py").write_text(
        "TABLE = {\n" + "".join(f"    {n}: {n + 7},\n" for n in range(300)) + "}\n"
    )
    files = sample_files(f"local:{corpus}", "python", 10**6)
    vocabulary = learn_vocabulary([file.text for file in files], 300)
    nothing = NGram(np.zeros(0, np.uint16), 300, 2)
    everything, code = evaluate_decoder(
        model, vocabulary, files, corpus="x", context=16, ngram=nothing
    ).compression
    assert everything.files == code.files + 1
    alone = evaluate_decoder(
        model,
        vocabulary,
        [file for file in files if not file.path.endswith("codes.py")],
        corpus="x",
        context=16,
        ngram=nothing,
    ).compression[0]
    assert code.model == pytest.approx(alone.model)
    assert code.xz == alone.xz


def test_a_larger_sample_contains_a_smaller(corpus):
    few, many = (sample_files(f"local:{corpus}", "python", size) for size in (2000, 5000))
    assert [file.path for file in many[: len(few)]] == [file.path for file in few]
    assert sum(len(file.text.encode()) for file in few) >= 2000
    with pytest.raises(InputError, match="java"):
        sample_files(f"local:{corpus}", "java", 100)
