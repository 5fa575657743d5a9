"""LSTMs over token vectors: in both directions for CuBERT's BiLSTM, in one for the LSTM + pointer.

The table of token vectors that they begin with is trained like everything else.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sonde.training.baselines.recipe import Sizes
from sonde.training.baselines.word2vec import Vectors
from sonde.training.finetuning.batches import Batch
from sonde.training.finetuning.heads import States


def fresh_embedding(vocabulary: int, width: int) -> nn.Embedding:
    """Vectors drawn as Glorot and Bengio 2010 have it, which is what CuBERT's paper names."""
    embedding = nn.Embedding(vocabulary, width)
    nn.init.xavier_uniform_(embedding.weight)
    return embedding


def learned_embedding(vocabulary: int, vectors: Vectors) -> nn.Embedding:
    """Learned vectors; a subword that never occurred has one of the size that Word2Vec draws at first."""
    width = vectors.values.shape[1]
    embedding = nn.Embedding(vocabulary, width)
    nn.init.uniform_(embedding.weight, -1 / width, 1 / width)
    with torch.no_grad():
        embedding.weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.values)
    return embedding


class Recurrent(nn.Module):
    """Token vectors and LSTM layers on them.

    Args:
        embedding: The table of token vectors.
        sizes: Layers, hidden units and dropout.
        both: Whether each layer reads in both directions.

    Attributes:
        width: Of the states.
    """

    def __init__(self, embedding: nn.Embedding, sizes: Sizes, *, both: bool) -> None:
        super().__init__()
        self.embedding = embedding
        self.lstm = nn.LSTM(
            embedding.embedding_dim,
            sizes.lstm_width,
            sizes.lstm_layers,
            batch_first=True,
            dropout=sizes.lstm_dropout if sizes.lstm_layers > 1 else 0.0,
            bidirectional=both,
        )
        self.width = sizes.lstm_width * (2 if both else 1)

    def forward(self, batch: Batch) -> States:
        """The last layer's states; 0 on padding, which no direction reads."""
        lengths = (batch.part >= 0).sum(1).cpu()
        # Step after step in half precision, errors would add up; there is little to be won in such products.
        with torch.autocast(batch.ids.device.type, enabled=False):
            packed = pack_padded_sequence(
                self.embedding(batch.ids), lengths, batch_first=True, enforce_sorted=False
            )
            states, _ = pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=batch.ids.shape[1]
            )
        return states
