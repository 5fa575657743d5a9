"""What stands between the last hidden state and the logits, taken from the model's own code.

A head is more than one matrix: a transform and a bias (BERT), a scale (T5, Granite, Cohere), soft-capping
(Gemma). Instead of a formula for each, the head is the model itself with its body replaced by one that hands
the given states over, so that whatever the model does after its body happens exactly as in a plain forward.
`separates` holds a model to that on a few tokens before anything is scored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

Head = Callable[[Float[Tensor, "*axes d_model"]], Float[Tensor, "*axes vocab"]]


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


class _Given(nn.Module):
    """A body that returns the embeddings that it is given."""

    @property
    def decoder(self) -> _Given:
        """Some heads (OPT) go past the body to the decoder in it."""
        return self

    def forward(self, *_: Any, **arguments: Any) -> _States:
        states = arguments.get("inputs_embeds")
        return _States(arguments.get("decoder_inputs_embeds") if states is None else states)


class WholeHead:
    """From states to logits by the model's own code.

    Args:
        shell: The model without its bodies.
        states: The argument that carries states in the place of embeddings.
    """

    def __init__(self, shell: Any, states: str) -> None:
        self._shell = shell
        self._states = states

    def __call__(self, given: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes vocab"]:
        """Logits over the whole vocabulary."""
        return _logits(self._shell, self._states, given)

    def narrowed(self, ids: Int[Tensor, " candidate"]) -> Head:
        """The head that gives the logits of some ids alone.

        Only their rows of the output embeddings are multiplied. Where that is not what the whole head gives,
        seen on the first states, the whole head is asked.
        """
        return _NarrowHead(self, _narrow(self._shell, ids), self._states, ids)


class _NarrowHead:
    def __init__(self, whole: WholeHead, part: Any, states: str, ids: Int[Tensor, " candidate"]) -> None:
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
        return _logits(self._part, self._states, given)

    def _agrees(self, some: Float[Tensor, "row d_model"]) -> bool:
        try:
            part = _logits(self._part, self._states, some)
        except RuntimeError:
            # Something else of the head has the width of the vocabulary.
            return False
        whole = self._whole(some)[:, self._ids]
        return part.shape == whole.shape and torch.allclose(part.float(), whole.float(), rtol=1e-3, atol=1e-3)


def _logits(shell: Any, states: str, given: Float[Tensor, "*axes d_model"]) -> Tensor:
    logits = shell(**{states: given.reshape(1, -1, given.shape[-1])}).logits
    return logits.reshape(*given.shape[:-1], logits.shape[-1])


def _narrow(shell: Any, ids: Int[Tensor, " candidate"]) -> Any | None:
    """A copy of a shell with some rows of its output embeddings; None where they cannot be told."""
    projection = shell.get_output_embeddings()
    named = [name for name, module in shell.named_modules() if module is projection]
    if not isinstance(projection, nn.Linear) or not named:
        return None
    rows = copy.copy(projection)
    rows._parameters = {
        name: None if one is None else nn.Parameter(one[ids], requires_grad=False)
        for name, one in projection._parameters.items()
    }
    narrow = _copied(shell)
    size = projection.out_features
    narrow._buffers = {
        name: one[..., ids] if one is not None and one.shape[-1:] == (size,) else one
        for name, one in shell._buffers.items()
    }
    *path, last = named[0].split(".")
    at = narrow
    for part in path:
        at._modules[part] = _copied(at._modules[part])
        at = at._modules[part]
    at._modules[last] = rows
    return narrow


def _copied(module: Any) -> Any:
    """A copy of a module that shares its parts, which may be replaced in the copy alone."""
    one = copy.copy(module)
    one._modules = dict(module._modules)
    return one


def head_of(model: Any, *bodies: str, states: str = "inputs_embeds") -> WholeHead:
    """From states to logits by the model's own code.

    Args:
        model: A transformers model with a head.
        bodies: The attributes that hold its body.
        states: The argument that carries embeddings to the body.
    """
    shell = _copied(model)
    shell._modules |= {body: _Given() for body in bodies}
    return WholeHead(shell, states)


@torch.inference_mode()
def separates(body: Any, head: Head, model: Any, **arguments: Any) -> bool:
    """Whether ``head(body(x))`` is what the whole model gives, on a few tokens.

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
