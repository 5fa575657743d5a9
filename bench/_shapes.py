"""Models of given shapes with random weights, and the steps of a job that benchmarks time one by one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Prepared
from sonde.capture.settings import CaptureSettings
from sonde.experiments.observe import build_requests
from sonde.experiments.plan import JobBatch
from sonde.models import LoadedModel, ModelSpec, load_tokenizer


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model with random weights.

    Attributes:
        name: What it is called in the table.
        lenses: What reads it.
        layers: Its layers.
        width: Values of a state.
        inner: Values inside of a layer's network.
        heads: Its heads.
        decoder: Whether it reads from left to right.
    """

    name: str
    lenses: tuple[str, ...]
    layers: int
    width: int
    inner: int
    heads: int
    decoder: bool = True


def build_model(shape: Shape, folder: Path, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Write a model of a shape, with the bundled vocabulary and 50,000 subwords to score."""
    place = folder / shape.name.replace(" ", "-")
    if place.exists():
        return place
    sizes: dict[str, Any] = {
        "vocab_size": 50_265,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "pad_token_id": 1,
    }
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        if shape.decoder:
            config = transformers.LlamaConfig(**sizes, max_position_embeddings=2048)
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
        else:
            config = transformers.RobertaConfig(**sizes, max_position_embeddings=514)
            model = transformers.AutoModelForMaskedLM.from_config(config, dtype=dtype)
    model.save_pretrained(place)
    load_tokenizer(
        ModelSpec(name="sonde/mini-decoder" if shape.decoder else "sonde/mini-encoder")
    ).save_pretrained(place)
    return place


def read_ids(prepared: Prepared, loaded: LoadedModel) -> np.ndarray:
    """Return what is read of an item, cut to the model's context."""
    special = loaded.special
    own = prepared.alignment.subwords.ids[: loaded.capabilities.context - 8]
    return np.array([*special.prefix, *own, *special.suffix], dtype=np.int64)


def capture_all(
    loaded: LoadedModel,
    pool: JobBatch,
    prepared: list[Prepared],
    settings: CaptureSettings | None = None,
) -> None:
    """Capture what the lenses of a batch of jobs request, and drop it."""
    first = pool.jobs[0]
    together = dataclasses.replace(first, item_ids=tuple(one.item.item_id for one in prepared))
    _, passes = build_requests(together, first.parts, prepared)
    for _ in observe_lenses(loaded, prepared, passes, settings=settings):
        pass
