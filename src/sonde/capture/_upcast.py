"""A model's arithmetic in float32 for a while, where it is held in half precision."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

HALF = (torch.float16, torch.bfloat16)


def may_be_upcast(model: nn.Module) -> bool:
    """Tell whether a model is held in half precision, and all of it where it computes."""
    weights = [*model.parameters()]
    return (
        any(weight.dtype in HALF for weight in weights)
        and all(weight.is_floating_point() for weight in weights)
        and all(weight.device.type != "meta" for weight in weights)
    )


@contextmanager
def in_float32(model: nn.Module) -> Generator[None]:
    """Widen the numbers of a model while it is used; those of a layer only while that layer computes.

    Widening and narrowing again changes no number, so the model is afterwards what it was.

    Args:
        model: One that `may_be_upcast`.
    """
    dtypes = {weight.dtype for weight in model.parameters()} & set(HALF)
    (dtype,) = dtypes
    layers = [*_layers(model)]
    within = {id(weight) for layer in layers for weight in _numbers(layer)}
    around = [weight for weight in _numbers(model) if id(weight) not in within]

    def widen(layer: nn.Module, *_: Any) -> None:
        _cast(_numbers(layer), dtype, torch.float32)

    def narrow(layer: nn.Module, *_: Any) -> None:
        _cast((one for one in _numbers(layer) if id(one) in narrowed), torch.float32, dtype)

    narrowed = {id(weight) for weight in _numbers(model) if weight.dtype == dtype}
    hooks = [layer.register_forward_pre_hook(widen) for layer in layers]
    hooks += [layer.register_forward_hook(narrow, always_call=True) for layer in layers]
    held = [weight for weight in around if id(weight) in narrowed]
    _cast(held, dtype, torch.float32)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        _cast(held, torch.float32, dtype)
        for layer in layers:
            narrow(layer)


def _layers(module: nn.Module) -> Iterable[nn.Module]:
    """Yield the modules of the lists of a model, those of a list within another one not apart."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        else:
            yield from _layers(child)


def _numbers(module: nn.Module) -> Iterable[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _cast(weights: Iterable[Tensor], old: torch.dtype, new: torch.dtype) -> None:
    for weight in weights:
        if weight.dtype == old:
            weight.data = weight.data.to(new)
