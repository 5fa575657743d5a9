"""Final norm and head: the steps from a model's last layer to its logits, taken from its own code.

A head is more than one matrix: a transform and a bias (BERT), a scale (T5, Granite, Cohere), soft-capping
(Gemma). Instead of a formula for each, the head is the model itself with its body replaced by one that
returns the given states, so that whatever the model does after its body happens exactly as in a plain forward
pass. `is_separable` checks this on a few tokens before anything is scored.

Most models normalise the states of their last layer once more before the head (Llama, GPT-2), those that
normalise at the end of each layer do not (BERT), and some also project the states (OPT). Which modules these
are is found by watching a forward pass of a few subwords: they are the modules outside all layers that lead
from a layer's output to the last states (`last_steps`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sonde.base.errors import InputError
from sonde.models.engine.device_map import copy_to_device, spans_devices
from sonde.models.engine.family import FAMILIES, LoadedModel, check_head_available
from sonde.models.engine.trial_batches import forward_rows, make_rows

Head = Callable[[Float[Tensor, "*axes d_model"]], Float[Tensor, "*axes vocab"]]


_ROWS = 8192
"""Entries of the vocabulary whose weights are widened at a time."""


class _States:
    """Stands for a body's output: the states, and nothing for any other field."""

    def __init__(self, states: Tensor | None) -> None:
        self.last_hidden_state = states

    def __getitem__(self, index: int | slice) -> Any:
        return (self.last_hidden_state,)[index]

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Tensor | None]:
        return iter((self.last_hidden_state,))

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class _EmbeddingBody(nn.Module):
    """A body that returns the embeddings that it is given.

    Args:
        body: The body that it stands for; some heads read a number off it (Falcon-H1), or its embeddings
            (DeBERTa's newer one).
    """

    def __init__(self, body: Any) -> None:
        super().__init__()
        if isinstance(embeddings := getattr(body, "embeddings", None), nn.Module):
            self.embeddings = embeddings
        self._numbers = {name: value for name, value in vars(body).items() if isinstance(value, int | float)}

    def __getattr__(self, name: str) -> Any:
        numbers = self.__dict__.get("_numbers", {})
        return numbers[name] if name in numbers else super().__getattr__(name)

    @property
    def decoder(self) -> _EmbeddingBody:
        """Return the body itself: some heads (OPT) go past the body to its decoder."""
        return self

    def forward(self, *_: Any, **arguments: Any) -> _States:
        states = arguments.get("inputs_embeds")
        return _States(arguments.get("decoder_inputs_embeds") if states is None else states)


class FullHead:
    """The step from states to logits, by the model's own code.

    Args:
        shell: The model without its bodies.
        states: The argument that carries states in the place of embeddings.
        wide: Whether it is run in float32 whatever the precision of its weights.

    Attributes:
        wide: The same.
    """

    def __init__(self, shell: Any, states: str, *, wide: bool = False) -> None:
        self._given = shell
        self._states = states
        self.wide = wide

    @cached_property
    def _shell(self) -> Any:
        """Return the model without its bodies; offloaded weights are fetched at the first use of the head."""
        return copy_to_device(self._given) if spans_devices(self._given) else self._given

    @cached_property
    def _run(self) -> Any:
        return _to_float32(self._shell, self._shell.get_output_embeddings()) if self.wide else self._shell

    def __call__(self, hidden_states: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes vocab"]:
        """Compute logits over the full vocabulary."""
        return _logits(self._run, self._states, hidden_states.float() if self.wide else hidden_states)

    def to_float32(self) -> FullHead:
        """Return the head in float32: logits in half precision are rounded to ties, which decide ranks."""
        dtypes = {parameter.dtype for parameter in self._given.parameters() if parameter.is_floating_point()}
        return self if dtypes <= {torch.float32} else FullHead(self._given, self._states, wide=True)

    def restrict_to_ids(self, ids: Int[Tensor, " candidate"]) -> Head:
        """Return the head that gives the logits of some ids only.

        Only their rows of the output embeddings are multiplied. Where that is not what the whole head gives,
        seen on the first states, the whole head is asked.
        """
        part = _narrow(self._shell, ids)
        if part is not None and self.wide:
            part = _to_float32(part, None)
        return _NarrowHead(self, part, self._states, ids)


class _NarrowHead:
    def __init__(self, full_head: FullHead, part: Any, states: str, ids: Int[Tensor, " candidate"]) -> None:
        self._whole = full_head
        self._part = part
        self._states = states
        self._ids = ids
        self._checked = False

    def __call__(self, hidden_states: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes candidate"]:
        if self._part is not None and not self._checked:
            self._checked = True
            sample = hidden_states.reshape(-1, hidden_states.shape[-1])[:2]
            if not self._agrees(sample):
                self._part = None
        if self._part is None:
            return self._whole(hidden_states).index_select(-1, self._ids)
        return self._logits(hidden_states)

    def _logits(self, hidden_states: Float[Tensor, "*axes d_model"]) -> Tensor:
        return _logits(self._part, self._states, hidden_states.float() if self._whole.wide else hidden_states)

    def _agrees(self, sample: Float[Tensor, "row d_model"]) -> bool:
        try:
            part = self._logits(sample)
        except RuntimeError:
            # Something else of the head has the width of the vocabulary.
            return False
        expected_logits = self._whole(sample)[:, self._ids]
        return part.shape == expected_logits.shape and torch.allclose(
            part.float(), expected_logits.float(), rtol=1e-3, atol=1e-3
        )


def _logits(shell: Any, states: str, hidden_states: Float[Tensor, "*axes d_model"]) -> Tensor:
    device = next(shell.parameters(), hidden_states).device
    # A model over several devices ends on another than it begins on.
    logits = shell(**{states: hidden_states.to(device).reshape(1, -1, hidden_states.shape[-1])}).logits.to(
        hidden_states.device
    )
    return logits.reshape(*hidden_states.shape[:-1], logits.shape[-1])


def _narrow(shell: Any, ids: Int[Tensor, " candidate"]) -> Any | None:
    """Copy a shell with some rows of its output embeddings; None if these cannot be found."""
    projection = shell.get_output_embeddings()
    names = [name for name, module in shell.named_modules() if module is projection]
    if not _is_plain(projection) or not names or int(ids.max()) >= projection.out_features:
        return None
    rows = copy.copy(projection)
    rows._parameters = {
        name: None if parameter is None else nn.Parameter(parameter[ids], requires_grad=False)
        for name, parameter in projection._parameters.items()
    }
    narrow = _copy_module(shell)
    size = projection.out_features
    narrow._buffers = {
        name: buffer[..., ids] if buffer is not None and buffer.shape[-1:] == (size,) else buffer
        for name, buffer in shell._buffers.items()
    }
    *path, last = names[0].split(".")
    parent = narrow
    for part in path:
        parent._modules[part] = _copy_module(parent._modules[part])
        parent = parent._modules[part]
    parent._modules[last] = rows
    return narrow


class _WideLinear(nn.Module):
    """A projection in float32 whose weight stays as it is: some of its rows are widened at a time."""

    def __init__(self, narrow: nn.Linear) -> None:
        super().__init__()
        self.weight: Tensor = narrow.weight
        self.bias: Tensor | None = narrow.bias

    def forward(self, states: Float[Tensor, "*axes d_in"]) -> Float[Tensor, "*axes d_out"]:
        rows = self.weight.split(_ROWS)
        biases = [None] * len(rows) if self.bias is None else self.bias.float().split(_ROWS)
        logits = states.new_empty((*states.shape[:-1], len(self.weight)), dtype=torch.float32)
        start = 0
        for weight, bias in zip(rows, biases, strict=True):
            part = nn.functional.linear(states.float(), weight.float(), bias)
            logits[..., start : start + len(weight)] = part
            start += len(weight)
        return logits


def _to_float32(module: Any, projection: Any) -> Any:
    """Copy a module in float32; the projection on the vocabulary is widened when it is used."""
    if module is projection and _is_plain(module):
        return _WideLinear(module)
    if any(
        parameter is not None and not parameter.is_floating_point()
        for parameter in module._parameters.values()
    ):
        # A quantised layer computes with its own numbers, in the type of what it is given.
        return module
    module_copy = copy.copy(module)
    module_copy._modules = {
        # Embeddings look ids up, which a head does not.
        name: child if child is None or isinstance(child, nn.Embedding) else _to_float32(child, projection)
        for name, child in module._modules.items()
    }
    module_copy._parameters = {
        name: None if parameter is None else nn.Parameter(_wide(parameter), requires_grad=False)
        for name, parameter in module._parameters.items()
    }
    module_copy._buffers = {
        name: None if buffer is None else _wide(buffer) for name, buffer in module._buffers.items()
    }
    return module_copy


def _is_plain(module: Any) -> bool:
    """Return whether a module is a linear layer with unquantised weights."""
    return isinstance(module, nn.Linear) and module.weight.is_floating_point()


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _copy_module(module: Any) -> Any:
    """Copy a module that shares its parts, which can then be replaced in the copy."""
    module_copy = copy.copy(module)
    module_copy._modules = dict(module._modules)
    return module_copy


class _AbsentHead:
    """Stands for the head of a model whose files hold none: it refuses whatever it is asked."""

    def __init__(self, loaded_model: LoadedModel) -> None:
        self._loaded = loaded_model

    def __call__(self, hidden_states: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes vocab"]:
        check_head_available(self._loaded)
        raise AssertionError

    def to_float32(self) -> _AbsentHead:
        return self

    def restrict_to_ids(self, ids: Int[Tensor, " candidate"]) -> _AbsentHead:
        return self


def body_and_head(loaded_model: LoadedModel) -> tuple[Any, Any]:
    """Return the body of a model and its head, which refuses every call if the files have none.

    Every number over the vocabulary comes from this head: weights that a checkpoint does not contain are
    random, and say something else at each loading.
    """
    body, head = FAMILIES.load(loaded_model.family).body_and_head(loaded_model.model)
    return body, head if loaded_model.capabilities.head else _AbsentHead(loaded_model)


def build_head(model: Any, *bodies: str, states: str = "inputs_embeds") -> FullHead:
    """Build the step from states to logits from the model's own code.

    Args:
        model: A transformers model with a head.
        bodies: The attributes that hold its body.
        states: The argument that carries embeddings to the body.
    """
    shell = _copy_module(model)
    shell._modules |= {body: _EmbeddingBody(getattr(model, body)) for body in bodies}
    return FullHead(shell, states)


@torch.inference_mode()
def is_separable(body: Any, head: Head, model: Any, **arguments: Any) -> bool:
    """Return whether ``head(body(x))`` equals the logits of the full model, on a few tokens.

    Args:
        body: Gives ``last_hidden_state``.
        head: From states to logits.
        model: The whole.
        arguments: What both are called with.

    Raises:
        FloatingPointError: The model's own logits are NaN or infinite.
    """
    expected_logits = model(**arguments).logits
    if not expected_logits.isfinite().all():
        raise FloatingPointError
    logits = head(body(**arguments).last_hidden_state)
    return logits.shape == expected_logits.shape and torch.allclose(
        logits.float(), expected_logits.float(), rtol=1e-3, atol=1e-3
    )


LastSteps = Callable[[Float[Tensor, "*axes d_model"]], Float[Tensor, "*axes d_model"]]


class _Call(NamedTuple):
    """One call of a module in a forward."""

    module: Any
    inputs: Tensor
    outputs: Tensor
    in_layer: bool


@torch.inference_mode()
def last_steps(loaded_model: LoadedModel) -> LastSteps:
    """Return the steps from the states of a layer to the input of the head, as after the last layer.

    Of an encoder-decoder it is the decoder's.

    Raises:
        InputError: The model does something there that is no module of its own.
    """
    model = loaded_model.model
    layer_names = [name for name, _ in model.named_modules() if _is_list_member(name)]
    container_names = {name.rpartition(".")[0] for name in layer_names}
    container_names |= {
        ".".join(name.split(".")[:size]) for name in layer_names for size in range(len(name.split(".")))
    }
    calls: list[_Call] = []

    def watch(module: Any, *, in_layer: bool) -> Any:
        def record_call(_: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
            input_states, output_states = _states((*arguments, *keywords.values())), _states((output,))
            if input_states is not None and output_states is not None:
                calls.append(_Call(module, input_states, output_states, in_layer))

        return module.register_forward_hook(record_call, with_kwargs=True)

    # What holds layers returns the last states too, and is neither one of them nor a step behind them.
    handles = [
        watch(module, in_layer=_is_list_member(name))
        for name, module in model.named_modules()
        if _is_list_member(name) or name not in container_names
    ]
    try:
        states: Tensor = forward_rows(loaded_model, make_rows(loaded_model, (5,)))[-1].last_hidden_state
    finally:
        for handle in handles:
            handle.remove()
    steps: list[Any] = []
    for call in reversed(calls):
        if not _shares_memory(call.outputs, states):
            continue
        if call.in_layer:
            return nn.Sequential(*reversed(steps))
        if not _shares_memory(call.inputs, states):
            steps.append(call.module)
            states = call.inputs
    raise InputError(
        f"model {loaded_model.spec.name!r}: {type(model).__name__} has no separate module "
        "between its last layer and its head, so no other layer can be read through its head"
    )


def _is_list_member(name: str) -> bool:
    """Return whether a module is in a list of modules, as layers are."""
    return any(part.isdigit() for part in name.split("."))


def _states(values: tuple[Any, ...]) -> Tensor | None:
    """Return the first states among the inputs or outputs of a module."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point() and value.ndim >= 2:
                return value
        elif isinstance(value, tuple | list) and (states := _states(tuple(value))) is not None:
            return states
        elif (last := getattr(value, "last_hidden_state", None)) is not None:
            return last
    return None


def _shares_memory(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors share memory; the second may be a prefix of the first."""
    return first.data_ptr() == second.data_ptr() and first.shape[-1] == second.shape[-1]
