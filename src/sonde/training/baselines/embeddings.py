"""The table of token vectors that a recurrent baseline begins with; it is trained like everything else."""

from __future__ import annotations

import torch
from torch import nn

from sonde.training.baselines.word2vec import Vectors


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
