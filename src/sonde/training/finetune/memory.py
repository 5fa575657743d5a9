"""Memory of a training, estimated from a configuration: counted on a model without weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from sonde.models import ModelSpec
from sonde.models.engine.configuration import load_config
from sonde.models.engine.device_map import architecture
from sonde.training.finetune.recipe import BFLOAT16, FinetuneRecipe

_SINGLE_BYTES, _HALF_BYTES = 4, 2


_ADAM = 2
"""Numbers that the optimiser keeps of each weight that moves."""


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Bytes on each device; an estimate, without what a device's libraries take for themselves.

    Attributes:
        parameters: Weights of the body.
        trained: Weights that move.
        weights: Bytes of the weights that a device holds; of shared ones without the layer that runs.
        moving: Bytes of gradients, and of what the optimiser keeps.
        states: Bytes of what is kept of a forward for its gradients: what linear layers read and give.
        examples: Examples that are read at once.
    """

    parameters: int
    trained: int
    weights: int
    moving: int
    states: int
    examples: int

    @property
    def total(self) -> int:
        """Total number of bytes."""
        return self.weights + self.moving + self.states


def estimate_memory(spec: ModelSpec, recipe: FinetuneRecipe, *, half_precision: bool) -> TrainingMemory:
    """Estimate the memory of a training; no weight is read.

    Args:
        spec: The model, of which the configuration is looked at.
        recipe: How it is trained; the largest of its batches counts.
        half_precision: Whether products are taken in bfloat16.
    """
    from transformers import AutoModel

    config = load_config(spec)
    body = architecture(AutoModel, config, trust_remote_code=spec.trust_remote_code)
    linear = [layer for layer in body.modules() if isinstance(layer, nn.Linear) or _is_conv1d(layer)]
    sides = [sum(layer.weight.shape) for layer in linear]
    parameters = sum(weight.numel() for weight in body.parameters())
    lora_parameters = recipe.lora_rank * sum(sides)
    trained_parameters = lora_parameters if recipe.lora_rank else 0 if recipe.frozen else parameters
    weight_bytes = _HALF_BYTES if recipe.weights == BFLOAT16 else _SINGLE_BYTES
    batch = -(-max((recipe.batch, *recipe.other_batches)) // recipe.processes)
    examples = min(recipe.at_once or batch, batch)
    layers = getattr(config.get_text_config(), "num_hidden_layers", 1)
    width = getattr(config.get_text_config(), "hidden_size", 0)
    states_per_token = 0 if recipe.frozen else sum(sides)
    if recipe.recompute and not recipe.frozen:
        # The state before each layer, and all of one layer at a time.
        states_per_token = layers * width + sum(sides) // layers
    parts = recipe.processes if recipe.fsdp else 1
    return TrainingMemory(
        parameters=parameters,
        trained=trained_parameters,
        weights=(parameters * weight_bytes + lora_parameters * _SINGLE_BYTES) // parts,
        moving=trained_parameters * _SINGLE_BYTES * (1 + _ADAM) // parts,
        states=examples
        * recipe.length
        * states_per_token
        * (_HALF_BYTES if half_precision else _SINGLE_BYTES),
        examples=examples,
    )


def _is_conv1d(layer: Any) -> bool:
    """Return whether a layer is GPT-2's linear layer, which has a name of its own."""
    return type(layer).__name__ == "Conv1D"
