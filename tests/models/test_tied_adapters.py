"""An adapter over a weight that has two uses changes the one that it was trained for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

from sonde.models import ModelSpec, load_model
from sonde.models.engine.adapters import lacks_adapter
from sonde.models.engine.lm_head import body_and_head

from .conftest import ALL, HEADS, tiny_tokenizer

TARGETS = {
    "llama": ("lm_head", "embed_tokens", "q_proj"),
    "gpt2": ("lm_head", "wte", "c_proj"),
    "bloom": ("lm_head", "word_embeddings", "dense"),
    "gemma2, soft-capped": ("lm_head", "embed_tokens", "q_proj"),
    "bert": ("decoder", "word_embeddings", "query"),
    "roberta": ("decoder", "word_embeddings", "query"),
    "t5, tied": ("lm_head", "shared", "q"),
    "bart": ("lm_head", "shared", "q_proj"),
}
"""Of each architecture the output projection, the input embeddings, and a matrix with one use."""


def _saved(name: str, target: str, folder: Path) -> tuple[ModelSpec, Any]:
    """Save a tied base and an adapter; gives the adapter as PEFT has it, beside the weights."""
    model_type, fields, _ = ALL[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **{**fields, "tie_word_embeddings": True})
    kind = getattr(transformers, HEADS[name])
    base = folder / "base"
    kind.from_config(config).save_pretrained(base)
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    tiny_tokenizer(template=HEADS[name] != "AutoModelForCausalLM", **special).save_pretrained(base)
    settings = peft.LoraConfig(target_modules=[target], r=4, lora_alpha=64)
    wrapped = peft.get_peft_model(kind.from_pretrained(base), settings).eval()
    with torch.no_grad():
        for weight, held in wrapped.named_parameters():
            if "lora_" in weight:
                held.normal_(0, 0.3)
    wrapped.save_pretrained(folder / "adapter")
    return ModelSpec(name=str(base), adapter=str(folder / "adapter"), device="cpu"), wrapped


@pytest.mark.parametrize(("name", "target"), [(name, one) for name, some in TARGETS.items() for one in some])
def test_logits_are_those_of_the_adapter_beside_the_weights(name: str, target: str, tmp_path: Path) -> None:
    spec, wrapped = _saved(name, target, tmp_path)
    given = {"input_ids": torch.arange(4, 30)[None]}
    if HEADS[name] == "AutoModelForSeq2SeqLM":
        given["decoder_input_ids"] = given["input_ids"]
    with torch.no_grad():
        expected = wrapped(**given).logits
    loaded = load_model(spec)
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(**given).logits, expected, atol=1e-4, rtol=1e-4)
        _, head = body_and_head(loaded)
        states = torch.randn(3, loaded.capabilities.d_model)
        torch.testing.assert_close(head.to_float32()(states), head(states), atol=1e-4, rtol=1e-4)
    assert lacks_adapter(loaded.model) == (target == TARGETS[name][2])
