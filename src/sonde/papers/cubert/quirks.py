"""What CuBERT's released code does otherwise than the lens `finetune`, each from the corrected recipe."""

from __future__ import annotations

import dataclasses

from sonde.lenses.finetune.options import RECIPE
from sonde.papers.declared import handed_over
from sonde.training.finetuning.recipe import KEEP, FineTuning


def masked_zero(recipe: FineTuning) -> FineTuning:
    """What is masked has a logit of 0."""
    return dataclasses.replace(recipe, masked_zero=True)


def sum_of_logs(recipe: FineTuning) -> FineTuning:
    """The loss of a repair is the sum of the logarithms of all its places."""
    return dataclasses.replace(recipe, sum_of_logs=True)


published = handed_over(
    "cubert",
    "finetune",
    {
        "cubert.masked_zero": RECIPE.quirk(masked_zero),
        "cubert.sum_of_logs": RECIPE.quirk(sum_of_logs),
    },
    options={"cut": KEEP},
)
