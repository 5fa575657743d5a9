"""CuBERT's baselines as arms: which there are, what a user may choose about them, and their training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from sonde.lenses._lens import LensSettings, Training
from sonde.lenses.finetune.data import POINTER_TASKS
from sonde.lenses.finetune.unlabelled import further_texts
from sonde.lenses.finetune.values import count, counts, known, number, rates
from sonde.training.baselines.recipe import LSTM_POINTER, MODEL, SUBWORDS, TRANSFORMER, WORD2VEC, Sizes
from sonde.training.finetuning.data import Data
from sonde.training.finetuning.recipe import FineTuning

if TYPE_CHECKING:
    from sonde.training.baselines.vectors import Unlabelled
    from sonde.training.finetuning.tune import Tuned

CORPUS = "word2vec_corpus"

_DEFAULT = Sizes()
_RATE = 1e-3
"""What the search of CuBERT's paper always chose for BiLSTMs."""

_SHARED: Mapping[str, str] = {
    "baseline_rates": f"peak learning rates of the baselines, as rates is the model's (default {_RATE:g})",
    "baseline_epochs": "most passes of the baselines, as epochs is the model's (default as epochs)",
    "subwords": f"what baselines read, one of {', '.join(SUBWORDS)}: the model's subwords, or a vocabulary "
    f"of program tokens learned on the training texts (default {_DEFAULT.subwords})",
    "vocabulary": f"size of that vocabulary (default {_DEFAULT.vocabulary})",
}
_RECURRENT: Mapping[str, str] = {
    "embedding": f"width of token vectors below an LSTM (default {_DEFAULT.embedding})",
    "lstm_layers": f"layers of an LSTM (default {_DEFAULT.lstm_layers})",
    "lstm_width": f"its hidden units in each direction (default {_DEFAULT.lstm_width})",
    "lstm_dropout": f"dropout between its layers (default {_DEFAULT.lstm_dropout:g})",
}
_TRANSFORMER: Mapping[str, str] = {
    "transformer_layers": f"layers of the arm transformer (default {_DEFAULT.transformer_layers})",
    "transformer_width": f"its hidden units, in heads of 64 (default {_DEFAULT.transformer_width})",
}
_WORD2VEC: Mapping[str, str] = {
    "word2vec_epochs": f"passes of Word2Vec over its texts (default {_DEFAULT.word2vec_epochs})",
    "word2vec_window": f"subwords to each side that it looks at (default {_DEFAULT.word2vec_window})",
    "word2vec_negative": "subwords drawn beside each that occurs, with negative sampling "
    f"(default {_DEFAULT.word2vec_negative})",
    CORPUS: "a corpus whose functions Word2Vec learns on beside the training texts; what shares a cluster "
    "with validation or test, or nearly repeats some of it, is left out (default none)",
}
BASELINE_OPTIONS: Mapping[str, str] = {**_SHARED, **_RECURRENT, **_TRANSFORMER, **_WORD2VEC}
"""Options that baselines alone know."""

_NOT_THEIRS = frozenset({"rates", "frozen"})
"""Options of fine-tuning that baselines do not know."""


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """The options of the baselines, with their defaults; see `BASELINE_OPTIONS`."""

    sizes: Sizes
    recipe: FineTuning
    corpus: str


def applies(name: str, task: str) -> str:
    """Why an arm does not apply to a task; empty where it does."""
    if name == LSTM_POINTER and task not in POINTER_TASKS:
        return f"{LSTM_POINTER} points at places, and the task asks for a class; arm bilstm takes it"
    return ""


def options_of(name: str, of_models: frozenset[str]) -> frozenset[str]:
    """The options that a baseline's training depends on.

    Args:
        name: The baseline.
        of_models: Those that the training of a model depends on.
    """
    own = _TRANSFORMER if name == TRANSFORMER else _RECURRENT
    more = _WORD2VEC if name in WORD2VEC else ()
    return (of_models - _NOT_THEIRS) | {*_SHARED, *own, *more}


def read_baselines(settings: LensSettings, recipe: FineTuning) -> BaselineOptions:
    """The baselines' options of a lens's settings.

    Args:
        settings: What the user chose.
        recipe: How a model is fine-tuned; a baseline is trained so too, but for its rates and epochs.

    Raises:
        UsageError: A value that cannot be used.
        UnknownNameError: Subwords of something that does not exist.
    """
    subwords = str(settings.options.get("subwords", _DEFAULT.subwords))
    known("subwords", subwords, SUBWORDS)
    sizes = Sizes(
        subwords=subwords,
        lstm_dropout=number(settings, "lstm_dropout", _DEFAULT.lstm_dropout, most=0.9),
        **{
            name: count(settings, name, getattr(_DEFAULT, name))
            for name in (
                *("vocabulary", "embedding", "lstm_layers", "lstm_width", "transformer_layers"),
                *("transformer_width", "word2vec_epochs", "word2vec_window", "word2vec_negative"),
            )
        },
    )
    recipe = dataclasses.replace(recipe, rates=rates(settings, "baseline_rates", (_RATE,)))
    if "baseline_epochs" in settings.options:
        epochs = counts(settings, "baseline_epochs", recipe.epochs)
        recipe = dataclasses.replace(recipe, epochs=epochs[0], other_epochs=epochs[1:])
    return BaselineOptions(sizes, recipe, str(settings.options.get(CORPUS, "")))


def needs_model(options: BaselineOptions) -> bool:
    """Whether a baseline reads the subwords of the model under study."""
    return options.sizes.subwords == MODEL


def train_baseline(
    name: str,
    seed: int,
    options: BaselineOptions,
    data: Data,
    splits: Mapping[str, pl.DataFrame],
    training: Training,
) -> Tuned:
    """Train a baseline on the examples that the model is fine-tuned on.

    Raises:
        SondeError: The data cannot be trained on, or a library is not installed.
    """
    from sonde.training.baselines.tune import tune_baseline

    def further() -> Unlabelled:
        return further_texts(options.corpus, training.language, splits)

    return tune_baseline(
        name,
        training.model,
        data,
        dataclasses.replace(options.recipe, seed=seed),
        options.sizes,
        training.folder,
        unlabelled=further if options.corpus else None,
    )
