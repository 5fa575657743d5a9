"""What a first user does, with whatever versions of the libraries are installed; run as a script.

    python tests/packaging/smoke.py FOLDER

A small decoder with random weights is made and saved; its surprisal and a probe are measured over 40
functions (the data set of a probe needs 25), and the page is written again from the run's folder.
"""

from __future__ import annotations

import argparse
import html
import importlib.metadata
import inspect
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_LIBRARIES = ("torch", "transformers", "tokenizers", "polars", "pyarrow", "numpy", "scikit-learn", "pydantic")
_MODULES = (argparse, html, inspect, json, re, textwrap)


def _save_model(folder: Path) -> None:
    """A decoder over bytes, as transformers saves it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: place for place, piece in enumerate(["<pad>", "<bos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", pad_token="<pad>").save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def _save_code(folder: Path) -> None:
    """A few modules of the standard library, a package each."""
    for module in _MODULES:
        package = folder / module.__name__
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(inspect.getsource(module), encoding="utf-8")


def main(folder: Path) -> None:
    """Make the model and the code, run two lenses, and write the page again.

    Raises:
        CalledProcessError: A command failed.
    """
    print({name: importlib.metadata.version(name) for name in _LIBRARIES}, flush=True)  # noqa: T201
    _save_model(folder / "model")
    _save_code(folder / "code")
    sonde = [sys.executable, "-c", "from sonde.cli.commands import main; main()"]
    asked = "-m model -l surprisal -l probe -t len -c local:code --limit 40 -o run"
    subprocess.run([*sonde, "run", *asked.split()], cwd=folder, check=True)
    (folder / "run" / "report.html").unlink()
    subprocess.run([*sonde, "report", "run"], cwd=folder, check=True)
    import sonde as library

    scores = library.read_scores(folder / "run")
    assert {"surprisal", "probe"} <= set(scores["lens"]), scores
    assert "vegaEmbed" in (folder / "run" / "report.html").read_text(encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
