"""The memory of a training against published sizes, PEFT's own count, and sums by hand; the printed plan."""

from __future__ import annotations

from pathlib import Path

import peft
import pytest
import torch
from tests.training.test_finetuning import save_tokenizer
from transformers import AutoModel, LlamaConfig

from sonde.cli.plan import _format_training
from sonde.models import ModelSpec
from sonde.training.finetune.memory import estimate_memory
from sonde.training.finetune.recipe import BFLOAT16, FinetuneRecipe

LORA = FinetuneRecipe(lora_rank=16, weights=BFLOAT16)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    """Llama 2 with 7B weights, of which only the configuration is there."""
    folder = tmp_path_factory.mktemp("models") / "llama"
    LlamaConfig(
        vocab_size=32_000, hidden_size=4096, intermediate_size=11_008, num_hidden_layers=32,
        num_attention_heads=32, max_position_embeddings=4096,
    ).save_pretrained(folder)  # fmt: skip
    save_tokenizer(folder, around=False)
    return ModelSpec(name=str(folder), device="cpu")


def test_a_7b_with_lora_fits_one_device(llama: ModelSpec) -> None:
    """6,738,415,616 weights as published, less the projection; 39,976,960 that LoRA trains."""
    found = estimate_memory(llama, LORA, half_precision=True)
    assert found.parameters == 6_738_415_616 - 32_000 * 4096
    with torch.device("meta"):
        plain = AutoModel.from_config(LlamaConfig.from_pretrained(llama.name))
        wrapped = peft.get_peft_model(plain, peft.LoraConfig(r=16, target_modules="all-linear"))
    assert found.trained == wrapped.get_nb_trainable_parameters()[0] == 39_976_960
    assert found.weights == 2 * found.parameters + 4 * found.trained
    # A gradient and two moments in single precision.
    assert found.moving == 12 * found.trained
    read_and_given = 4 * 2 * 4096 + 3 * (4096 + 11_008)
    assert found.states == 32 * 128 * 32 * read_and_given * 2
    assert 30e9 < found.total < 80e9


def test_what_saves_memory_is_counted(llama: ModelSpec) -> None:
    from dataclasses import replace

    usual = estimate_memory(llama, LORA, half_precision=True)
    fewer = estimate_memory(llama, replace(LORA, at_once=4), half_precision=True)
    assert (fewer.examples, fewer.states * 8) == (4, usual.states)
    again = estimate_memory(llama, replace(LORA, recompute=True), half_precision=True)
    assert again.states < 0.1 * usual.states
    shared = estimate_memory(llama, replace(LORA, processes=8), half_precision=True)
    assert shared.examples == 4
    whole = estimate_memory(llama, FinetuneRecipe(), half_precision=True)
    assert whole.total > 80e9 and whole.trained == whole.parameters
    head = estimate_memory(llama, FinetuneRecipe(frozen=True), half_precision=True)
    assert (head.trained, head.moving, head.states) == (0, 0, 0)


def test_the_plan_says_it_in_a_line(llama: ModelSpec) -> None:
    from dataclasses import asdict

    one = estimate_memory(llama, LORA, half_precision=True)
    line = _format_training(
        {**asdict(one), "total": one.total, "model": "m", "how": "LoRA of rank 16", "length": 128}
    )
    assert line.startswith("training  m, LoRA of rank 16 (39,976,960 of 6,607,343,616 weights): about 34 GB")
    assert "with 32 examples of at most 128 subwords at once" in line
    assert Path(llama.name).is_dir()
