"""Recipes of fine-tuning and of CuBERT's baselines: rates, epochs, heads and sizes.

What users set is declared here once, as options that the lens takes over.

What Kanade et al. 2020, section 4.1, searched or fixed for the baselines: token vectors of 1,024 (Word2Vec)
or of 512 and 1,024 (LSTM + pointer); BiLSTMs of 1 to 3 layers with 128 to 512 hidden units, dropout of 0.1 or
0.5; Transformers of 1 to 6 layers with 128 to 512 hidden units; rates from 1e-5 to 1e-3 (LSTM + pointer: from
1e-3 to 1e-1), and 100 epochs. The sizes here are small ones among them, as thousands of examples call for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from sonde.base.options import Count, NonNegative, OneOf, Share, option
from sonde.training.precision import PRECISIONS

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


POOLINGS = ("auto", "mean", "max", "last", "first")


Rate = Annotated[float, Gt(0), Lt(1)]


Dropout = Annotated[float, Ge(0), Le(0.9)]


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
    """Recipe of fine-tuning; the fields that are options are described where they are declared.

    The rate rises from 0 in the warm-up and falls to 0 in a line after it. Pairs of texts are always pooled.
    Answers are always given in single precision. A training that resumes after a kill is the same, up to
    rounding if it is compiled. Heads of the Transformer have 64 hidden units each, and its inner width is
    four times as much.

    Attributes:
        epochs: Most passes over the training examples.
        batch: Examples an update.
        other_batches: Further values of ``batch`` that are tried with each rate.
        other_epochs: Further values of ``epochs`` that are tried with each of those.
        clip: Largest norm of the gradient.
        masked_zero: Positions that are no candidates have a logit of 0 instead of none.
        sum_of_logs: The loss of a repair is the sum over its places of the logarithm of each, instead of the
            logarithm of their sum.
        cut: What becomes of an example whose label rests on characters beyond the limit: it is left out, with
            the other example of its function (``"drop"``); it is read to the limit like others
            (``"keep"``); or both are read around the place where they differ (``"window"``).
        seed: Of the order of examples, the head's first weights and dropout.
    """

    length: Count = option(128, "most subwords per input; the rest is cut off", scoring=True)
    epochs: int = 3
    batch: int = 32
    rates: tuple[Rate, ...] = option(
        (2e-4,), "peak learning rates to choose from on validation", scoring=True
    )
    other_batches: tuple[int, ...] = ()
    other_epochs: tuple[int, ...] = ()
    warmup: Share = option(0.1, "share of the updates with a rising rate (warm-up)", scoring=True)
    decay: Annotated[float, Ge(0)] = option(0.01, "weight decay", scoring=True)
    clip: float = 1.0
    dropout: Dropout = option(0.1, "dropout before the head", scoring=True)
    patience: Count = option(2, "epochs without a better validation before training stops", scoring=True)
    checkpoint: Count = option(200, "updates between checkpoints; each epoch saves one too", scoring=True)
    pooling: Annotated[str, OneOf(POOLINGS)] = option(
        "auto",
        "how states become one for a head; auto is the last subword of a decoder, the mean of others",
        scoring=True,
    )
    frozen: bool = option(False, "train only the head", scoring=True)
    masked_zero: bool = False
    sum_of_logs: bool = False
    precision: Annotated[str, OneOf(PRECISIONS)] = option(
        "auto",
        "precision of products in training; auto is bfloat16 if the device computes in it natively, else "
        "float32",
        scoring=True,
    )
    cut: str = KEEP
    head: Annotated[str, OneOf(HEADS)] = option(
        POOLED,
        "how the class of a text is read: pooled states (with pooling = auto the classifier that "
        "transformers has for the architecture), the subword with the highest score, or states "
        "weighted by attention",
        scoring=True,
    )
    class_weights: Annotated[str, OneOf(WEIGHTS)] = option(
        EQUAL, "equal weight in the loss: each example, or each class", scoring=True
    )
    pointer_epochs: NonNegative = option(
        0,
        "epochs in which the body learns to point at the bug before it learns to detect it",
        scoring=True,
    )
    lora_rank: NonNegative = option(0, "rank of LoRA; 0 trains the body itself", scoring=True)
    lora_alpha: Count = option(16, "factor of LoRA, times its rank", scoring=True)
    lora_dropout: Dropout = option(0.0, "dropout of the input of LoRA's matrices", scoring=True)
    weights: Annotated[str, OneOf(WEIGHT_DTYPES)] = option(
        FLOAT32, "precision of weights that are not trained; bfloat16 takes half of the memory", scoring=True
    )
    at_once: NonNegative = option(
        0, "examples per step of gradient accumulation; 0 for the whole batch", scoring=True
    )
    recompute: bool = option(
        False, "recompute states for the gradients instead of keeping them", scoring=True
    )
    compile: bool = option(
        False,
        "compile the model with torch.compile first, which takes half a minute and makes the "
        "training itself faster; needs a C++ compiler on CPU",
        scoring=True,
    )
    processes: Count = option(
        1,
        "processes that share each batch, each on its own device if there are several",
        scoring=True,
    )
    fsdp: bool = option(
        False,
        "split weights, gradients and the optimiser's state over the processes (FSDP), for a model that is "
        "trained whole and does not fit into one device",
        scoring=True,
    )
    seed: int = 0
    subwords: Annotated[str, OneOf(SUBWORDS)] = option(
        MODEL,
        "input of baselines: the model's subwords, or a vocabulary of program tokens learned on "
        "the training texts",
        scoring=True,
    )
    vocabulary: Count = option(4096, "size of that vocabulary", scoring=True)
    embedding: Count = option(128, "width of token vectors below an LSTM", scoring=True)
    lstm_layers: Count = option(2, "layers of an LSTM", scoring=True)
    lstm_width: Count = option(128, "its hidden units in each direction", scoring=True)
    lstm_dropout: Dropout = option(0.1, "dropout between its layers", scoring=True)
    transformer_layers: Count = option(
        2, "layers of the transformer that is trained from scratch", scoring=True
    )
    transformer_width: Count = option(128, "its hidden units, in heads of 64", scoring=True)
    word2vec_epochs: Count = option(10, "passes of Word2Vec over its texts", scoring=True)
    word2vec_window: Count = option(5, "subwords to each side that it looks at", scoring=True)
    word2vec_negative: Count = option(5, "negative samples for each subword that occurs", scoring=True)

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
