"""What a user may choose about fine-tuning."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from annotated_types import Ge

from sonde.base.options import option
from sonde.base.values import Count, OneOf, PositiveShare, Share, Whole
from sonde.lenses._lens import LensSettings
from sonde.lenses._quirks import Seam, paper_options
from sonde.lenses.finetune.baselines import BaselineOptions, Dropout, Rate, scoring_option
from sonde.lenses.finetune.sweep import SWEPT
from sonde.training.baselines.recipe import BASELINES
from sonde.training.finetuning.recipe import CUTS, DROP, HEADS, HELD, KEEP, WEIGHTS, FineTuning
from sonde.training.precision import PRECISIONS

LENS = "finetune"

RECIPE: Seam[FineTuning, []] = Seam(LENS)
"""How a model is fine-tuned, where published code does so otherwise; docs/paper-modes.md says how."""

PRETRAINED, SCRATCH, BAG = "pretrained", "scratch", "bag_of_tokens"
DEFAULT_METHODS = (PRETRAINED, SCRATCH, BAG)
METHODS = (*DEFAULT_METHODS, *BASELINES)
POOLINGS = ("auto", "mean", "max", "last", "first")
BAG_OPTIONS = frozenset({"fraction", "valid", "examples"})
"""Options that what needs no model knows."""

_DEFAULT = FineTuning()


class FinetuneOptions(BaselineOptions):
    """The options of the lens: what a method is trained with is its own, so all of them change scores alone.

    Only a second test set changes what is drawn.
    """

    length: Count = scoring_option(_DEFAULT.length, "most subwords of an input; what is beyond is cut")
    cut: Annotated[str, OneOf(CUTS)] = scoring_option(
        DROP,
        "an example whose label rests on what is beyond the length is left out with the other example of its "
        f"function ({DROP}; {KEEP} in paper mode), or both are read to the limit, or around that place",
    )
    epochs: tuple[Count, ...] = scoring_option(
        (_DEFAULT.epochs,), "most passes over the training examples, or several to choose from on validation"
    )
    batch: tuple[Count, ...] = scoring_option(
        (_DEFAULT.batch,), "examples an update, or several to choose from on validation"
    )
    rates: tuple[Rate, ...] = scoring_option(
        _DEFAULT.rates, "peak learning rates to choose from on validation"
    )
    scratch_rates: tuple[Rate, ...] = scoring_option(
        (), "peak learning rates of the model from scratch, whose grid is its own", unset="as rates"
    )
    scratch_epochs: tuple[Count, ...] = scoring_option(
        (), "most epochs of the model from scratch, which needs more of them", unset="as epochs"
    )
    warmup: Share = scoring_option(_DEFAULT.warmup, "share of the updates in which the rate rises")
    decay: Annotated[float, Ge(0)] = scoring_option(_DEFAULT.decay, "weight decay")
    dropout: Dropout = scoring_option(_DEFAULT.dropout, "dropout before the head")
    patience: Count = scoring_option(
        _DEFAULT.patience, "epochs without a better validation after which training ends"
    )
    checkpoint: Count = scoring_option(
        _DEFAULT.checkpoint, "updates between checkpoints, beside one an epoch"
    )
    seeds: Count = scoring_option(1, "trainings of each method, from as many seeds")
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = scoring_option(
        DEFAULT_METHODS,
        "what is trained: the model (pretrained), the same architecture from random weights (scratch), "
        "or a baseline",
    )
    pooling: Annotated[str, OneOf(POOLINGS)] = scoring_option(
        _DEFAULT.pooling,
        "how states become one for a head; auto is the last subword of a decoder, the mean of others",
    )
    head: Annotated[str, OneOf(HEADS)] = scoring_option(
        _DEFAULT.head,
        "what tells the class of a text: pooled states (with pooling = auto the classifier that transformers "
        "has for the architecture), the subword that says most, or states weighted by attention",
    )
    class_weights: Annotated[str, OneOf(WEIGHTS)] = scoring_option(
        _DEFAULT.class_weights, "what counts alike in the loss: every example, or every class"
    )
    pointer_epochs: Whole = scoring_option(
        _DEFAULT.pointer_epochs,
        "passes in which a body learns to point at the bug before it learns to tell whether there is one",
    )
    lora_rank: Whole = scoring_option(
        _DEFAULT.lora_rank, "rank of the matrices that LoRA trains beside the body; 0 trains the body itself"
    )
    lora_alpha: Count = scoring_option(_DEFAULT.lora_alpha, "their factor, times the rank")
    lora_dropout: Dropout = scoring_option(_DEFAULT.lora_dropout, "dropout of the input of LoRA's matrices")
    weights: Annotated[str, OneOf(HELD)] = scoring_option(
        _DEFAULT.weights,
        "precision of weights that are not trained; bfloat16 takes half of the memory",
    )
    at_once: Whole = scoring_option(
        _DEFAULT.at_once, "examples read at once, whose gradients add up to a batch; 0 for all of it"
    )
    recompute: bool = scoring_option(
        _DEFAULT.recompute, "compute states again for the gradients in place of keeping them"
    )
    compile: bool = scoring_option(
        _DEFAULT.compile,
        "compile the model with torch.compile first, which takes half a minute and makes the training itself "
        "faster; needs a C++ compiler on a processor",
    )
    processes: Count = scoring_option(
        _DEFAULT.processes,
        "processes that share each batch, each on a device of its own where there are several",
    )
    fsdp: bool = scoring_option(
        _DEFAULT.fsdp,
        "split weights, gradients and the optimiser's state over the processes (FSDP), for a model that is "
        "trained whole and does not fit into one device",
    )
    precision: Annotated[str, OneOf(PRECISIONS)] = scoring_option(
        _DEFAULT.precision, "of products in training; auto is bfloat16 where the device multiplies in it"
    )
    frozen: bool = scoring_option(_DEFAULT.frozen, "train the head alone")
    fraction: PositiveShare = scoring_option(1.0, "share of the training examples that is used")
    examples: Whole = scoring_option(
        0,
        "most training examples, drawn for each seed, a function with its changed copy; 0 for all. A "
        'learning curve: sweep = "examples: 250, 1000, 4000, all"',
    )
    valid: Count = scoring_option(
        # As in CuBERT's paper.
        8192,
        "most validation examples to choose on",
    )
    sweep: str = scoring_option(
        "",
        "options that take several values, each trained and scored by itself, as fraction: 0.33, 0.66, 1; "
        f"several are separated by ; and combined; any of {', '.join(sorted(SWEPT))}",
    )
    external_test: str = option(
        "",
        "a corpus whose items bring labels of the task, as cubert:FILE: an external test set beside the "
        "corpus's own",
        corpus_name=True,
    )

    as_saved: bool = scoring_option(
        False,
        "ask a model that was fine-tuned before as it is, over all examples: nothing is trained, and a "
        "published file alone is a test",
    )

    def scratch_recipe(self, recipe: FineTuning) -> FineTuning:
        """How a model is trained from scratch: as one that is fine-tuned, but for its rates and epochs."""
        first, *others = self.scratch_epochs or (recipe.epochs, *recipe.other_epochs)
        rates = self.scratch_rates or recipe.rates
        return dataclasses.replace(recipe, rates=rates, epochs=first, other_epochs=tuple(others))

    def recipe(self, settings: LensSettings) -> FineTuning:
        """How a model is fine-tuned; the seed is a method's."""
        same = {field.name for field in dataclasses.fields(FineTuning)} - {"epochs", "batch", "cut"}
        (epochs, *other_epochs), (batch, *other_batches) = self.epochs, self.batch
        preset = paper_options(LENS, settings).get("cut", self.cut)
        recipe = FineTuning(
            **self.model_dump(include=same),
            epochs=epochs,
            other_epochs=tuple(other_epochs),
            batch=batch,
            other_batches=tuple(other_batches),
            cut=self.cut if "cut" in settings.options else str(preset),
        )
        return RECIPE.as_asked(settings, recipe)


AS_SAVED = frozenset({"as_saved"})
"""Options that a model which is not trained knows."""

SCRATCH_OPTIONS = frozenset({"scratch_rates", "scratch_epochs"})
"""Options that the training from scratch alone knows."""


def replaced(settings: LensSettings) -> frozenset[str]:
    """Options that a grid of its own takes the place of, where a model is trained from scratch."""
    return frozenset(name.removeprefix("scratch_") for name in SCRATCH_OPTIONS if settings.options.get(name))


MODEL_OPTIONS = FinetuneOptions.names() - BaselineOptions.names() - SCRATCH_OPTIONS
"""Options that the training of a model knows."""
