"""Recipes of fine-tuning and of CuBERT's baselines: rates, epochs, heads and sizes; plain data.

What Kanade et al. 2020, section 4.1, searched or fixed for the baselines: token vectors of 1,024 (Word2Vec)
or of 512 and 1,024 (LSTM + pointer); BiLSTMs of 1 to 3 layers with 128 to 512 hidden units, dropout of 0.1 or
0.5; Transformers of 1 to 6 layers with 128 to 512 hidden units; rates from 1e-5 to 1e-3 (LSTM + pointer: from
1e-3 to 1e-1), and 100 epochs. The sizes here are small ones among them, as thousands of examples call for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

DROP, KEEP, WINDOW = "drop", "keep", "window"


CUTS = (DROP, KEEP, WINDOW)
"""What becomes of an example whose label rests on characters beyond the limit."""


POOLED, MAX, ATTENTION = "pooled", "max", "attention"


HEADS = (POOLED, MAX, ATTENTION)
"""What a class is read from: states that were pooled, or each subword by itself."""


EQUAL, BALANCED = "equal", "balanced"


WEIGHTS = (EQUAL, BALANCED)
"""What an example weighs in the loss: as much as any other, or its class as much as any other."""


FLOAT32, BFLOAT16 = "float32", "bfloat16"


WEIGHT_DTYPES = (FLOAT32, BFLOAT16)
"""What the weights of a body are held in while it is trained."""


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


SIZE_OPTIONS = (
    *("subwords", "vocabulary", "embedding", "lstm_layers", "lstm_width", "lstm_dropout"),
    *("transformer_layers", "transformer_width", "word2vec_epochs", "word2vec_window", "word2vec_negative"),
)
"""What a recipe says of the sizes of baselines."""


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Values chosen on validation: the peak rate, the examples per update, the largest number of epochs."""

    rate: float
    batch: int
    epochs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneRecipe:
    """Recipe of fine-tuning.

    Attributes:
        length: Most subwords of an input, those that the model puts around a text included.
        epochs: Most passes over the training examples.
        batch: Examples an update.
        rates: Peak learning rates; each is tried, and the best on validation is kept.
        other_batches: Further values of ``batch`` that are tried with each rate.
        other_epochs: Further values of ``epochs`` that are tried with each of those.
        warmup: Share of the updates in which the rate rises from 0; it falls to 0 in a line after them.
        decay: Decoupled weight decay of matrices; vectors have none.
        clip: Largest norm of the gradient.
        dropout: Of what the head reads.
        patience: Epochs without a better validation after which training ends.
        checkpoint: Updates between two checkpoints; one is written after every epoch as well.
        pooling: ``"mean"``, ``"max"``, ``"last"``, ``"first"``, or ``"auto"``: the last subword of a decoder,
            the mean over the text of others.
        frozen: Whether only the head is trained.
        masked_zero: Positions that are no candidates have a logit of 0 instead of none.
        sum_of_logs: The loss of a repair is the sum over its places of the logarithm of each, instead of the
            logarithm of their sum.
        precision: Of products in training: ``"auto"``, ``"float32"`` or ``"bfloat16"``; answers are always
            given in single precision.
        cut: What becomes of an example whose label rests on characters beyond the limit: it is left out, with
            the other example of its function (``"drop"``); it is read to the limit like others
            (``"keep"``); or both are read around the place where they differ (``"window"``).
        head: One of `HEADS`. A class of a text is read from pooled states, or from its subwords one by one:
            the subword that says most (``"max"``), or a mean weighted by attention (``"attention"``). Pairs
            of texts are always pooled.
        class_weights: One of `WEIGHTS`.
        pointer_epochs: Passes in which the body learns to point at the place that a label rests on, before it
            learns the labels.
        lora_rank: Rank of the matrices that are trained beside the frozen ones of the body (LoRA); 0 trains
            the body itself.
        lora_alpha: What LoRA's product is multiplied by, times the rank.
        lora_dropout: Of what LoRA's matrices read.
        weights: One of `WEIGHT_DTYPES`: what the body is held in; half precision only where it does not move.
        at_once: Examples read at once, whose gradients add up to those of a batch; 0 reads all of it.
        recompute: Whether the states between layers are computed again for the gradients, and not kept.
        compile: Whether torch.compile fuses the body's operations first: half a minute, and a C++ compiler
            needed on a processor. A training that goes on after a kill is then the same up to rounding.
        processes: Processes that share each batch, one a device where there are several.
        fsdp: Whether weights, gradients and what the optimiser keeps are shared out among the processes.
        seed: Of the order of examples, the head's first weights and dropout.
        subwords: One of `SUBWORDS`: what a baseline reads.
        vocabulary: Subwords of the program vocabulary.
        embedding: Width of the token vectors of a baseline.
        lstm_layers: Layers of an LSTM.
        lstm_width: Its hidden units, in each direction.
        lstm_dropout: Of what one of its layers gives the next; the head has ``dropout``.
        transformer_layers: Layers of the Transformer.
        transformer_width: Its hidden units; heads have 64 each, and its inner width is four times as much.
        word2vec_epochs: Passes of Word2Vec over its texts.
        word2vec_window: Most subwords between a subword and what it is learned from.
        word2vec_negative: Subwords drawn beside each that occurs.
    """

    length: int = 128
    epochs: int = 3
    batch: int = 32
    rates: tuple[float, ...] = (2e-4,)
    other_batches: tuple[int, ...] = ()
    other_epochs: tuple[int, ...] = ()
    warmup: float = 0.1
    decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.1
    patience: int = 2
    checkpoint: int = 200
    pooling: str = "auto"
    frozen: bool = False
    masked_zero: bool = False
    sum_of_logs: bool = False
    precision: str = "auto"
    cut: str = KEEP
    head: str = POOLED
    class_weights: str = EQUAL
    pointer_epochs: int = 0
    lora_rank: int = 0
    lora_alpha: int = 16
    lora_dropout: float = 0.0
    weights: str = FLOAT32
    at_once: int = 0
    recompute: bool = False
    compile: bool = False
    processes: int = 1
    fsdp: bool = False
    seed: int = 0
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

    def with_grid(self, rates: tuple[float, ...], epochs: tuple[int, ...]) -> FinetuneRecipe:
        """Return the recipe with other rates and epochs to choose from; its own where there are none."""
        first, *other_epochs = epochs or (self.epochs, *self.other_epochs)
        return dataclasses.replace(
            self, rates=rates or self.rates, epochs=first, other_epochs=tuple(other_epochs)
        )

    @property
    def settings(self) -> tuple[Hyperparameters, ...]:
        """Every combination of hyperparameters to try."""
        return tuple(
            Hyperparameters(rate, batch, epochs)
            for epochs in (self.epochs, *self.other_epochs)
            for batch in (self.batch, *self.other_batches)
            for rate in self.rates
        )
