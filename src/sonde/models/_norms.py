"""What a model does between its last layer and its head, found by watching it do so.

Most models norm the states of their last layer once more before the head (Llama, GPT-2), those that norm at
the end of each layer do not (BERT), and some project the states too (OPT). Which modules these are is read
off a forward of a few subwords: those outside all layers that lead from a layer's output to the last states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sonde.base.errors import InputError
from sonde.models._family import LoadedModel
from sonde.models._samples import forward_rows, some_rows

LastSteps = Callable[[Float[Tensor, "*axes d_model"]], Float[Tensor, "*axes d_model"]]


class _Call(NamedTuple):
    """One call of a module in a forward."""

    module: Any
    given: Tensor
    returned: Tensor
    in_layer: bool


@torch.inference_mode()
def last_steps(loaded: LoadedModel) -> LastSteps:
    """From the states of a layer to what the head is given, as the model does behind its last layer.

    Of an encoder-decoder it is the decoder's.

    Raises:
        InputError: The model does something there that is no module of its own.
    """
    model = loaded.model
    inside = [name for name, _ in model.named_modules() if _numbered(name)]
    around = {name.rpartition(".")[0] for name in inside}
    around |= {".".join(name.split(".")[:at]) for name in inside for at in range(len(name.split(".")))}
    calls: list[_Call] = []

    def watch(module: Any, *, in_layer: bool) -> Any:
        def seen(_: Any, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> None:
            before, after = _states((*given, *named.values())), _states((returned,))
            if before is not None and after is not None:
                calls.append(_Call(module, before, after, in_layer))

        return module.register_forward_hook(seen, with_kwargs=True)

    # What holds layers returns the last states too, and is neither one of them nor a step behind them.
    watched = [
        watch(module, in_layer=_numbered(name))
        for name, module in model.named_modules()
        if _numbered(name) or name not in around
    ]
    try:
        at: Tensor = forward_rows(loaded, some_rows(loaded, (5,)))[-1].last_hidden_state
    finally:
        for handle in watched:
            handle.remove()
    steps: list[Any] = []
    for call in reversed(calls):
        if not _same(call.returned, at):
            continue
        if call.in_layer:
            return _Steps(tuple(reversed(steps)))
        if not _same(call.given, at):
            steps.append(call.module)
            at = call.given
    raise InputError(
        f"model {loaded.spec.name!r}: what {type(model).__name__} does between its last layer and its head "
        "is no module of its own, so no other layer can be read through its head"
    )


class _Steps:
    """Modules, one after the other."""

    def __init__(self, modules: tuple[Any, ...]) -> None:
        self.modules = modules

    def __call__(self, states: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes d_model"]:
        for module in self.modules:
            states = module(states)
        return states


def _numbered(name: str) -> bool:
    """Whether a module lies in a list of modules: layers do."""
    return any(part.isdigit() for part in name.split("."))


def _states(values: tuple[Any, ...]) -> Tensor | None:
    """The first states among what a module is given or returns."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point() and value.ndim >= 2:
                return value
        elif isinstance(value, tuple | list) and (found := _states(tuple(value))) is not None:
            return found
        elif (last := getattr(value, "last_hidden_state", None)) is not None:
            return last
    return None


def _same(one: Tensor, two: Tensor) -> bool:
    """Whether two are the same numbers in memory; the second may be a part of the first, cut off behind."""
    return one.data_ptr() == two.data_ptr() and one.shape[-1] == two.shape[-1]
