"""LoRA: matrices of a low rank beside those of a body, which stay as they are (Hu et al. 2022), by PEFT."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import torch

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import derive_seed
from sonde.models._quiet import one_line
from sonde.training.finetuning.recipe import FineTuning


def with_lora(body: Any, recipe: FineTuning) -> None:
    """Put matrices beside all linear layers of a body; at first they change nothing.

    Args:
        body: The body of a model, changed in place.
        recipe: Rank, factor, dropout, and the seed of the first matrices.

    Raises:
        UsageError: PEFT is not installed.
        InputError: PEFT does not take the body.
    """
    if find_spec("peft") is None:
        raise UsageError("finetune.lora_rank needs PEFT: pip install 'sonde[peft]'")
    peft: Any = importlib.import_module("peft")
    settings = peft.LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha,
        lora_dropout=recipe.lora_dropout,
        target_modules="all-linear",
    )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed("lora", recipe.seed) % 2**63)
            peft.inject_adapter_in_model(settings, body)
    except ValueError as error:
        raise InputError(f"LoRA does not fit {type(body).__name__}: {one_line(error)}") from error
    for name, weight in body.named_parameters():
        if "lora_" in name:
            # What is trained takes small steps.
            weight.data = weight.data.float()


def merge_lora(model: torch.nn.Module) -> None:
    """Make the matrices part of the weights beside which they stand, and take them away."""
    for path, layer in list(model.named_modules()):
        if hasattr(layer, "merge") and hasattr(layer, "base_layer"):
            merged: Any = layer
            merged.merge(safe_merge=True)
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, merged.get_base_layer())
