"""What stands on a model's states: a class for the text, a class for two texts, or two pointers into it.

A class is read from pooled states, or from each subword (`TokenHead`): a bug stands in one place. Where the
architecture has a classifier of its own in transformers, that one is trained (`OwnHead`).

The pointer head is that of Vasic et al. 2019, as CuBERT has it: with states Y and their summary c,
``tanh(Y Wy + c Wh) w`` gives each place one logit for the error and one for its repair, without biases.
Place 0 stands for the summary itself and says that nothing is wrong.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sonde.training.finetuning.batches import Batch
from sonde.training.finetuning.data import FIRST, SECOND
from sonde.training.finetuning.recipe import MAX, FineTuning

States = Float[Tensor, "example token d_model"]

LEAST = 1e-10
"""Probabilities are cut off here before their logarithm, as in the published code."""


def mean_of(states: States, chosen: Tensor) -> Float[Tensor, "example d_model"]:
    """Mean over the chosen subwords; 0 where there are none."""
    weights = chosen.to(states.dtype)[..., None]
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def max_of(states: States, chosen: Tensor) -> Float[Tensor, "example d_model"]:
    """Largest value over the chosen subwords, each dimension by itself; 0 where there are none.

    A bug stands in one place: a mean over a text of 128 subwords has a 128th of what says so.
    """
    largest = states.masked_fill(~chosen[..., None], -math.inf).amax(1)
    return largest.masked_fill(~chosen.any(1)[:, None], 0.0)


def last_of(states: States, part: Int[Tensor, "example token"]) -> Float[Tensor, "example d_model"]:
    """State of the last subword that is no padding."""
    last = (part >= 0).sum(1) - 1
    return states[torch.arange(len(states), device=states.device), last.clamp(min=0)]


_OVER = {"mean": mean_of, "max": max_of}
"""Poolings over the subwords of a text."""


def summary_of(
    how: str, states: States, part: Int[Tensor, "example token"], text: int = FIRST
) -> Float[Tensor, "example d_model"]:
    """One state for many, by the name of a pooling; the last and the first one are those of all texts."""
    if how == "last":
        return last_of(states, part)
    if how == "first":
        return states[:, 0]
    return _OVER[how](states, part == text)


class _Classifying(nn.Module):
    """What heads that tell classes share: how many there are, and the loss.

    Args:
        classes: Number of classes.
        weights: What each weighs in the loss; None for all the same.
    """

    def __init__(self, classes: int, weights: Tensor | None) -> None:
        super().__init__()
        self.classes = classes
        self.weights: Tensor | None
        self.register_buffer("weights", weights, persistent=False)

    def loss(self, logits: Float[Tensor, "example klass"], batch: Batch) -> Float[Tensor, ""]:
        """Mean over the examples of the cross-entropy, each with the weight of its class."""
        losses = functional.cross_entropy(logits.float(), batch.target, self.weights, reduction="none")
        return losses.mean()


class ClassHead(_Classifying):
    """A class for a text, or for two.

    Args:
        width: Of the states.
        classes: Number of classes.
        pooling: ``"mean"``, ``"max"``, ``"last"`` or ``"first"``; the mean and the largest values of a pair
            are those of each text, side by side.
        pair: Whether there are two texts.
        dropout: Of what is read.
        weights: What each class weighs in the loss; None for all the same.
    """

    def __init__(
        self,
        width: int,
        classes: int,
        pooling: str,
        pair: bool,
        dropout: float,
        weights: Tensor | None = None,
    ) -> None:
        super().__init__(classes, weights)
        self._pooling, self._pair = pooling, pair and pooling in _OVER
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width * (2 if self._pair else 1), classes)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: States, batch: Batch) -> Float[Tensor, "example klass"]:
        """Logits of the classes."""
        texts = (FIRST, SECOND) if self._pair else (FIRST,)
        read = torch.cat([summary_of(self._pooling, states, batch.part, text) for text in texts], 1)
        return self.out(self.dropout(read))


class OwnHead(_Classifying):
    """Stands for the head that a classifier of transformers has itself: hands its logits on."""

    def forward(self, logits: Float[Tensor, "example klass"], batch: Batch) -> Float[Tensor, "example klass"]:
        """The logits."""
        return logits


class TokenHead(_Classifying):
    """A class for a text that is read subword by subword (Ilse, Tomczak and Welling 2018).

    With states h of the text's subwords, ``max`` gives each ``tanh(h V) W`` and takes of each class the
    largest over the subwords; ``attention`` takes the mean of the states with weights
    ``softmax(tanh(h V) a)``, and the class from that. Either says which subword it rests on most.

    Args:
        width: Of the states.
        classes: Number of classes.
        how: ``"max"`` or ``"attention"``.
        dropout: Of what is read.
        weights: What each class weighs in the loss; None for all the same.
    """

    def __init__(
        self, width: int, classes: int, how: str, dropout: float, weights: Tensor | None = None
    ) -> None:
        super().__init__(classes, weights)
        self._max = how == MAX
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, classes)
        self.attention = None if self._max else nn.Linear(width, 1, bias=False)
        for layer in (self.hidden, self.attention):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: States, batch: Batch) -> Float[Tensor, "example klass"]:
        """Logits of the classes."""
        if self.attention is None:
            return self._each(states, batch).amax(1)
        weights = self._weights(states, batch)[..., None]
        return self.out(self.dropout((states * weights).sum(1)))

    def places(
        self, states: States, batch: Batch, logits: Float[Tensor, "example klass"]
    ) -> Int[Tensor, " example"]:
        """The subword that the likeliest class rests on most, counted from 0."""
        if self.attention is not None:
            return self._weights(states, batch).argmax(1)
        each, rows = self._each(states, batch), torch.arange(len(states), device=states.device)
        return each[rows, :, logits.argmax(1)].argmax(1)

    def _each(self, states: States, batch: Batch) -> Float[Tensor, "example token klass"]:
        found = self.out(torch.tanh(self.hidden(self.dropout(states))))
        return found.float().masked_fill(~_read(batch)[..., None], -math.inf)

    def _weights(self, states: States, batch: Batch) -> Float[Tensor, "example token"]:
        assert self.attention is not None
        found = self.attention(torch.tanh(self.hidden(self.dropout(states))))[..., 0]
        return found.float().masked_fill(~_read(batch), -math.inf).softmax(1)


def _read(batch: Batch) -> Tensor:
    """The subwords of the text; of a text without any, what stands around it."""
    text = batch.part == FIRST
    return torch.where(text.any(1)[:, None], text, batch.part >= 0)


class PointerHead(nn.Module):
    """Two pointers: to the error, and to what is right in its place.

    Args:
        width: Of the states.
        summary: Which state sums the text up: ``"first"``, ``"last"``, ``"mean"`` or ``"max"``.
        recipe: Its quirks, and the width that inputs are padded to as published.
    """

    def __init__(self, width: int, summary: str, recipe: FineTuning) -> None:
        super().__init__()
        self._summary, self._recipe = summary, recipe
        self.dropout = nn.Dropout(recipe.dropout)
        self.states = nn.Linear(width, width, bias=False)
        self.whole = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, 2, bias=False)
        for layer in (self.states, self.whole, self.out):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, states: States, batch: Batch) -> Float[Tensor, "example pointer place"]:
        """Logarithms of the probability of each place, for the error and for the repair."""
        whole = summary_of(self._summary, states, batch.part)
        places = self.dropout(torch.cat([whole[:, None], states], 1))
        logits = self.out(torch.tanh(self.states(places) + self.whole(whole)[:, None])).mT.float()
        if self._recipe.masked_zero:
            logits = logits * batch.candidates[:, None]
            # As published every input is as long as the limit, and each of its places takes part.
            missing = max(0, self._recipe.length + 1 - logits.shape[-1])
            return functional.pad(logits, (0, missing)).log_softmax(-1)
        return logits.masked_fill(~batch.candidates[:, None], -math.inf).log_softmax(-1)

    def loss(self, logs: Float[Tensor, "example pointer place"], batch: Batch) -> Float[Tensor, ""]:
        """Mean over the examples of the error's loss and the repair's; what is beyond the limit has none."""
        rows = torch.arange(len(logs), device=logs.device)
        if self._recipe.sum_of_logs:
            # Cut off before the logarithm, as in the published code.
            logs = logs.clamp(min=math.log(LEAST))
        held = batch.location >= 0
        located = -logs[rows, 0, batch.location.clamp(min=0)][held]
        repairs = functional.pad(batch.repairs, (0, logs.shape[-1] - batch.repairs.shape[-1]))
        wanted = repairs.any(1) & (batch.location > 0)
        chosen, repairs = logs[wanted, 1], repairs[wanted]
        if self._recipe.sum_of_logs:
            repaired = -(chosen * repairs).sum(1)
        else:
            repaired = -chosen.masked_fill(~repairs, -math.inf).logsumexp(-1)
        return (located.sum() + repaired.sum()) / len(logs)


Head = ClassHead | OwnHead | TokenHead | PointerHead
"""What stands on a body."""
