"""GGUF files against the models and tokenizers that they were made from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import regex
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import sonde
from sonde.base.errors import InputError, UnknownNameError
from sonde.models import load_model, load_tokenizer, parse_spec, resolve_revision
from sonde.models.engine.gguf import _SPLITS, match_gguf_tokenizer
from sonde.models.engine.tokenizer_comparison import sample_texts

_SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
}
_NAMES = {
    "embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers": "blk",
}


@pytest.fixture(scope="module")
def merged() -> Tokenizer:
    """A byte-level tokenizer whose merges were learned over no split, so that how a text is split is seen."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(list(sample_texts()) * 3, trainer)
    return tokenizer


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))


def _model(kind: str, vocabulary: int) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **_SIZES, vocab_size=vocabulary, tie_word_embeddings=False)
    made = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return made.eval()


def _write(
    file: Path,
    model: Any,
    tokenizer: Tokenizer,
    *,
    split: str = "qwen2",
    quantised: GGMLQuantizationType = GGMLQuantizationType.F32,
    extra: bool = False,
) -> None:
    config = model.config
    writer = GGUFWriter(file, config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(LlamaFileType[f"{'ALL' if quantised.name == 'F32' else 'MOSTLY'}_{quantised.name}"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    held = json.loads(tokenizer.to_str())["model"]
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    writer.add_token_list(words)
    writer.add_token_types([3 if word.startswith("<|") else 1 for word in words])
    writer.add_token_merges([" ".join(pair) for pair in held["merges"]])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)
    for name, tensor in model.state_dict().items():
        values = tensor.numpy()
        if config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            rows = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
            values = rows.swapaxes(1, 2).reshape(values.shape)
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)
        name = name.removeprefix("model.")
        kind = quantised if values.ndim == 2 else GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)
    if extra:
        writer.add_tensor("blk.0.attn_odd.weight", np.ones((5, 7), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_a_file_gives_the_logits_of_its_model(kind, merged, tmp_path):
    model = _model(kind, merged.get_vocab_size())
    _write(tmp_path / "tiny.gguf", model, merged)
    loaded = load_model(parse_spec(str(tmp_path / "tiny.gguf")))
    ids = torch.arange(40)[None] * 7
    assert torch.allclose(loaded.model(ids).logits, model(ids).logits, atol=1e-5)
    assert loaded.revision.startswith("gguf-")
    assert loaded.facts["gguf"] == "tiny.gguf, F32 dequantised to float32"
    assert loaded.model.dtype == torch.float32


def test_quantised_weights_are_those_of_the_reference_library(merged, tmp_path):
    model = _model("qwen2", merged.get_vocab_size())
    _write(tmp_path / "tiny.gguf", model, merged, quantised=GGMLQuantizationType.Q8_0)
    loaded = load_model(parse_spec(f"{tmp_path}?gguf=tiny.gguf"))
    assert "Q8_0 dequantised" in loaded.facts["gguf"]
    for name, tensor in model.state_dict().items():
        wanted = tensor.numpy()
        if wanted.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            wanted = gguf.quants.dequantize(gguf.quants.quantize(wanted, kind), kind)
        assert np.array_equal(loaded.model.state_dict()[name].numpy(), wanted), name


@pytest.mark.parametrize("split", sorted(_SPLITS))
def test_a_text_is_split_as_the_file_says(split, merged, tmp_path):
    _write(tmp_path / "tiny.gguf", _model("qwen2", merged.get_vocab_size()), merged, split=split)
    made = AutoTokenizer.from_pretrained(tmp_path, gguf_file="tiny.gguf")
    tokenizer, _ = match_gguf_tokenizer(
        tmp_path / "tiny.gguf", GGUFReader(tmp_path / "tiny.gguf").fields, made, "tiny"
    )
    for text in sample_texts():
        pieces = [text]
        for expression in _SPLITS[split]:
            pieces = [part for piece in pieces for part in _parts(expression, piece)]
        wanted = [number for piece in pieces for number in merged.encode(piece).ids]
        assert tokenizer(text, add_special_tokens=False).input_ids == wanted, text


def _parts(expression: str, text: str) -> list[str]:
    """Cut a text at the matches of an expression, which are parts themselves."""
    parts, last = [], 0
    for match in regex.finditer(expression, text):
        parts += [text[last : match.start()], match.group()]
        last = match.end()
    return [part for part in [*parts, text[last:]] if part]


def test_a_split_that_is_not_known_is_refused_unless_a_tokenizer_lies_beside(merged, tmp_path):
    _write(tmp_path / "tiny.gguf", _model("qwen2", merged.get_vocab_size()), merged, split="of-tomorrow")
    name = str(tmp_path / "tiny.gguf")
    with pytest.raises(
        InputError,
        match=r"declares the tokenizer split 'of-tomorrow', which sonde does not know; put the model's",
    ):
        load_tokenizer(parse_spec(name))
    merged.save(str(tmp_path / "tokenizer.json"))
    loaded = load_model(parse_spec(name))
    assert loaded.facts["tokenizer"] == "the tokenizer.json next to it"
    text = "def f(x):\n    return 12345\n"
    assert loaded.tokenizer(text, add_special_tokens=False).input_ids == merged.encode(text).ids
    other = Tokenizer(models.BPE({"a": 0, "b": 1, "c": 2}, []))
    other.save(str(tmp_path / "tokenizer.json"))
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(
        InputError, match=r"the tokenizer\.json next to tiny\.gguf has other words than the file"
    ):
        load_tokenizer(parse_spec(name))


def test_a_file_with_a_tensor_that_has_no_place_is_refused(merged, tmp_path):
    _write(tmp_path / "tiny.gguf", _model("qwen2", merged.get_vocab_size()), merged, extra=True)
    with pytest.raises(
        InputError, match=r"reads 35 numbers less than tiny\.gguf has \(such as 'blk\.0\.attn_odd"
    ):
        load_model(parse_spec(str(tmp_path / "tiny.gguf")))


def test_what_is_no_such_file_is_one_line(merged, tmp_path):
    file = tmp_path / "tiny.gguf"
    _write(file, _model("qwen2", merged.get_vocab_size()), merged)
    whole = file.read_bytes()
    with pytest.raises(UnknownNameError, match="tiny"):
        load_tokenizer(parse_spec(str(tmp_path / "tinny.gguf")))
    with pytest.raises(UnknownNameError, match="tiny"):
        load_tokenizer(parse_spec(f"{tmp_path}?gguf=tinny.gguf"))
    for content in (
        b"",
        b"PK\3\4 no such file",
        b"version https://git-lfs.github.com/spec/v1\n",
        whole[:9000],
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"tiny\.gguf"):
            load_tokenizer(parse_spec(str(file)))
    assert not list((tmp_path / "cache" / "gguf").glob("*"))


def test_a_file_that_is_written_again_is_another_model(merged, tmp_path):
    name = str(tmp_path / "tiny.gguf")
    model = _model("qwen2", merged.get_vocab_size())
    _write(tmp_path / "tiny.gguf", model, merged)
    first = resolve_revision(parse_spec(name))
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    _write(tmp_path / "tiny.gguf", model, merged)
    assert resolve_revision(parse_spec(name)) != first


def test_a_run_reads_a_file(merged, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("def add(first, second):\n    return first + second\n")
    _write(tmp_path / "tiny.gguf", _model("qwen2", merged.get_vocab_size()), merged)
    run = sonde.run(
        models=str(tmp_path / "tiny.gguf"),
        corpora=f"local:{tmp_path / 'code'}",
        lenses=["surprisal"],
        output=tmp_path / "run",
        workers=1,
    )
    assert set(run.scores["model"]) == {str(tmp_path / "tiny.gguf")}
    assert run.scores["revision"][0].startswith("gguf-")
