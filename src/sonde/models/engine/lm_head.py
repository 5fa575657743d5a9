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

    def __call__(self, given: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes vocab"]:
        """Compute logits over the full vocabulary."""
        return _logits(self._run, self._states, given.float() if self.wide else given)

    def to_float32(self) -> FullHead:
        """Return the head in float32: logits in half precision are rounded to ties, which decide ranks."""
        dtypes = {one.dtype for one in self._given.parameters() if one.is_floating_point()}
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
    def __init__(self, whole: FullHead, part: Any, states: str, ids: Int[Tensor, " candidate"]) -> None:
        self._whole = whole
        self._part = part
        self._states = states
        self._ids = ids
        self._checked = False

    def __call__(self, given: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes candidate"]:
        if self._part is not None and not self._checked:
            self._checked = True
            some = given.reshape(-1, given.shape[-1])[:2]
            if not self._agrees(some):
                self._part = None
        if self._part is None:
            return self._whole(given).index_select(-1, self._ids)
        return self._logits(given)

    def _logits(self, given: Float[Tensor, "*axes d_model"]) -> Tensor:
        return _logits(self._part, self._states, given.float() if self._whole.wide else given)

    def _agrees(self, some: Float[Tensor, "row d_model"]) -> bool:
        try:
            part = self._logits(some)
        except RuntimeError:
            # Something else of the head has the width of the vocabulary.
            return False
        whole = self._whole(some)[:, self._ids]
        return part.shape == whole.shape and torch.allclose(part.float(), whole.float(), rtol=1e-3, atol=1e-3)


def _logits(shell: Any, states: str, given: Float[Tensor, "*axes d_model"]) -> Tensor:
    place = next(shell.parameters(), given).device
    # A model over several devices ends on another than it begins on.
    logits = shell(**{states: given.to(place).reshape(1, -1, given.shape[-1])}).logits.to(given.device)
    return logits.reshape(*given.shape[:-1], logits.shape[-1])


def _narrow(shell: Any, ids: Int[Tensor, " candidate"]) -> Any | None:
    """Copy a shell with some rows of its output embeddings; None if these cannot be found."""
    projection = shell.get_output_embeddings()
    named = [name for name, module in shell.named_modules() if module is projection]
    if not _is_plain(projection) or not named or int(ids.max()) >= projection.out_features:
        return None
    rows = copy.copy(projection)
    rows._parameters = {
        name: None if one is None else nn.Parameter(one[ids], requires_grad=False)
        for name, one in projection._parameters.items()
    }
    narrow = _copy_module(shell)
    size = projection.out_features
    narrow._buffers = {
        name: one[..., ids] if one is not None and one.shape[-1:] == (size,) else one
        for name, one in shell._buffers.items()
    }
    *path, last = named[0].split(".")
    at = narrow
    for part in path:
        at._modules[part] = _copy_module(at._modules[part])
        at = at._modules[part]
    at._modules[last] = rows
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
        at = 0
        for some, bias in zip(rows, biases, strict=True):
            part = nn.functional.linear(states.float(), some.float(), bias)
            logits[..., at : at + len(some)] = part
            at += len(some)
        return logits


def _to_float32(module: Any, projection: Any) -> Any:
    """Copy a module in float32; the projection on the vocabulary is widened when it is used."""
    if module is projection and _is_plain(module):
        return _WideLinear(module)
    if any(one is not None and not one.is_floating_point() for one in module._parameters.values()):
        # A quantised layer computes with its own numbers, in the type of what it is given.
        return module
    one = copy.copy(module)
    one._modules = {
        # Embeddings look ids up, which a head does not.
        name: child if child is None or isinstance(child, nn.Embedding) else _to_float32(child, projection)
        for name, child in module._modules.items()
    }
    one._parameters = {
        name: None if given is None else nn.Parameter(_wide(given), requires_grad=False)
        for name, given in module._parameters.items()
    }
    one._buffers = {name: None if given is None else _wide(given) for name, given in module._buffers.items()}
    return one


def _is_plain(module: Any) -> bool:
    """Return whether a module is a linear layer with unquantised weights."""
    return isinstance(module, nn.Linear) and module.weight.is_floating_point()


def _wide(given: Tensor) -> Tensor:
    return given.float() if given.is_floating_point() else given


def _copy_module(module: Any) -> Any:
    """Copy a module that shares its parts, which can then be replaced in the copy."""
    one = copy.copy(module)
    one._modules = dict(module._modules)
    return one


class _AbsentHead:
    """Stands for the head of a model whose files hold none: it refuses whatever it is asked."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded

    def __call__(self, given: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes vocab"]:
        check_head_available(self._loaded)
        raise AssertionError

    def to_float32(self) -> _AbsentHead:
        return self

    def restrict_to_ids(self, ids: Int[Tensor, " candidate"]) -> _AbsentHead:
        return self


def body_and_head(loaded: LoadedModel) -> tuple[Any, Any]:
    """Return the body of a model and its head, which refuses every call if the files have none.

    Every number over the vocabulary comes from this head: weights that a checkpoint does not contain are
    random, and say something else at each loading.
    """
    body, head = FAMILIES.load(loaded.family).body_and_head(loaded.model)
    return body, head if loaded.capabilities.head else _AbsentHead(loaded)


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
    whole = model(**arguments).logits
    if not whole.isfinite().all():
        raise FloatingPointError
    apart = head(body(**arguments).last_hidden_state)
    return apart.shape == whole.shape and torch.allclose(apart.float(), whole.float(), rtol=1e-3, atol=1e-3)


LastSteps = Callable[[Float[Tensor, "*axes d_model"]], Float[Tensor, "*axes d_model"]]


class _Call(NamedTuple):
    """One call of a module in a forward."""

    module: Any
    given: Tensor
    returned: Tensor
    in_layer: bool


@torch.inference_mode()
def last_steps(loaded: LoadedModel) -> LastSteps:
    """Return the steps from the states of a layer to the input of the head, as after the last layer.

    Of an encoder-decoder it is the decoder's.

    Raises:
        InputError: The model does something there that is no module of its own.
    """
    model = loaded.model
    inside = [name for name, _ in model.named_modules() if _is_list_member(name)]
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
        watch(module, in_layer=_is_list_member(name))
        for name, module in model.named_modules()
        if _is_list_member(name) or name not in around
    ]
    try:
        at: Tensor = forward_rows(loaded, make_rows(loaded, (5,)))[-1].last_hidden_state
    finally:
        for handle in watched:
            handle.remove()
    steps: list[Any] = []
    for call in reversed(calls):
        if not _shares_memory(call.returned, at):
            continue
        if call.in_layer:
            return nn.Sequential(*reversed(steps))
        if not _shares_memory(call.given, at):
            steps.append(call.module)
            at = call.given
    raise InputError(
        f"model {loaded.spec.name!r}: what {type(model).__name__} does between its last layer and its head "
        "is no module of its own, so no other layer can be read through its head"
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
        elif isinstance(value, tuple | list) and (found := _states(tuple(value))) is not None:
            return found
        elif (last := getattr(value, "last_hidden_state", None)) is not None:
            return last
    return None


def _shares_memory(one: Tensor, two: Tensor) -> bool:
    """Return whether two tensors share memory; the second may be a prefix of the first."""
    return one.data_ptr() == two.data_ptr() and one.shape[-1] == two.shape[-1]
