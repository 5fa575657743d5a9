"""Options of the fine-tuning lens: those of its recipe, its own, and sweeps over them.

`further_texts` selects the functions that Word2Vec is trained on. In a sweep several options take several
values each; every combination (`SweepVariant`) is trained and evaluated separately.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, get_type_hints

import polars as pl
from pydantic import create_model

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.fingerprint import unit_hash
from sonde.base.options import (
    Count,
    NonNegative,
    OneOf,
    Option,
    Options,
    PositiveShare,
    option,
    parse_value,
)
from sonde.corpora import NearDuplicateIndex, SkipCounter, duplicate_tokens, read_items
from sonde.lenses.engine.lens import LensSettings, Method, QuirkHook, paper_options
from sonde.results.schema import Dimensions
from sonde.training.finetune.recipe import (
    BASELINES,
    CUTS,
    DROP,
    KEEP,
    LSTM_POINTER,
    MODEL,
    SIZE_OPTIONS,
    TRANSFORMER,
    WINDOW,
    WORD2VEC,
    FinetuneRecipe,
    Rate,
)

POINTER_TASKS = frozenset({"misuse_repair"})
"""Tasks that ask for two places rather than for a class."""


_DEFAULT = FinetuneRecipe()


_MAX_ITEMS = 40_000
"""Further functions that are read; by hash, as many as data sets are drawn from at most."""


def inapplicable_reason(name: str, task: str) -> str:
    """Return the reason why a method does not apply to a task; empty if it does."""
    if name == LSTM_POINTER and task not in POINTER_TASKS:
        return f"{LSTM_POINTER} points at places, but the task needs a class; use bilstm"
    return ""


def further_texts(
    corpus: str, language: str, splits: Mapping[str, pl.DataFrame]
) -> tuple[list[str], dict[str, Any]]:
    """Select functions of a corpus that are not in validation or test, nor similar to any there.

    Args:
        corpus: The corpus as named on the command line.
        language: Public name of the language.
        splits: The examples; ``valid`` and ``test`` are kept away from.

    Returns:
        The texts, and what was left out, for the record.

    Raises:
        SondeError: The corpus cannot be read.
    """
    held_out_examples = pl.concat([splits["valid"], splits["test"]])
    clusters = set(held_out_examples["cluster"].to_list())
    index = NearDuplicateIndex()
    for name, text in held_out_examples.select("example_id", "text").iter_rows():
        index.add(name, duplicate_tokens(text))
    items = {item.item_id: item for item in read_items(corpus, SkipCounter(), languages=(language,))}
    read = sorted(items.values(), key=lambda item: (unit_hash("further", item.item_id), item.item_id))[
        :_MAX_ITEMS
    ]
    texts: list[str] = []
    near_count = shared_count = 0
    for item in read:
        if item.cluster in clusters:
            shared_count += 1
        elif index.find(duplicate_tokens(item.text)) is not None:
            near_count += 1
        else:
            texts.append(item.text)
    metadata = {"corpus": corpus, "clusters of valid or test": shared_count, "near valid or test": near_count}
    return texts, metadata


SWEPT = frozenset(
    {
        *("fraction", "examples", "length", "epochs", "batch", "rates", "frozen", "pooling"),
        *("warmup", "decay"),
        *("dropout", "patience", "precision", "cut", "head", "class_weights", "pointer_epochs", "lora_rank"),
        *("scratch_rates", "scratch_epochs"),
        *("baseline_rates", "baseline_epochs", *SIZE_OPTIONS),
    }
) - {"word2vec_window", "word2vec_negative"}
"""Options that may take several values in one run."""


_ALL_EXAMPLES = ("examples", "all")
"""The value of an option that means no limit, as it is written in a sweep."""


_UNRELATED_OPTIONS = frozenset({"methods", "seeds", "sweep", "external_test"})
"""Options that say what is trained, not how."""


@dataclass(frozen=True, slots=True)
class SweepVariant:
    """One value for each swept option.

    Attributes:
        name: As ``fraction=0.33;epochs=2``; empty where nothing is swept.
        options: The values.
    """

    name: str
    options: Mapping[str, Option]

    @property
    def dimensions(self) -> Dimensions:
        """Dimensions of the scores; none if nothing is swept."""
        return tuple((name, value_text(name, value)) for name, value in self.options.items())

    def settings(self, base: LensSettings) -> LensSettings:
        """Return settings with these values."""
        return dataclasses.replace(base, options={**base.options, **self.options})


def variants(settings: LensSettings) -> tuple[SweepVariant, ...]:
    """List every combination of swept values, the first option's values outermost.

    The option ``sweep`` reads ``NAME: VALUE, VALUE; NAME: VALUE, VALUE``.

    Raises:
        UsageError: The sweep cannot be read, or names an option or a value twice.
        UnknownNameError: An option that cannot be swept.
    """
    text = settings.options.get("sweep", "")
    if not isinstance(text, str):
        raise _unreadable(text)
    swept: dict[str, list[Option]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, colon, values = (piece.strip() for piece in part.partition(":"))
        value_texts = [value.strip() for value in values.split(",")]
        if not colon or not all(value_texts):
            raise _unreadable(text)
        if name not in SWEPT:
            raise UnknownNameError("option to sweep in lens 'finetune'", name, SWEPT)
        if name in swept or len(set(value_texts)) < len(value_texts):
            raise UsageError(f"lens 'finetune': option sweep = {text!r} names an option or value twice")
        swept[name] = [0 if (name, value) == _ALL_EXAMPLES else parse_value(value) for value in value_texts]
    return tuple(
        SweepVariant(
            ";".join(f"{name}={value_text(name, value)}" for name, value in zip(swept, values, strict=True)),
            dict(zip(swept, values, strict=True)),
        )
        for values in itertools.product(*swept.values())
    )


def make_method(
    name: str, task: str, settings: LensSettings, variant: SweepVariant, *, number: int = 0
) -> Method:
    """Make a method with the options that its training depends on.

    Args:
        name: What is trained.
        task: On which task.
        settings: What the user chose.
        variant: The values of what is swept.
        number: Which of several seeds, from 0.
    """
    method_settings = variant.settings(settings)
    subwords = method_settings.options.get("subwords", _DEFAULT.subwords)
    names = get_method_options(name, settings)
    relevant_options = {option: value for option, value in method_settings.options.items() if option in names}
    parts = [part for part in variant.name.split(";") if part.partition("=")[0] in relevant_options]
    return Method(
        name=name,
        task=task,
        seed=settings.seed + number,
        needs_model=name != BAG and (name not in BASELINES or subwords == MODEL),
        variant=";".join(parts),
        options=tuple(sorted(relevant_options.items())),
    )


def is_subset(part: str, variant: str) -> bool:
    """Return whether every value of one variant is among those of another.

    >>> is_subset("fraction=0.5", "fraction=0.5;epochs=2")
    True
    >>> is_subset("", "epochs=2"), is_subset("epochs=2", "")
    (True, False)
    """
    return set(filter(None, part.split(";"))) <= set(variant.split(";"))


def _unreadable(value: object) -> UsageError:
    return UsageError(
        f"lens 'finetune': option sweep = {value!r}: expected NAME: VALUE, VALUE, for example "
        "fraction: 0.33, 0.66, 1"
    )


def value_text(name: str, value: Option) -> str:
    """Format a swept value of an option as scores and item tables name it."""
    if (name, value) == (_ALL_EXAMPLES[0], 0):
        return _ALL_EXAMPLES[1]
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


LENS = "finetune"


RECIPE: QuirkHook[FinetuneRecipe, []] = QuirkHook(LENS)
"""How a model is fine-tuned, where published code does so otherwise; docs/paper-modes.md says how."""


PRETRAINED, SCRATCH, BAG = "pretrained", "scratch", "bag_of_tokens"


DEFAULT_METHODS = (PRETRAINED, SCRATCH, BAG)


METHODS = (*DEFAULT_METHODS, *BASELINES)


BAG_OPTIONS = frozenset({"fraction", "valid", "examples"})
"""Options that what needs no model knows."""


scoring_option = partial(option, scoring=True)
"""Declares an option that changes only scores: what is trained has its own key."""


class LensOptions(Options):
    """The options of the lens, in addition to those of its recipe.

    What a method is trained with is its own, so all of them change only scores. Only a second test set
    changes what is drawn.
    """

    lens = "finetune"

    baseline_rates: tuple[Rate, ...] = scoring_option(
        # What the search of CuBERT's paper always chose for BiLSTMs.
        (1e-3,),
        "peak learning rates of the baselines (rates is for the model)",
    )
    baseline_epochs: tuple[Count, ...] = scoring_option(
        (), "maximum epochs of the baselines (epochs is for the model)", unset="as epochs"
    )
    word2vec_corpus: str = scoring_option(
        "",
        "corpus whose functions Word2Vec is also trained on; near-duplicates of validation or test "
        "functions, and functions that share a cluster with them, are left out",
        corpus=True,
    )
    cut: Annotated[str, OneOf(CUTS)] = scoring_option(
        DROP,
        f"examples whose label depends on text beyond the length: {DROP} leaves out both examples of the "
        f"function, {KEEP} (default in paper mode) reads both to the limit, {WINDOW} reads both around that "
        f"place",
    )
    epochs: tuple[Count, ...] = scoring_option(
        (_DEFAULT.epochs,), "maximum epochs, or several values to choose from on validation"
    )
    batch: tuple[Count, ...] = scoring_option(
        (_DEFAULT.batch,), "batch size in examples, or several values to choose from on validation"
    )
    scratch_rates: tuple[Rate, ...] = scoring_option(
        (), "peak learning rates of the model from scratch, which has its own grid", unset="as rates"
    )
    scratch_epochs: tuple[Count, ...] = scoring_option(
        (), "maximum epochs of the model from scratch, which needs more", unset="as epochs"
    )
    seeds: Count = scoring_option(1, "number of seeds; each method is trained once per seed")
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = scoring_option(
        DEFAULT_METHODS,
        "what to train: the model (pretrained), the same architecture from random weights (scratch), or a "
        "baseline",
    )
    fraction: PositiveShare = scoring_option(1.0, "share of the training examples to use")
    examples: NonNegative = scoring_option(
        0,
        "maximum training examples, drawn for each seed, keeping a function with its changed copy; 0 for "
        'all. For a learning curve: sweep = "examples: 250, 1000, 4000, all"',
    )
    valid: Count = scoring_option(
        # As in CuBERT's paper.
        8192,
        "maximum validation examples to choose on",
    )
    sweep: str = scoring_option(
        "",
        f"values of an option to train and score separately, such as fraction: 0.33, 0.66, 1; separate "
        f"several options by ; to combine them; any of {', '.join(sorted(SWEPT))}",
    )
    external_test: str = option(
        "",
        "corpus with labels of the task, such as cubert:FILE, as a second test set",
        corpus_name=True,
    )

    as_saved: bool = scoring_option(
        False,
        "on all examples, evaluate a model that was fine-tuned before, without training; a published file is "
        "enough as the test",
    )

    def recipe(self, settings: LensSettings) -> FinetuneRecipe:
        """Build the recipe of fine-tuning; its seed is that of a method."""
        (epochs, *other_epochs), (batch, *other_batches) = self.epochs, self.batch
        preset = paper_options(LENS, settings).get("cut", self.cut)
        recipe = FinetuneRecipe(
            **self.model_dump(include=set(_RECIPE_FIELDS)),
            epochs=epochs,
            other_epochs=tuple(other_epochs),
            batch=batch,
            other_batches=tuple(other_batches),
            cut=self.cut if "cut" in settings.options else str(preset),
        )
        return RECIPE.resolve(settings, recipe)


_RECIPE_TYPES = get_type_hints(FinetuneRecipe, include_extras=True)


_RECIPE_FIELDS: dict[str, Any] = {
    field.name: (_RECIPE_TYPES[field.name], field)
    for field in dataclasses.fields(FinetuneRecipe)
    if "description" in field.metadata
}


FinetuneOptions = create_model("FinetuneOptions", __base__=LensOptions, **_RECIPE_FIELDS)
"""The options of the lens, with those that its recipe declares."""


SCRATCH_OPTIONS = frozenset({"scratch_rates", "scratch_epochs"})
"""Options that the training from scratch alone knows."""


BASELINE_OPTIONS = frozenset({"baseline_rates", "baseline_epochs", "word2vec_corpus", *SIZE_OPTIONS})
"""Options that the training of a baseline alone knows."""


_ANY_BASELINE = ("baseline_", "subwords", "vocabulary")
"""Beginnings of the names of what every baseline knows; others name the network or Word2Vec."""


def get_method_options(name: str, settings: LensSettings) -> frozenset[str]:
    """Return the names of the options that the training of a method depends on.

    Args:
        name: The method.
        settings: What the user chose.
    """
    if name == BAG:
        return BAG_OPTIONS
    if settings.options.get("as_saved"):
        return frozenset({"as_saved"})
    names = FinetuneOptions.names() - BASELINE_OPTIONS - SCRATCH_OPTIONS - _UNRELATED_OPTIONS
    if name == SCRATCH:
        # A grid of its own takes the place of the model's.
        replaced_names = {option for option in SCRATCH_OPTIONS if settings.options.get(option)}
        return (names | SCRATCH_OPTIONS) - {option.removeprefix("scratch_") for option in replaced_names}
    if name not in BASELINES:
        return names
    replaced_names = {"epochs"} if "baseline_epochs" in settings.options else set[str]()
    prefixes = ("transformer_",) if name == TRANSFORMER else ("embedding", "lstm_")
    prefixes += ("word2vec_",) if name in WORD2VEC else ()
    own_names = {option for option in BASELINE_OPTIONS if option.startswith((*_ANY_BASELINE, *prefixes))}
    return (names - {"rates", "frozen"} - replaced_names) | own_names
