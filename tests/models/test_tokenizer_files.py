"""A tokenizer cuts texts as its tokenizer.json does, whatever class transformers has for the model's type."""

from __future__ import annotations

import json
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from sonde.base.errors import InputError
from sonde.models import load_tokenizer, parse_spec
from sonde.models.engine.tokenizer import tokenizer_fact
from sonde.models.engine.tokenizer_comparison import sample_texts

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_SPLITS = {
    "gpt2": _GPT2,
    "qwen2": rf"{_SHORT}|\p{{N}}|{_REST}",
    "llama3": rf"{_SHORT}|\p{{N}}{{1,3}}|{_REST}",
    "qwen3_5": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
"""Expressions that byte-level tokenizers of published models split by before their merges."""


def _byte_level(split: pre_tokenizers.PreTokenizer, *, composed: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    if composed:
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _metaspace(*, unigram: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram() if unigram else models.BPE(unk_token="<unk>", fuse_unk=True))
    if unigram:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("▁"), "merged_with_next")
    return tokenizer


def _word_pieces(*, lower: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


_MAKERS: dict[str, Any] = {
    **{
        name: lambda name=name, split=split: _byte_level(
            pre_tokenizers.Split(Regex(split), "isolated"), composed=name.startswith("qwen")
        )
        for name, split in _SPLITS.items()
    },
    "starcoder": lambda: _byte_level(
        pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex(_GPT2), "isolated")]
        )
    ),
    "pieces": lambda: _metaspace(unigram=False),
    "unigrams": lambda: _metaspace(unigram=True),
    "words": lambda: _word_pieces(lower=True),
    "cased words": lambda: _word_pieces(lower=False),
}
_TRAINERS = {
    "BPE": trainers.BpeTrainer,
    "Unigram": trainers.UnigramTrainer,
    "WordPiece": trainers.WordPieceTrainer,
}
_SPECIAL = ["<unk>", "[UNK]", "<s>", "</s>", "<pad>", "<mask>"]


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """A small tokenizer.json of each kind of split."""
    made: dict[str, str] = {}
    for name, make in _MAKERS.items():
        tokenizer = make()
        more: dict[str, Any] = {"special_tokens": _SPECIAL, "vocab_size": 700, "show_progress": False}
        kind = type(tokenizer.model).__name__
        if kind == "BPE":
            more["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
        if kind == "Unigram":
            more["unk_token"] = "<unk>"
        tokenizer.train_from_iterator(list(sample_texts()) * 3, _TRAINERS[kind](**more))
        made[name] = tokenizer.to_str()
    return made


def _save(folder: Path, file: str, model_type: str, **settings: Any) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer.json").write_text(file)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(folder)


@cache
def _wanted(file: str) -> list[list[int]]:
    return [
        found.ids
        for found in Tokenizer.from_str(file).encode_batch(list(sample_texts()), add_special_tokens=False)
    ]


def _given(name: str) -> list[list[int]]:
    tokenizer = load_tokenizer(parse_spec(name))
    return [tokenizer(text, add_special_tokens=False).input_ids for text in sample_texts()]


_READABLE = frozenset(
    ["bert", "codegen", "deberta-v2", "gemma", "gpt2", "llama", "mpnet", "qwen2", "qwen3_5", "roberta", "t5"]
)
"""Types that take a file of any kind."""


def _sweep(
    folder: Path, files: dict[str, str], types: list[str], *, named: bool
) -> tuple[list[str], list[str]]:
    """Load files under every type; gives those read otherwise and those refused.

    Types that take any file get every kind of them, as does the first type of each class of tokenizers;
    another type gets the next two kinds.
    """
    unlike: list[str] = []
    refused: list[str] = []
    seen: set[str | None] = set()
    turn = cycle(files)
    for model_type in types:
        declared = TOKENIZER_MAPPING_NAMES.get(model_type)
        settings = {"tokenizer_class": declared} if named and declared else {}
        is_full = declared not in seen or model_type in _READABLE
        kinds = list(files) if is_full else [next(turn), next(turn)]
        seen.add(declared)
        for kind in kinds:
            file = files[kind]
            name = _save(folder / f"{model_type}-{kind}-{named}", file, model_type, **settings)
            try:
                if _given(name) != _wanted(file):
                    unlike.append(f"{model_type} {kind}")
            except InputError as error:
                refused.append(f"{model_type} {kind}: {error}")
    return unlike, refused


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True])
def test_every_type_cuts_as_its_file_says(named, files, tmp_path):
    types = sorted(TOKENIZER_MAPPING_NAMES)
    unlike, refused = _sweep(tmp_path, files, types, named=named)
    assert len(types) > 200
    assert not unlike
    # What cannot be a tokenizer of the type at all is one line; nothing else is refused.
    assert not [line for line in refused if "model type" not in line or line.split()[0] in _READABLE]


def test_what_is_read_is_said(files, tmp_path):
    like = _save(tmp_path / "like", files["qwen2"], "qwen2", tokenizer_class="PreTrainedTokenizerFast")
    unlike = _save(tmp_path / "unlike", files["gpt2"], "qwen2", tokenizer_class="Qwen2Tokenizer")
    assert tokenizer_fact(parse_spec(like)).endswith(", as its tokenizer.json")
    said = tokenizer_fact(parse_spec(unlike))
    assert said.startswith("its tokenizer.json, since Qwen2Tokenizer cuts ")
    assert said.endswith(f" of {len(list(sample_texts()))} texts otherwise")


def test_files_that_contradict_each_other_are_refused(files, tmp_path):
    name = _save(
        tmp_path / "model", files["words"], "bert", tokenizer_class="BertTokenizer", do_lower_case=False
    )
    with pytest.raises(
        InputError, match=r"do_lower_case = False and its tokenizer\.json True; correct the one"
    ):
        load_tokenizer(parse_spec(name))


def test_a_damaged_file_is_one_line(files, tmp_path):
    name = _save(tmp_path / "model", files["words"][:-20], "bert")
    with pytest.raises(InputError, match=r"tokenizer\.json is not valid JSON"):
        load_tokenizer(parse_spec(name))
