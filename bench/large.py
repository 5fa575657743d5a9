"""How fewer bits, an adapter and a device map change results; writes the table in ``docs/models.md``.

Functions of the standard library are read by a model as it is and otherwise, and each number is compared
with its own: nats of each subword, each attention probability, each state by the largest of its layer.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import peft
import torch
import transformers
from jaxtyping import Float

from sonde.capture.forward import observe
from sonde.capture.requests import AttentionRows, HiddenStates, Pass, Plain, Prepared, TokenScores, prepare
from sonde.corpora import Item, Selection
from sonde.corpora.engine.select import select
from sonde.models import LoadedModel, full_name, load_model, load_tokenizer, parse_spec

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
BEGIN, END = "<!-- begin: python -m bench large -->", "<!-- end -->"

_DECODER, _ENCODER = "sonde/mini-decoder", "sonde/mini-encoder"
_ITEMS = 60


@dataclass(frozen=True, slots=True)
class Numbers:
    """The results of a model on some functions.

    Attributes:
        nats: Of each subword; empty for an encoder.
        rows: Attention probabilities, of each item.
        states: Mean states of all layers, of each item.
    """

    nats: Float[np.ndarray, " subword"]
    rows: list[Float[np.ndarray, "layer head row subword"]]
    states: list[Float[np.ndarray, "layer d_model"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    model: str
    read: str
    nats: float
    bits: float
    attention: float
    most_attention: float
    states: float


def run() -> Iterator[dict[str, Any]]:
    """Measure, write the table, and give a row per figure."""
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for model, read, base, name, device_map in _cases(Path(folder)):
            line = _line(model, read, base, name, device_map)
            lines.append(line)
            for what, unit in (("nats", "nats"), ("attention", "share"), ("states", "share")):
                if np.isnan(getattr(line, what)):
                    continue
                yield {
                    "name": f"{model}, {read}: {what}",
                    "value": getattr(line, what),
                    "unit": unit,
                    "target": 1e-5 if read not in ("8bit", "4bit") else None,
                }
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{_table(lines)}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _cases(folder: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """Model, how it is read, what it is compared with, its name, and its device map."""
    wide = folder / "wide"
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(load_tokenizer(parse_spec(_DECODER))),
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(wide)
    load_tokenizer(parse_spec(_DECODER)).save_pretrained(wide)
    random = "4 x 256, random weights"
    for title, name in ((_DECODER, _DECODER), (_ENCODER, _ENCODER), (random, str(wide))):
        for kind in ("8bit", "4bit"):
            yield title, kind, name, full_name(name, quantise=kind), ""
    adapter, merged = _adapted(wide, folder)
    yield random, "adapter", str(merged), full_name(str(wide), adapter=str(adapter)), ""
    shards = folder / "shards"
    shutil.copytree(wide, shards, ignore=shutil.ignore_patterns("*.safetensors"))
    transformers.LlamaForCausalLM.from_pretrained(wide).save_pretrained(shards, max_shard_size="2MB")
    yield random, "shards", str(wide), str(shards), ""
    yield random, "cpu and disk", str(wide), str(wide), '{"model.layers.1": "disk", "model.layers.3": "disk"}'


def _adapted(base: Path, folder: Path) -> tuple[Path, Path]:
    """Build an adapter, and the base with it merged by PEFT."""
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    settings = peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    wrapped = peft.get_peft_model(model, settings)
    wrapped.save_pretrained(str(folder / "lora"))
    shutil.copytree(base, folder / "merged")
    merged: Any = wrapped.merge_and_unload()
    merged.save_pretrained(folder / "merged")
    return folder / "lora", folder / "merged"


def _line(model: str, read: str, base: str, name: str, device_map: str) -> Line:
    whole = _numbers(load_model(parse_spec(base, device="cpu")))
    found = _numbers(
        load_model(parse_spec(name, device="auto" if device_map else "cpu", device_map=device_map))
    )
    nats = np.abs(found.nats - whole.nats)
    pairs = list(zip(found.rows, whole.rows, strict=True))
    scales = [np.abs(one).max(axis=1, keepdims=True) for one in whole.states]
    return Line(
        model=model,
        read=read,
        nats=float(nats.mean()) if len(nats) else float("nan"),
        bits=float((found.nats - whole.nats).mean() / np.log(2)) if len(nats) else float("nan"),
        attention=float(np.concatenate([_moved(*pair) for pair in pairs]).mean()),
        most_attention=max(_most(*pair) for pair in pairs),
        states=max(
            _most(one / scale, two / scale)
            for one, two, scale in zip(found.states, whole.states, scales, strict=True)
        ),
    )


def _moved(one: Float[np.ndarray, ...], two: Float[np.ndarray, ...]) -> Float[np.ndarray, " row"]:
    """Return the share of each row's attention that goes elsewhere."""
    return np.abs(one - two).sum(axis=-1).ravel() / 2


def _most(one: Float[np.ndarray, ...], two: Float[np.ndarray, ...]) -> float:
    return float(np.abs(one - two).max())


def _numbers(loaded: LoadedModel) -> Numbers:
    prepared = prepare(loaded, _items())
    asked: list[Any] = [HiddenStates(None, ("mean",)), AttentionRows(_some(prepared))]
    if loaded.capabilities.kind == "decoder":
        asked.append(TokenScores(1))
    captures = list(observe(loaded, prepared, [Pass(Plain(), tuple(asked))]))
    nats = [one.scores.nats[one.scores.scored] for one in captures if one.scores is not None]
    return Numbers(
        np.concatenate(nats) if nats else np.zeros(0),
        [one.rows for one in captures if one.rows is not None],
        [one.states["mean"] for one in captures],
    )


def _some(prepared: list[Prepared]) -> dict[str, tuple[int, ...]]:
    """Return the first rows of each function's attention; all would not fit."""
    return {one.item.item_id: tuple(range(min(16, len(one.alignment.subwords)))) for one in prepared}


@cache
def _items() -> list[Item]:
    return list(select("stdlib", Selection(limit=_ITEMS, languages=("python",))).items)


def _table(lines: list[Line]) -> str:
    """Format the table in Markdown."""

    def cell(value: float) -> str:
        return "" if np.isnan(value) else f"{value:.2g}"

    rows = [
        "| model | read as | nats per subword, mean difference | bits per subword, change | attention that "
        "goes elsewhere, mean share | attention probability, largest difference | mean state by the largest "
        "of its layer, largest difference |",
        "|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {one.model} | {one.read} | {cell(one.nats)} | {cell(one.bits)} | {cell(one.attention)} | "
        f"{cell(one.most_attention)} | {cell(one.states)} |"
        for one in lines
    ]
    return "\n".join(rows)
