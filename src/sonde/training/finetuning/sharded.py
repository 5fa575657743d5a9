"""A model whose weights are shared out among processes (FSDP): each holds a part, and a layer while it runs.

Zhao et al. 2023, "PyTorch FSDP". What is written and read is whole, so a training goes on with another number
of processes, and what comes of it is a model like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn


def shard(model: nn.Module, device: torch.device, *ways: str) -> None:
    """Share the weights of a model out among the processes, layer by layer; gradients are averaged over them.

    Args:
        model: The model, whole in each of the processes; changed in place.
        device: Where the parts of this process go.
        ways: Methods by which the model is called, beside the usual.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for layer in max(stacks, key=len, default=()):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    for way in ways:
        register_fsdp_forward_method(model, way)


def is_sharded(model: nn.Module) -> bool:
    """Whether the weights of a model are shared out."""
    return any(_is_part(weight) for weight in model.parameters())


def whole(value: Any) -> Any:
    """Tensors put together from their parts, in mappings and lists as well; all processes have to ask.

    They are on the processor then, which holds more than a device.
    """
    if isinstance(value, Mapping):
        return {name: whole(one) for name, one in value.items()}
    if isinstance(value, list):
        return [whole(one) for one in value]
    return value.full_tensor().cpu() if _is_part(value) else value


def in_parts(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Whole weights as the parts that the weights of a model are; all processes have to ask."""
    places = dict(model.named_parameters(remove_duplicate=False))
    return {name: _like(weight, places.get(name)) for name, weight in weights.items()}


def optimiser_in_parts(state: dict[str, Any], optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """What `whole` made of the state of an optimiser, in the parts that its weights are."""
    places = [weight for group in optimiser.param_groups for weight in group["params"]]
    held = {
        number: {name: _like(value, places[number]) for name, value in of.items()}
        for number, of in state["state"].items()
    }
    return {**state, "state": held}


def _like(value: Any, place: Any) -> Any:
    if not (_is_part(place) and isinstance(value, Tensor) and value.shape == place.shape):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(place.device), place.device_mesh, place.placements)


def _is_part(value: Any) -> Any:
    """Whether a tensor is shared out, which takes several processes."""
    if not distributed.is_initialized():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)
