"""Which baselines there are, and their sizes; plain data.

What Kanade et al. 2020, section 4.1, searched or fixed: token vectors of 1,024 (Word2Vec) or of 512 and
1,024 (LSTM + pointer); BiLSTMs of 1 to 3 layers with 128 to 512 hidden units, dropout of 0.1 or 0.5;
Transformers of 1 to 6 layers with 128 to 512 hidden units; rates from 1e-5 to 1e-3 (LSTM + pointer: from 1e-3
to 1e-1), and 100 epochs. The sizes here are small ones among them, as thousands of examples call for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORD2VEC: Mapping[str, tuple[bool, bool]] = {
    "word2vec_cbow_ns": (False, False),
    "word2vec_cbow_hs": (False, True),
    "word2vec_skipgram_ns": (True, False),
    "word2vec_skipgram_hs": (True, True),
}
"""Vectors into a BiLSTM: whether they are those of skip-grams, and whether of hierarchical softmax."""

BILSTM, TRANSFORMER, LSTM_POINTER = "bilstm", "transformer", "lstm_pointer"
BASELINES = (*WORD2VEC, BILSTM, TRANSFORMER, LSTM_POINTER)

MODEL, PROGRAM = "model", "program"
SUBWORDS = (MODEL, PROGRAM)
"""Whose subwords are read: those of the model under study, or a program vocabulary of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSizes:
    """Sizes of the baselines.

    Attributes:
        subwords: One of `SUBWORDS`.
        vocabulary: Subwords of the program vocabulary.
        embedding: Width of token vectors.
        lstm_layers: Layers of an LSTM.
        lstm_width: Its hidden units, in each direction.
        lstm_dropout: Of what one of its layers gives the next; the head has the recipe's.
        transformer_layers: Layers of the Transformer.
        transformer_width: Its hidden units; heads have 64 each, and its inner width is four times as much.
        word2vec_epochs: Passes of Word2Vec over its texts.
        word2vec_window: Most subwords between a subword and what it is learned from.
        word2vec_negative: Subwords drawn beside each that occurs.
    """

    subwords: str = MODEL
    vocabulary: int = 4096
    embedding: int = 128
    lstm_layers: int = 2
    lstm_width: int = 128
    lstm_dropout: float = 0.1
    transformer_layers: int = 2
    transformer_width: int = 128
    word2vec_epochs: int = 10
    word2vec_window: int = 5
    word2vec_negative: int = 5
