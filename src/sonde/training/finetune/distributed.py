"""Several processes that train one model: each reads its part of a batch, and gradients are added up.

The weights of a model may also be sharded among the processes (FSDP; Zhao et al. 2023, "PyTorch FSDP"): each
process holds a part, and a whole layer only while that layer runs. What is written and read is whole, so a
training can resume with another number of processes, and its result is a model like any other.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

from sonde.base.process import safe_path_environment

_PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others, as while one writes a checkpoint."""


@contextmanager
def spawn_workers(size: int, work: Callable[..., Any], *arguments: Any) -> Generator[None]:
    """Start other processes that do the same work; this one is the first.

    Args:
        size: How many there are.
        work: What the others do; a function of a module, called with ``arguments``, behind them the number of
            the process as ``rank``.
        arguments: Plain values.
    """
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="sonde-together-") as folder:
        store = str(Path(folder) / "store")
        workers = [
            context.Process(target=_run_worker, args=(rank, size, store, work, arguments))
            for rank in range(1, size)
        ]
        with safe_path_environment():
            for worker in workers:
                worker.start()
        try:
            with _join_group(0, size, store):
                yield
        finally:
            for worker in workers:
                worker.join(timeout=60)
                if worker.is_alive():
                    worker.terminate()


def _run_worker(
    rank: int, size: int, store: str, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    with _join_group(rank, size, store):
        work(*arguments, rank=rank)


@contextmanager
def _join_group(rank: int, size: int, store: str) -> Generator[None]:
    backend = "nccl" if _has_devices(size) else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=_PATIENCE
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()


def select_device(device: str, rank: int, size: int) -> str:
    """Return the device of a process: one of its own if there are enough, else the shared one."""
    return f"cuda:{rank}" if _has_devices(size) and device in ("auto", "cuda") else device


def _has_devices(size: int) -> bool:
    return torch.cuda.is_available() and torch.cuda.device_count() >= size


def is_main_process() -> bool:
    """Return whether this process writes: the only one, or the first of several."""
    return not distributed.is_initialized() or distributed.get_rank() == 0


def world_size() -> int:
    """Return the number of processes that train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def barrier() -> None:
    """Wait until all processes have come here."""
    if distributed.is_initialized():
        distributed.barrier()


def local_rows(rows: Sequence[int]) -> Sequence[int]:
    """Return the part of a batch that this process reads."""
    if not distributed.is_initialized():
        return rows
    return rows[distributed.get_rank() :: distributed.get_world_size()]


def all_reduce(model: nn.Module, total: Tensor, *, gradients: bool = True) -> Tensor:
    """Add a number of all processes up, and the gradients beside it; gives the sum of the number.

    Args:
        model: The model with the gradients.
        total: The number.
        gradients: Whether they are still to be added up.
    """
    if not distributed.is_initialized():
        return total
    for weight in (parameter for parameter in model.parameters() if parameter.requires_grad and gradients):
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        distributed.all_reduce(weight.grad)
    distributed.all_reduce(total)
    return total


def shard_model(model: nn.Module, device: torch.device, *ways: str) -> None:
    """Shard the weights of a model over the processes, layer by layer; gradients are averaged over them.

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


def has_sharded_weights(model: nn.Module) -> bool:
    """Return whether the weights of a model are sharded."""
    return any(_is_part(weight) for weight in model.parameters())


def gather_tensors(value: Any) -> Any:
    """Gather sharded tensors, also in mappings and lists; all processes have to call it.

    They are on the processor then, which holds more than a device.
    """
    if isinstance(value, Mapping):
        return {name: gather_tensors(item) for name, item in value.items()}
    if isinstance(value, list):
        return [gather_tensors(item) for item in value]
    return value.full_tensor().cpu() if _is_part(value) else value


def shard_weights(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Shard full weights like those of the model; all processes have to call it."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {name: _shard_like(weight, parameters.get(name)) for name, weight in weights.items()}


def shard_optimiser_state(state: dict[str, Any], optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Shard the gathered state of an optimiser like its weights."""
    parameters = [weight for group in optimiser.param_groups for weight in group["params"]]
    parameter_states = {
        number: {name: _shard_like(value, parameters[number]) for name, value in parameter_state.items()}
        for number, parameter_state in state["state"].items()
    }
    return {**state, "state": parameter_states}


def _shard_like(value: Any, parameter: Any) -> Any:
    if not (_is_part(parameter) and isinstance(value, Tensor) and value.shape == parameter.shape):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)


def _is_part(value: Any) -> Any:
    """Return whether a tensor is sharded, which takes several processes."""
    if not distributed.is_initialized():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)
