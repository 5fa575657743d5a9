"""CuBERT's baselines as methods: which there are, what a user may choose, what Word2Vec learns on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated

import polars as pl
from annotated_types import Ge, Gt, Le, Lt

from sonde.base.fingerprint import unit_hash
from sonde.base.options import Options, option
from sonde.base.values import Count, OneOf
from sonde.corpora import Intake, NearDuplicateIndex, duplicate_tokens, read_items
from sonde.lenses.finetune.data import POINTER_TASKS
from sonde.training.baselines.recipe import LSTM_POINTER, SUBWORDS, TRANSFORMER, WORD2VEC, Sizes
from sonde.training.finetuning.recipe import FineTuning

if TYPE_CHECKING:
    from sonde.training.baselines.vectors import Unlabelled

Rate = Annotated[float, Gt(0), Lt(1)]
Dropout = Annotated[float, Ge(0), Le(0.9)]

_DEFAULT = Sizes()
_SHARED = frozenset({"baseline_rates", "baseline_epochs", "subwords", "vocabulary"})
_RECURRENT = frozenset({"embedding", "lstm_layers", "lstm_width", "lstm_dropout"})
_TRANSFORMER = frozenset({"transformer_layers", "transformer_width"})
_WORD2VEC = frozenset({"word2vec_epochs", "word2vec_window", "word2vec_negative", "word2vec_corpus"})

_MOST = 40_000
"""Further functions that are read; by hash, as many as data sets are drawn from at most."""

_NOT_THEIRS = frozenset({"rates", "frozen"})
"""Options of fine-tuning that baselines do not know."""


scoring_option = partial(option, scoring=True)
"""Declares an option that changes scores alone: what is trained has its own key."""


class BaselineOptions(Options):
    """The options of the baselines."""

    lens = "finetune"

    baseline_rates: tuple[Rate, ...] = scoring_option(
        # What the search of CuBERT's paper always chose for BiLSTMs.
        (1e-3,),
        "peak learning rates of the baselines, as rates is the model's",
    )
    baseline_epochs: tuple[Count, ...] = scoring_option(
        (), "most passes of the baselines, as epochs is the model's", unset="as epochs"
    )
    subwords: Annotated[str, OneOf(SUBWORDS)] = scoring_option(
        _DEFAULT.subwords,
        "what baselines read: the model's subwords, or a vocabulary of program tokens learned on the "
        "training texts",
    )
    vocabulary: Count = scoring_option(_DEFAULT.vocabulary, "size of that vocabulary")
    embedding: Count = scoring_option(_DEFAULT.embedding, "width of token vectors below an LSTM")
    lstm_layers: Count = scoring_option(_DEFAULT.lstm_layers, "layers of an LSTM")
    lstm_width: Count = scoring_option(_DEFAULT.lstm_width, "its hidden units in each direction")
    lstm_dropout: Dropout = scoring_option(_DEFAULT.lstm_dropout, "dropout between its layers")
    transformer_layers: Count = scoring_option(
        _DEFAULT.transformer_layers, "layers of the transformer that is trained from scratch"
    )
    transformer_width: Count = scoring_option(_DEFAULT.transformer_width, "its hidden units, in heads of 64")
    word2vec_epochs: Count = scoring_option(_DEFAULT.word2vec_epochs, "passes of Word2Vec over its texts")
    word2vec_window: Count = scoring_option(
        _DEFAULT.word2vec_window, "subwords to each side that it looks at"
    )
    word2vec_negative: Count = scoring_option(
        _DEFAULT.word2vec_negative, "negative samples for each subword that occurs"
    )
    word2vec_corpus: str = scoring_option(
        "",
        "a corpus whose functions Word2Vec learns on beside the training texts; what shares a cluster with "
        "validation or test, or nearly repeats some of it, is left out",
        corpus=True,
    )

    @property
    def sizes(self) -> Sizes:
        """The sizes of the baselines."""
        return Sizes(**self.model_dump(include={one.name for one in dataclasses.fields(Sizes)}))

    def baseline_recipe(self, recipe: FineTuning) -> FineTuning:
        """How a baseline is trained: as a model is, but for its rates and epochs."""
        recipe = dataclasses.replace(recipe, rates=self.baseline_rates)
        if not self.baseline_epochs:
            return recipe
        first, *others = self.baseline_epochs
        return dataclasses.replace(recipe, epochs=first, other_epochs=tuple(others))


def applies(name: str, task: str) -> str:
    """Why a method does not apply to a task; empty where it does."""
    if name == LSTM_POINTER and task not in POINTER_TASKS:
        return f"{LSTM_POINTER} points at places, and the task asks for a class; bilstm takes it"
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


def further_texts(corpus: str, language: str, splits: Mapping[str, pl.DataFrame]) -> Unlabelled:
    """The functions of a corpus without those of validation and test, and without what is like them.

    Args:
        corpus: The corpus as named on the command line.
        language: Public name of the language.
        splits: The examples; ``valid`` and ``test`` are kept away from.

    Raises:
        SondeError: The corpus cannot be read.
    """
    from sonde.training.baselines.vectors import Unlabelled

    apart = pl.concat([splits["valid"], splits["test"]])
    clusters = set(apart["cluster"].to_list())
    index = NearDuplicateIndex()
    for name, text in apart.select("example_id", "text").iter_rows():
        index.add(name, duplicate_tokens(text))
    every = {item.item_id: item for item in read_items(corpus, Intake(), languages=(language,))}
    read = sorted(every.values(), key=lambda item: (unit_hash("further", item.item_id), item.item_id))[:_MOST]
    texts: list[str] = []
    near = shared = 0
    for item in read:
        if item.cluster in clusters:
            shared += 1
        elif index.find(duplicate_tokens(item.text)) is not None:
            near += 1
        else:
            texts.append(item.text)
    about = {"corpus": corpus, "clusters of valid or test": shared, "near valid or test": near}
    return Unlabelled(texts, about)
