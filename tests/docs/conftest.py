"""A folder such as the pages ask for: some code in ``src`` and a very small decoder in ``my-checkpoint``."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from examples import write_code


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """The folder that a reader of the tutorial works in."""
    write_code(tmp_path)
    save_checkpoint(tmp_path / "my-checkpoint", inspect.getsource(json))
    return tmp_path


@pytest.fixture
def environment() -> Mapping[str, str]:
    """Where ``sonde`` and ``python`` are those that run the tests, and no width cuts a table."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "COLUMNS": "200"}


def save_checkpoint(folder: Path, text: str) -> None:
    """Save a random GPT-2 of two layers with a tokenizer that knows some subwords of a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([text], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>").save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=256,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
