"""What a user may choose about fine-tuning, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sonde.base.errors import UsageError
from sonde.lenses._lens import LensSettings
from sonde.lenses.finetune.baselines import BASELINE_OPTIONS, BaselineOptions, read_baselines
from sonde.lenses.finetune.sweep import SWEPT
from sonde.lenses.finetune.values import count, counts, known, number, rates
from sonde.training.baselines.recipe import BASELINES
from sonde.training.finetuning.recipe import FineTuning
from sonde.training.precision import PRECISIONS

MASKED_ZERO = "cubert.masked_zero"
SUM_OF_LOGS = "cubert.sum_of_logs"

QUIRKS: Mapping[str, str] = {
    MASKED_ZERO: "logits of a pointer are multiplied by the mask of candidates, so that what is masked, "
    "padding too, has a logit of 0 and takes part",
    SUM_OF_LOGS: "the loss of a repair is the sum of the logarithms over all its places, not the logarithm "
    "of their sum",
}
"""What CuBERT's released code does otherwise; docs/paper-modes.md says more."""

PRETRAINED, SCRATCH, BAG = "pretrained", "scratch", "bag_of_tokens"
DEFAULT_ARMS = (PRETRAINED, SCRATCH, BAG)
ARMS = (*DEFAULT_ARMS, *BASELINES)
POOLINGS = ("auto", "mean", "max", "last", "first")
BAG_OPTIONS = frozenset({"fraction", "valid"})
"""Options that what needs no model knows."""
SWEEP, FOREIGN = "sweep", "foreign"
VALID = 8192
"""Validation examples that rates and epochs are chosen on, as in CuBERT's paper."""

_DEFAULT = FineTuning()

OPTIONS: Mapping[str, str] = {
    "length": f"most subwords of an input; what is beyond is cut (default {_DEFAULT.length})",
    "epochs": "most passes over the training examples, or several to choose from on validation, separated by "
    f"commas (default {_DEFAULT.epochs})",
    "batch": f"examples an update, or several to choose from as above (default {_DEFAULT.batch})",
    "rates": "peak learning rates to choose from on validation, separated by commas "
    f"(default {','.join(f'{rate:g}' for rate in _DEFAULT.rates)})",
    "warmup": f"share of the updates in which the rate rises (default {_DEFAULT.warmup})",
    "decay": f"weight decay (default {_DEFAULT.decay})",
    "dropout": f"dropout before the head (default {_DEFAULT.dropout})",
    "patience": f"epochs without a better validation after which training ends (default {_DEFAULT.patience})",
    "checkpoint": f"updates between checkpoints, beside one an epoch (default {_DEFAULT.checkpoint})",
    "seeds": "trainings of each arm, from as many seeds (default 1)",
    "arms": f"what is trained, any of {', '.join(ARMS)}, separated by commas "
    f"(default {','.join(DEFAULT_ARMS)})",
    "pooling": f"how states become one for a head: one of {', '.join(POOLINGS)} (default auto: the last "
    "subword of a decoder, the mean of others)",
    "precision": f"of products in training, one of {', '.join(PRECISIONS)} (default auto: bfloat16 where the "
    "device multiplies in it)",
    "frozen": "train the head alone (default false)",
    "fraction": "share of the training examples that is used (default 1)",
    "valid": f"most validation examples to choose on (default {VALID})",
    SWEEP: "options that take several values, each trained and told by itself, as fraction: 0.33, 0.66, 1; "
    f"several are separated by ; and combined. Any of {', '.join(sorted(SWEPT))} (default none)",
    FOREIGN: "a corpus whose items bring labels of the task, as cubert:FILE: a second test set beside the "
    "corpus's own (default none)",
    **BASELINE_OPTIONS,
}
MODEL_OPTIONS = frozenset(OPTIONS) - frozenset(BASELINE_OPTIONS)
"""Options that the training of a model knows."""


@dataclass(frozen=True, slots=True)
class FinetuneOptions:
    """The options of a run, with their defaults; see `OPTIONS`. The recipe's seed is an arm's."""

    recipe: FineTuning
    seeds: int
    arms: tuple[str, ...]
    fraction: float
    valid: int
    baselines: BaselineOptions


def read_options(settings: LensSettings) -> FinetuneOptions:
    """The options of a lens's settings.

    Raises:
        UsageError: A value that cannot be used.
        UnknownNameError: An arm or pooling that does not exist.
    """
    quirks = frozenset(QUIRKS) if settings.mode == "paper" else settings.quirks
    pooling = str(settings.options.get("pooling", _DEFAULT.pooling))
    known("pooling", pooling, POOLINGS)
    precision = str(settings.options.get("precision", _DEFAULT.precision))
    known("precision", precision, PRECISIONS)
    arms = tuple(
        part.strip() for part in str(settings.options.get("arms", ",".join(DEFAULT_ARMS))).split(",")
    )
    for arm in arms:
        known("arm", arm, ARMS)
    frozen = settings.options.get("frozen", _DEFAULT.frozen)
    if not isinstance(frozen, bool):
        raise UsageError(f"lens 'finetune': option frozen = {frozen!r} is neither true nor false")
    epochs = counts(settings, "epochs", _DEFAULT.epochs)
    batches = counts(settings, "batch", _DEFAULT.batch)
    recipe = FineTuning(
        length=count(settings, "length", _DEFAULT.length),
        epochs=epochs[0],
        other_epochs=epochs[1:],
        batch=batches[0],
        other_batches=batches[1:],
        rates=rates(settings, "rates", _DEFAULT.rates),
        warmup=number(settings, "warmup", _DEFAULT.warmup, most=1.0),
        decay=number(settings, "decay", _DEFAULT.decay),
        dropout=number(settings, "dropout", _DEFAULT.dropout, most=0.9),
        patience=count(settings, "patience", _DEFAULT.patience),
        checkpoint=count(settings, "checkpoint", _DEFAULT.checkpoint),
        pooling=pooling,
        frozen=frozen,
        precision=precision,
        masked_zero=MASKED_ZERO in quirks,
        sum_of_logs=SUM_OF_LOGS in quirks,
    )
    fraction = number(settings, "fraction", 1.0, most=1.0)
    if fraction == 0:
        raise UsageError("lens 'finetune': option fraction = 0 leaves nothing to train on; give more")
    return FinetuneOptions(
        recipe,
        count(settings, "seeds", 1),
        tuple(dict.fromkeys(arms)),
        fraction,
        count(settings, "valid", VALID),
        read_baselines(settings, recipe),
    )
