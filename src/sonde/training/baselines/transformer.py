"""A Transformer from scratch: BERT's own, as in CuBERT's paper, at a size of one's choice."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertModel

from sonde.training.baselines.recipe import Sizes
from sonde.training.finetuning.batches import Batch
from sonde.training.finetuning.heads import States
from sonde.training.finetuning.model import segments

_HEAD = 64


def _heads(width: int) -> int:
    """As many heads as have `_HEAD` units each, or fewer that share all units evenly."""
    return next(heads for heads in range(max(1, width // _HEAD), 0, -1) if width % heads == 0)


class ScratchTransformer(nn.Module):
    """BERT with weights drawn anew.

    Args:
        vocabulary: Number of subwords.
        length: Most subwords of an input.
        sizes: Layers and hidden units.

    Attributes:
        width: Of the states.
    """

    def __init__(self, vocabulary: int, length: int, sizes: Sizes) -> None:
        super().__init__()
        self.width = sizes.transformer_width
        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=self.width,
            num_hidden_layers=sizes.transformer_layers,
            num_attention_heads=_heads(self.width),
            intermediate_size=4 * self.width,
            max_position_embeddings=length,
            # Where the end of a text pads as well, its vector is to be learned.
            pad_token_id=None,
        )
        self.inner = BertModel(config, add_pooling_layer=False)

    def forward(self, batch: Batch) -> States:
        """The last layer's states."""
        return self.inner(
            input_ids=batch.ids,
            attention_mask=(batch.part >= 0).long(),
            token_type_ids=segments(batch),
        ).last_hidden_state

    def save_pretrained(self, folder: Path) -> None:
        """Write it as a masked model, so that every lens can read its states; its head is not trained."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            whole = BertForMaskedLM(self.inner.config)
        whole.bert.load_state_dict(self.inner.state_dict())
        whole.save_pretrained(folder)
