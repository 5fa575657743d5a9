"""Damaged checkpoints: each fault is one true line, before anything is measured."""

import json
import os
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from sonde.base.errors import InputError
from sonde.models import ModelSpec, describe_model, load_model
from sonde.models.engine.files import JSON_LIMIT

from .conftest import tiny_tokenizer

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def cut(size):
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:size])


def written(name, text):
    return lambda folder: (folder / name).write_text(text)


def tensors(change):
    def damage(folder):
        held = load_file(folder / WEIGHTS)
        change(held)
        save_file(held, folder / WEIGHTS, metadata={"format": "pt"})

    return damage


def config(**fields):
    def damage(folder):
        held = json.loads((folder / "config.json").read_text()) | fields
        text = json.dumps({key: value for key, value in held.items() if value is not None})
        (folder / "config.json").write_text(text)

    return damage


def index(target):
    """All weights in a file that the index alone names."""

    def damage(folder):
        held = load_file(folder / WEIGHTS)
        (folder / WEIGHTS).unlink()
        place = folder / target
        place.parent.mkdir(exist_ok=True)
        save_file(held, place, metadata={"format": "pt"})
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(held, target)}))

    return damage


def without(*names):
    def damage(folder):
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return damage


def small_vocabulary(folder):
    config(vocab_size=200)(folder)

    def change(held):
        for key, one in held.items():
            if one.shape[0] == 300:
                held[key] = one[:200].clone()

    tensors(change)(folder)


TOKENIZER = without("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"

BEFORE_WORK = {
    "cut in its header": ("llama", cut(100), "model.safetensors ends inside its header (100 bytes)"),
    "a few bytes": ("llama", cut(5), "ends inside its header (5 bytes)"),
    "empty": ("llama", cut(0), "ends inside its header (0 bytes)"),
    "cut in its body": ("llama", cut(-100), "was fetched incompletely: 140908 of 141008 bytes"),
    "too long": (
        "llama",
        lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes() + b"0" * 50),
        "does not match its header: 141058 of 141008 bytes",
    ),
    "pointer": ("llama", written(WEIGHTS, POINTER), "a pointer of Git LFS, not the weights"),
    "no safetensors": ("llama", written(WEIGHTS, "x" * 200), "model.safetensors is not a safetensors file"),
    "header of rubbish": (
        "llama",
        lambda folder: (folder / WEIGHTS).write_bytes(b"\x08" + b"\0" * 7 + b"[[[[[[[["),
        "model.safetensors has a damaged header",
    ),
    "no weights": ("llama", without(WEIGHTS), "it has neither model.safetensors nor pytorch_model.bin"),
    "index up": (
        "llama",
        index("../up.safetensors"),
        "names '../up.safetensors', which is not a .safetensors",
    ),
    "index down": (
        "llama",
        index("in/a.safetensors"),
        "names 'in/a.safetensors', which is not a .safetensors",
    ),
    "index to a pickle": (
        "llama",
        index("a.bin"),
        "names 'a.bin', which is not a .safetensors file next to it",
    ),
    "index of nothing": (
        "llama",
        lambda folder: (index("a.safetensors")(folder), (folder / "a.safetensors").unlink()),
        "names 'a.safetensors', which is missing",
    ),
    "index of rubbish": (
        "llama",
        lambda folder: (without(WEIGHTS)(folder), written(INDEX, "[1]")(folder)),
        "model.safetensors.index.json is not a JSON object",
    ),
    "index without a word": (
        "llama",
        lambda folder: (without(WEIGHTS)(folder), written(INDEX, "{}")(folder)),
        "lacks weight_map or metadata",
    ),
    "small vocabulary": (
        "llama",
        small_vocabulary,
        "its tokenizer gives ids up to 259 ('Ń'), and the model has 200",
    ),
    "no type": ("llama", config(model_type=None), "its config.json has no model_type"),
    "type unheard of": (
        "llama",
        config(model_type="robertta"),
        "no model type 'robertta'; did you mean 'roberta'?",
    ),
    "half a configuration": (
        "llama",
        written("config.json", '{"model_type"'),
        "config.json is not valid JSON",
    ),
    "nested configuration": (
        "llama",
        written("config.json", "[" * 200_000),
        "config.json is not a JSON object",
    ),
    "width of letters": ("llama", config(hidden_size="abc"), "expected int, got str (value: 'abc')"),
    "no configuration": ("llama", without("config.json"), "the folder has no config.json"),
    "huge configuration": (
        "llama",
        lambda folder: os.truncate(folder / "config.json", JSON_LIMIT + 1),
        f"config.json has {JSON_LIMIT + 1} bytes, more than the {JSON_LIMIT} that are read",
    ),
    "no tokenizer": ("llama", TOKENIZER, "it has no tokenizer"),
    "made-up tokenizer": ("roberta", TOKENIZER, "it has no tokenizer"),
    "made-up pieces": ("t5, tied", TOKENIZER, "it has no tokenizer"),
    "SentencePiece alone": (
        "bart",
        lambda folder: (TOKENIZER(folder), written("sentencepiece.bpe.model", "x")(folder)),
        "only sentencepiece.bpe.model; install sentencepiece and protobuf",
    ),
    "PLBART's pieces": (
        "plbart",
        lambda folder: (TOKENIZER(folder), written("sentencepiece.bpe.model", "x")(folder)),
        "sentencepiece.bpe.model is not a SentencePiece model",
    ),
    "half a tokenizer": ("llama", written("tokenizer.json", '{"model":'), "tokenizer.json is not valid JSON"),
    "half a map": (
        "llama",
        written("special_tokens_map.json", "{"),
        "special_tokens_map.json is not valid JSON",
    ),
}
"""Seen before a corpus is read: what `describe` refuses."""


def as_is(held):
    held["model.norm.weight"].fill_(1e6)


def louder(held):
    for key, one in held.items():
        if "norm" in key or "mlp" in key:
            one.mul_(3000)


ON_LOADING = {
    "NaN": (
        "llama",
        tensors(lambda held: held["model.norm.weight"].fill_(torch.nan)),
        "auto",
        "in 'model.norm.weight' numbers are NaN or infinite; the checkpoint is damaged",
    ),
    "infinity": (
        "roberta",
        tensors(lambda held: held["lm_head.bias"].fill_(torch.inf)),
        "auto",
        "in 'lm_head.bias' numbers are NaN or infinite",
    ),
    "too large for half": (
        "llama",
        tensors(as_is),
        "float16",
        "numbers do not fit into float16; run it with --dtype",
    ),
    "NaN in half": (
        "llama",
        tensors(lambda held: held["model.norm.weight"].fill_(torch.nan)),
        "float16",
        "the checkpoint is damaged",
    ),
    "overflow": (
        "llama",
        tensors(louder),
        "float16",
        "its logits are NaN or infinite in float16; run it with --dtype",
    ),
    "no final norm": (
        "llama",
        tensors(lambda held: held.pop("model.norm.weight")),
        "auto",
        "its files lack 'model.norm.weight', which its config.json requires",
    ),
    "no norm of a decoder": (
        "t5, tied",
        tensors(lambda held: held.pop("decoder.final_layer_norm.weight")),
        "auto",
        "its files lack 'decoder.final_layer_norm.weight', which",
    ),
    "no head": (
        "roberta",
        tensors(lambda held: held.pop("lm_head.dense.weight")),
        "auto",
        "its files lack 'lm_head.dense.weight' of the head of RobertaForMaskedLM and have others of it; name",
    ),
    "another width": (
        "llama",
        tensors(lambda held: held.update({"model.norm.weight": torch.ones(31)})),
        "auto",
        "'model.norm.weight' has shape [31] in its files, but [32]",
    ),
    "layers too many": (
        "llama",
        config(num_hidden_layers=3),
        "auto",
        "'model.layers.2.input_layernorm.weight' and 8",
    ),
    "layers too few": (
        "llama",
        config(num_hidden_layers=1),
        "auto",
        "its files have 'model.layers.1.input_layernorm.weight' and 8 more weights, of layers that its",
    ),
}


@pytest.mark.parametrize("fault", BEFORE_WORK)
def test_damaged_files_are_refused_before_work(fault, saved, tmp_path):
    name, damage, says = BEFORE_WORK[fault]
    shutil.copytree(saved(name), tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(InputError, match=re.escape(says)) as error:
        describe_model(ModelSpec(name=str(tmp_path / "model")))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("fault", ON_LOADING)
def test_damaged_weights_are_refused_on_loading(fault, saved, tmp_path):
    name, damage, dtype, says = ON_LOADING[fault]
    shutil.copytree(saved(name), tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(InputError, match=re.escape(says)) as error:
        load_model(ModelSpec(name=str(tmp_path / "model"), device="cpu", dtype=dtype))
    assert "\n" not in str(error.value)


def test_what_only_looks_damaged_loads(saved, tmp_path):
    """An index, links as the hub's cache has them, and a padding token beyond the vocabulary."""
    folder = tmp_path / "model"
    shutil.copytree(saved("llama"), folder)
    index("part.safetensors")(folder)
    (folder / "part.safetensors").rename(tmp_path / "blob")
    (folder / "part.safetensors").symlink_to("../blob")
    tokenizer = tiny_tokenizer(bos_token="<s>", eos_token="</s>")
    tokenizer.add_tokens([f"word{number}" for number in range(300 - len(tokenizer))])
    tokenizer.add_special_tokens({"pad_token": "<beyond>"})
    tokenizer.save_pretrained(folder)
    loaded = load_model(ModelSpec(name=str(folder), device="cpu"))
    assert loaded.tokenizer.pad_token_id == 300 and loaded.special.pad == 1
