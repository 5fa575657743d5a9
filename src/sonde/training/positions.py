"""Learned positions, where a model reads another length than it was trained at.

A model with a table of positions has learned as many as its inputs were long. Those behind them begin as
copies of the learned ones, block after block, as Beltagy et al. (2020, section 5) lengthened RoBERTa: near
neighbours then stand to each other as they did, only the edges between two blocks are new.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

_NAMES = ("position", "wpe")


def position_tables(model: PreTrainedModel) -> list[nn.Embedding]:
    """The tables of a model that are looked up by position; none where positions are computed."""
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and any(word in name for word in _NAMES)
    ]


def tile(table: Float[Tensor, "rows d_model"], learned: int, wanted: int) -> Float[Tensor, "more d_model"]:
    """A table of so many positions, those behind the learned ones copies of them.

    Args:
        table: A learned table; rows before its positions (some architectures keep them for the padding) stay.
        learned: Its positions.
        wanted: Positions of the new table, fewer or more.
    """
    lead = len(table) - learned
    places = torch.arange(wanted) % learned
    return torch.cat([table[:lead], table[lead + places]])


def fill_positions(model: PreTrainedModel, context: int, trained: int) -> None:
    """Fill the positions that training never reached, in place.

    Args:
        model: A trained model.
        context: Subwords that it can read.
        trained: Those that its inputs had.
    """
    if trained >= context:
        return
    with torch.no_grad():
        for table in position_tables(model):
            lead = table.num_embeddings - context
            table.weight.copy_(tile(table.weight[: lead + trained], trained, context))
