"""What a model is trained for: the next subword, hidden ones, or hidden ones and the next sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

_CHUNK = {"cpu": 512, "cuda": 8192}
"""Positions whose logits exist at a time: on a processor they should fit its cache, elsewhere fill the
device."""


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Mean cross entropy of a vocabulary projection whose logits never exist whole.

    The gradient of a chunk's logits is known as soon as they are, so both matrix products of the backward
    pass are done in the forward one and nothing is computed twice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "token d_model"],
        weight: Float[Tensor, "vocab d_model"],
        targets: Int[Tensor, " token"],
    ) -> Float[Tensor, ""]:
        needed = states.requires_grad or weight.requires_grad
        total = states.new_zeros((), dtype=torch.float32)
        states_grad = torch.empty_like(states)
        weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        projection = weight.to(states.dtype)
        chunk = _CHUNK.get(states.device.type, _CHUNK["cpu"])
        for start in range(0, len(states), chunk):
            part = slice(start, start + chunk)
            logits = (states[part] @ projection.mT).float()
            gold = targets[part, None]
            peak = logits.amax(-1, keepdim=True)
            gold_logit = logits.gather(-1, gold)
            logits.sub_(peak).exp_()
            mass = logits.sum(-1, keepdim=True)
            total += (mass.log() + peak - gold_logit).sum()
            if needed:
                logits.div_(mass * len(states))
                logits.scatter_add_(-1, gold, torch.full_like(mass, -1 / len(states)))
                gradient = logits.to(states.dtype)
                torch.mm(gradient, projection, out=states_grad[part])
                if gradient.dtype == weight_grad.dtype:
                    weight_grad.addmm_(gradient.mT, states[part])
                else:
                    weight_grad += gradient.mT @ states[part]
        ctx.save_for_backward(states_grad, weight_grad.to(weight.dtype))
        return total / len(states)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        states_grad, weight_grad = ctx.saved_tensors
        return states_grad * gradients[0], weight_grad * gradients[0], None


def projected_cross_entropy(
    states: Float[Tensor, "token d_model"],
    weight: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, " token"],
) -> Float[Tensor, ""]:
    """Mean negative log-likelihood, in nats, of targets under ``softmax(states @ weight.T)``.

    Under autocast the matrix products are done in its type, sums and exponentials always in float32.
    """
    device = states.device.type
    if torch.is_autocast_enabled(device):
        states = states.to(torch.get_autocast_dtype(device))
    with torch.autocast(device, enabled=False):
        return _ChunkedCrossEntropy.apply(states, weight, targets)  # pyright: ignore[reportReturnType]


def causal_loss(model: PreTrainedModel, blocks: Int[Tensor, "batch token"]) -> Float[Tensor, ""]:
    """Mean nats of each block's second to last subword given those before it.

    Args:
        model: A causal language model whose vocabulary projection has no bias.
        blocks: Packed subwords, one more than the positions that are predicted.
    """
    states = model.base_model(input_ids=blocks[:, :-1], use_cache=False).last_hidden_state
    projection = model.get_output_embeddings()
    assert isinstance(projection, nn.Linear)
    return projected_cross_entropy(states.flatten(0, 1), projection.weight, blocks[:, 1:].flatten())


def mask_tokens(
    block: Int[Tensor, " token"],
    *,
    share: float,
    vocabulary: int,
    mask: int,
    special: int,
    generator: torch.Generator,
) -> tuple[Int[Tensor, " token"], Int[Tensor, " token"]]:
    """Choose subwords to predict and hide them: 80 % masked, 10 % random, 10 % left.

    As Devlin et al. (2019), section 3.1.

    Args:
        block: True subwords.
        share: Share of ordinary subwords to choose.
        vocabulary: Number of subwords.
        mask: Id of the mask piece.
        special: Ids below this one are special pieces: never chosen, never drawn.
        generator: Where the choice comes from.

    Returns:
        What is shown, and the labels (-100 where nothing is asked).
    """
    chance = torch.rand(block.shape, generator=generator)
    kind = torch.rand(block.shape, generator=generator)
    drawn = torch.randint(special, vocabulary, block.shape, generator=generator, dtype=block.dtype)
    chosen = (chance < share) & (block >= special)
    shown = torch.where(chosen & (kind < 0.8), torch.full_like(block, mask), block)
    shown = torch.where(chosen & (kind >= 0.9), drawn, shown)
    return shown, torch.where(chosen, block, torch.full_like(block, -100))


def mask_fixed_count(
    tokens: Int[np.ndarray, " token"],
    *,
    share: float,
    most: int,
    vocabulary: int,
    mask: int,
    special: int,
    draw: np.random.Generator,
) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
    """Choose a fixed number of subwords to predict and hide them: 80 % masked, 10 % random, 10 % left.

    As Devlin et al. (2019) released it: the number is the share of the whole input, special pieces counted,
    rounded, at least one and at most the limit; special pieces are never chosen. Their random subwords may be
    special pieces, these are not.

    Args:
        tokens: True subwords.
        share: Share of the subwords to choose.
        most: Most subwords to choose; 0 for no limit.
        vocabulary: Number of subwords.
        mask: Id of the mask piece.
        special: Ids below this one are special pieces.
        draw: Where the choice comes from.

    Returns:
        What is shown, and the labels (-100 where nothing is asked).
    """
    ordinary = np.flatnonzero(tokens >= special)
    number = max(1, round(share * len(tokens)))
    chosen = draw.permutation(ordinary)[: min(number, most) if most else number]
    kind = draw.random(len(chosen))
    drawn = draw.integers(special, vocabulary, len(chosen))
    shown, labels = tokens.copy(), np.full_like(tokens, -100)
    labels[chosen] = tokens[chosen]
    shown[chosen] = np.where(kind < 0.8, mask, np.where(kind < 0.9, tokens[chosen], drawn))
    return shown, labels


def pair_losses(
    model: PreTrainedModel,
    input_ids: Int[Tensor, "batch token"],
    labels: Int[Tensor, "batch token"],
    next_sentence_label: Int[Tensor, " batch"],
    **inputs: Tensor,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Mean nats of the hidden subwords of a batch, and of whether the second sentence is random.

    Their sum is what BERT is trained on. Logits exist for the hidden subwords alone.

    Args:
        model: A model with BERT's two heads together in ``cls``.
        input_ids: What is shown.
        labels: The hidden subwords, -100 elsewhere.
        next_sentence_label: 1 where the second sentence is random.
        inputs: Segments and attention mask.
    """
    output = model.base_model(input_ids=input_ids, **inputs)
    places = labels >= 0
    heads: Any = model.cls
    logits, following = heads(output.last_hidden_state[places], output.pooler_output)
    return (
        functional.cross_entropy(logits.float(), labels[places]),
        functional.cross_entropy(following.float(), next_sentence_label),
    )
