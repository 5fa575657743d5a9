"""Five real models, read by sonde and by transformers alone; each is skipped unless `make models` made it.

All GGUF files are 4-bit and are dequantised to float32 by both.
"""

from __future__ import annotations

import gc
import html
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy

import numpy as np
import psutil
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize
from jaxtyping import Float
from tests.recomputed.__main__ import main as recompute
from tests.recomputed.plain_model import PlainModel
from tools.fetch_models import MODELS

import sonde
from sonde.capture import HiddenStates, ItemCapture, Pass, Plain, TokenScores
from sonde.corpora import Item, Selection, select
from sonde.models import LoadedModel

pytestmark = [pytest.mark.real, pytest.mark.slow]

DECODERS = {
    "smollm2": ("Q4_1", "made to split as 'smollm'"),
    "gemma": ("Q4_K_M", "262,144 words"),
    "qwen": ("Q4_K_M", "splits as 'qwen2'"),
}
"""For each GGUF file its quantisation, and what sonde finds of its tokenizer."""

ENCODERS = ("minilm", "mpnet")

PARAMETERS = {"minilm": 23e6, "smollm2": 135e6, "gemma": 268e6, "mpnet": 109e6, "qwen": 1780e6}

BYTES_PER_PARAMETER = 9
"""Memory that a model takes at most: two copies in float32 while it is dequantised, and activations."""

TOLERANCE = 2e-4
"""Largest difference of a log-probability in nats."""

STATE_TOLERANCE = 2e-5
"""Largest difference of a state, as a share of the largest entry of its layer."""

SHORT = '''def count_words(text, minimum=2025):
\t"""Zähle Wörter – naïvely, 数 included 🙂."""
\twords = {}
\tfor word in text.split():
\t\twords[word] = words.get(word, 0) + 1
\treturn {word: n for word, n in words.items() if n >= minimum}
'''

LONG = "def weigh(inputs, weights):\n    total = 0.5\n" + "".join(
    f"    total += inputs[{number}] * weights[{number * 7 % 60}]\n" for number in range(60)
)
"""Longer than the sliding windows of Gemma, 512 subwords, and than what the encoders read at once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What sonde captured of texts, and the same model as transformers loads it."""

    name: str
    loaded: LoadedModel
    captured: dict[str, ItemCapture]
    ids: dict[str, tuple[int, ...]]
    plain: PlainModel


def find_model(name: str) -> Path:
    """Return where a model lies; the test is skipped if it does not, or if memory is short."""
    model = MODELS[name]
    if not model.place.exists():
        pytest.skip(f"{model.path} is not in models/: make models NAMES={name}")
    needed, free = BYTES_PER_PARAMETER * PARAMETERS[name], psutil.virtual_memory().available
    if free < needed:
        pytest.skip(f"{model.path} takes {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free")
    return model.place


def read_items(folder: Path) -> list[Item]:
    """Write the texts as files of a corpus, and select their functions."""
    (folder / "short.py").write_text(SHORT, encoding="utf-8")
    (folder / "long.py").write_text(LONG, encoding="utf-8")
    items = list(select(f"local:{folder}", Selection(limit=2)).items)
    assert {item.text for item in items} == {SHORT.rstrip("\n"), LONG.rstrip("\n")}
    return items


@pytest.fixture(scope="module", params=[*ENCODERS, *DECODERS])
def reading(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    """Read the texts with one model after the other."""
    name: str = request.param
    path = find_model(name)
    loaded = sonde.load_model(str(path), device="cpu", dtype="float32")
    prepared = sonde.capture.prepare(loaded, read_items(tmp_path_factory.mktemp("code")))
    spans = {item.item.item_id: ((0, 1), (2, 9)) for item in prepared}
    states = HiddenStates(pooling=("mean", "last", "spans"), spans=spans)
    requests = (states, TokenScores()) if name in DECODERS else (states,)
    texts = {item.item.item_id: item.item.text for item in prepared}
    observed = sonde.capture.observe(loaded, prepared, [Pass(Plain(), requests)])
    yield Reading(
        name,
        loaded,
        {texts[capture.item_id]: capture for capture in observed},
        {item.item.text: tuple(item.alignment.subwords.ids.tolist()) for item in prepared},
        PlainModel(
            {
                "name": str(path),
                "kind": loaded.capabilities.kind,
                "head": loaded.capabilities.head,
                "context": loaded.capabilities.context,
            }
        ),
    )
    gc.collect()


def compare_states(
    found: Float[np.ndarray, "layer width"], expected: Float[np.ndarray, "layer width"]
) -> None:
    """Compare states, as shares of the largest entry of each layer."""
    scale = np.abs(expected).max(-1, keepdims=True)
    np.testing.assert_allclose(found / scale, expected / scale, atol=STATE_TOLERANCE, rtol=0)


def test_subwords_and_states_are_those_of_transformers(reading: Reading) -> None:
    compared = 0
    for text, capture in reading.captured.items():
        encoded = reading.plain.encode(text)
        assert reading.ids[text] == encoded.ids
        # A longer text is read in windows.
        if not reading.plain.fits(encoded):
            continue
        layers = reading.plain.states(encoded.ids)
        compare_states(capture.states["mean"], layers.mean(1))
        compare_states(capture.states["last"], layers[:, -1])
        compare_states(capture.states["spans"][:, 0], layers[:, 0])
        compare_states(capture.states["spans"][:, 1], layers[:, 2:9].mean(1))
        compared += 1
    assert compared == (2 if reading.name in DECODERS else 1)


def test_log_probabilities_are_those_of_transformers(reading: Reading) -> None:
    if reading.name in ENCODERS:
        assert reading.loaded.capabilities.lacks == "no masked-LM head"
        return
    for text, capture in reading.captured.items():
        scored = reading.plain.score_all(reading.ids[text])
        assert capture.scores is not None and capture.scores.scored.all()
        np.testing.assert_allclose(capture.scores.nats, scored.nats, atol=TOLERANCE, rtol=0)
        # What lies at the bound of a near-tie may fall on either side of it.
        assert np.mean(capture.scores.rank != scored.rank) < 0.01
        assert 0.05 < scored.nats.mean() < 5


def test_a_gguf_file_is_read_as_its_reference_library_dequantises_it(reading: Reading) -> None:
    if reading.name in ENCODERS:
        assert "gguf" not in reading.loaded.facts
        return
    path = MODELS[reading.name].place
    quantisation, tokenizer = DECODERS[reading.name]
    assert reading.loaded.facts["gguf"] == f"{path.name}, {quantisation} dequantised to float32"
    assert tokenizer in reading.loaded.facts["tokenizer"]
    weights = reading.loaded.model.state_dict()
    compared = 0
    for tensor in GGUFReader(path).tensors:
        if tensor.name.endswith(".ffn_up.weight"):
            block = tensor.name.split(".")[1]
            own = weights[f"model.layers.{block}.mlp.up_proj.weight"].numpy()
            np.testing.assert_array_equal(own, dequantize(tensor.data, tensor.tensor_type))
            compared += 1
    assert compared == reading.loaded.capabilities.layers


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_without_a_head_refuses_surprisal_in_one_line(name: str, tmp_path: Path) -> None:
    path = find_model(name)
    command = [sys.executable, "-c", "from sonde.cli import main; main()", "run", "-m", str(path)]
    done = subprocess.run(
        [*command, "-l", "surprisal"],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"sonde: model '{path}': lens 'surprisal'") and "no masked-LM head" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "functions"), [("minilm", 30), ("smollm2", 20)])
def test_numbers_of_a_run_are_confirmed(
    name: str, functions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lenses = ["probe", "attention", *(["surprisal"] if name in DECODERS else [])]
    for module in (html, inspect, json, re, textwrap):
        (tmp_path / "code" / module.__name__).mkdir(parents=True)
        copy(inspect.getsourcefile(module) or "", tmp_path / "code" / module.__name__)
    sonde.run(
        models=str(find_model(name)),
        corpora=f"local:{tmp_path / 'code'}",
        lenses=lenses,
        tasks=["idn", "syntax_relations"],
        limit=functions,
        options={"probe": {"folds": 1, "controls": False}, "attention": {"random_weights_share": 0.0}},
        output=tmp_path / "run",
        dtype="float32",
    )
    status = recompute([str(tmp_path / "run"), "--items", "2"])
    assert status == 0, capsys.readouterr().out
