"""Configurations of sizes that no model has: refused in a line, before anything is made of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import CONFIG_MAPPING

from sonde.base.errors import InputError
from sonde.models import ModelSpec, load_model
from sonde.models.engine.config_values import check_sizes
from tests.experiments.conftest import save_decoder

KINDS = (
    *(
        "bert",
        "roberta",
        "gpt2",
        "llama",
        "t5",
        "bart",
        "plbart",
        "modernbert",
        "pegasus",
        "mixtral",
        "qwen2",
    ),
    *(
        "qwen3_moe",
        "deepseek_v3",
        "gpt_neox",
        "gptj",
        "opt",
        "bloom",
        "codegen",
        "starcoder2",
        "falcon",
        "phi",
    ),
    *("phi", "electra", "distilbert", "deberta-v2", "albert", "xlm-roberta", "longformer", "bigbird_pegasus"),
)
NO_SIZES = {
    *("chunk_size_feed_forward", "max_length", "sliding_window", "top_k", "num_beams", "mlp_ratio"),
    *("first_k_dense_replace", "global_attn_every_n_layers", "local_attention", "attention_window"),
    *("max_window_layers", "decoder_sparse_step", "topk_group", "num_experts_per_tok", "moe_layer_freq"),
}
"""Whole numbers that are no amount of memory."""


def numbers(config: dict[str, Any]) -> list[str]:
    return sorted(
        name
        for name, value in config.items()
        if isinstance(value, int)
        and not isinstance(value, bool)
        and value > 1
        and name not in NO_SIZES
        and not name.endswith(("_id", "_ids", "_idx"))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_size_of_every_architecture(kind: str) -> None:
    config = CONFIG_MAPPING[kind]().to_dict()
    check_sizes(config, kind)
    assert len(numbers(config)) >= 4
    for name in numbers(config):
        for value in (10**12, 10**40, 1e300, float("inf"), float("nan")):
            for held in (config | {name: value}, {"text_config": {"decoder": config | {name: value}}}):
                with pytest.raises(
                    InputError, match=rf"config.json asks for (text_config.decoder.)?{name} = "
                ):
                    check_sizes(held, "m")


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_hidden_layers": 1_000_000},
        {"vocab_size": 10**11},
        {"hidden_size": 10**9},
        {"num_attention_heads": 10**9},
        {"num_key_value_heads": 10**9},
        {"intermediate_size": 10**10},
        {"max_position_embeddings": 10**12},
        {"head_dim": 10**9},
        {"vocab_size": 9_000_000, "hidden_size": 900_000},
    ],
    ids=str,
)
def test_within_a_second(tmp_path: Path, sizes: dict[str, int]) -> None:
    folder = save_decoder(tmp_path / "model")
    spec = ModelSpec(name=str(folder), device="cpu")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | sizes))
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"asks for .* at most [\d,]+ can be read"):
        load_model(spec)
    assert time.monotonic() - begun < 1


def test_the_largest_published_sizes_are_read() -> None:
    for sizes in (
        {"num_hidden_layers": 126, "hidden_size": 16_384, "intermediate_size": 53_248, "vocab_size": 128_256},
        {"num_hidden_layers": 96, "n_embd": 12_288, "n_inner": 49_152, "vocab_size": 50_257},
        {"num_hidden_layers": 61, "hidden_size": 7_168, "n_routed_experts": 384, "vocab_size": 163_840},
        {"max_position_embeddings": 10_485_760, "hidden_size": 5_120, "num_local_experts": 128},
        {"vocab_size": 1_000_000, "d_model": 1_024},
    ):
        check_sizes(sizes, "m")
