"""Capture against the bare batched forward on the same batches, as ratios within one run.

The models have random weights: time does not depend on them. Runs are interleaved and the median of paired
ratios is reported, so that a busy machine slows both sides alike.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
import transformers

from sonde.alignment.subwords import Alignment, Coverage, Subwords
from sonde.capture.forward import observe
from sonde.capture.requests import Pass, Plain, Prepared, TokenScores
from sonde.capture.settings import CaptureSettings
from sonde.capture.windows import batch_by_length, pad_rows
from sonde.corpora import Item, item_id
from sonde.languages import LANGUAGES
from sonde.models import Capabilities, LoadedModel, ModelSpec, SpecialTokens

_BUDGET = 1024
_REPEATS = 5


def run() -> list[dict[str, str | float | None]]:
    """Measure both decoders; rows of name, value, unit, target."""
    return [
        _row("capture / bare forward, 4x256 decoder, 8k vocabulary", _ratio(_mini_decoder(), 32), 1.12),
        _row("capture / bare forward, 12x768 decoder, 50k vocabulary", _ratio(_gpt2(), 6), 1.0),
    ]


def _row(name: str, value: float, target: float) -> dict[str, str | float | None]:
    return {"name": name, "value": round(value, 3), "unit": "x", "target": target}


def _mini_decoder() -> LoadedModel:
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    return _loaded(transformers.LlamaForCausalLM(config), "llama", 4, 4, 256, 8192)


def _gpt2() -> LoadedModel:
    config = transformers.GPT2Config()
    return _loaded(transformers.GPT2LMHeadModel(config), "gpt2", 12, 12, 768, 50257)


def _loaded(
    model: transformers.PreTrainedModel, family: str, layers: int, heads: int, width: int, vocab: int
) -> LoadedModel:
    return LoadedModel(
        spec=ModelSpec(name=f"random/{family}"),
        revision="random",
        model=model.eval(),
        tokenizer=None,
        capabilities=Capabilities(
            kind="decoder",
            layers=layers,
            heads=heads,
            d_model=width,
            vocab=vocab,
            context=1024,
            attention="interface",
            masks=False,
        ),
        special=SpecialTokens(bos=0, bos_source="bos"),
        family="decoder",
    )


def _ratio(loaded: LoadedModel, items: int) -> float:
    prepared = _items(items, loaded.capabilities.vocab)
    rows = [np.concatenate([[0], one.alignment.subwords.ids[:-1]]) for one in prepared]
    batches = [
        _tensors([rows[index] for index in batch])
        for batch in batch_by_length(
            [len(row) for row in rows], [one.item.item_id for one in prepared], _BUDGET
        )
    ]
    passes = [Pass(Plain(), (TokenScores(),))]
    settings = CaptureSettings(token_budget=_BUDGET)
    ratios: list[float] = []
    for repeat in range(_REPEATS + 1):
        begun = time.perf_counter()
        _bare(loaded, batches)
        between = time.perf_counter()
        for _ in observe(loaded, prepared, passes, settings=settings):
            pass
        ended = time.perf_counter()
        if repeat:  # the first round warms caches
            ratios.append((ended - between) / (between - begun))
    return statistics.median(ratios)


@torch.inference_mode()
def _bare(loaded: LoadedModel, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for ids, mask in batches:
        _ = loaded.model(input_ids=ids, attention_mask=mask).logits


def _tensors(rows: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    mask = pad_rows([np.ones(len(row), dtype=np.int64) for row in rows], 0)
    return torch.from_numpy(pad_rows(rows, 0)), torch.from_numpy(mask)


def _items(count: int, vocab: int) -> list[Prepared]:
    """Items of the lengths that functions have (median about 90 subwords, a long tail)."""
    rng = np.random.default_rng(0)
    language = LANGUAGES.load("text")
    tree = language.parse("")
    tokens = language.tokens(tree)
    prepared: list[Prepared] = []
    for number, length in enumerate(np.clip(rng.lognormal(4.5, 0.9, count), 8, 900).astype(int)):
        ids = rng.integers(1, vocab, length)
        nothing = np.zeros(length, dtype=np.int64)
        subwords = Subwords("", ids, nothing, nothing, nothing, ("",) * length)
        coverage = Coverage(
            characters=0,
            covered=0,
            subwords=length,
            merged=0,
            layout=0,
            unknown=0,
            tokens=0,
            tokens_whole=0,
        )
        alignment = Alignment(
            subwords, nothing, nothing, nothing, ("",) * length, ("",) * length, ("",) * length, coverage
        )
        item = Item(
            item_id=item_id(str(number), "text", "file"),
            text="",
            language="text",
            unit="file",
            path=str(number),
            name=str(number),
            offset=0,
            cluster="",
            repository="",
        )
        prepared.append(Prepared(item, tree, tokens, alignment))
    return prepared
