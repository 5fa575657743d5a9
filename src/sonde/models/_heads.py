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
from jaxtyping import Float
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


def head_of(model: Any, *bodies: str, states: str = "inputs_embeds") -> Head:
    """From states to logits by the model's own code.

    Args:
        model: A transformers model with a head.
        bodies: The attributes that hold its body.
        states: The argument that carries embeddings to the body.
    """
    shell = copy.copy(model)
    # A copy of a module shares the dictionary of its parts; only the copy's bodies are replaced.
    shell._modules = {**model._modules, **{body: _Given() for body in bodies}}

    def head(given: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes vocab"]:
        rows = given.reshape(1, -1, given.shape[-1])
        logits = shell(**{states: rows}).logits
        return logits.reshape(*given.shape[:-1], logits.shape[-1])

    return head


@torch.inference_mode()
def separates(body: Any, head: Head, model: Any, **arguments: Any) -> bool:
    """Whether ``head(body(x))`` is what the whole model gives, on a few tokens.

    Args:
        body: Gives ``last_hidden_state``.
        head: From states to logits.
        model: The whole.
        arguments: What both are called with.
    """
    apart = head(body(**arguments).last_hidden_state)
    whole = model(**arguments).logits
    return apart.shape == whole.shape and torch.allclose(apart.float(), whole.float(), rtol=1e-3, atol=1e-3)
