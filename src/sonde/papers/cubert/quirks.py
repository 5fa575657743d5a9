"""CuBERT's published code where it differs from the lens `finetune` and its tasks, each as a quirk.

Each quirk starts from the corrected recipe, `sonde.training.finetune.recipe.FinetuneRecipe`.
`GlobalPermutation` makes functions with wrong docstrings as CuBERT's released data have them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sonde.corpora import Item
from sonde.lenses.finetune.options import RECIPE
from sonde.papers.quirks import build_paper_preset, describe_quirks, set_fields
from sonde.tasks.bugs.function_docstring import DocstringMismatch, first_line
from sonde.training.finetune.recipe import KEEP

published = build_paper_preset(
    "cubert",
    "finetune",
    {
        "cubert.masked_zero": RECIPE.quirk(set_fields(masked_zero=True)),
        "cubert.sum_of_logs": RECIPE.quirk(set_fields(sum_of_logs=True)),
    },
    options={"cut": KEEP},
)


class GlobalPermutation(DocstringMismatch):
    """One permutation of all functions, in which a summary may come from another split or say the same."""

    quirks = describe_quirks(__name__, "cubert.global_permutation")

    def permuted_in(self, split: str) -> str:
        """Return one group for all functions."""
        return ""

    def summary(self, item: Item) -> str:
        """Return the first line, whatever it says."""
        return first_line(item)

    def is_same_summary(self, item: Item, partner: Item) -> bool:
        """Return whether the permutation leaves the function where it is."""
        return partner is item

    def without_names(self, summary: str, names: Sequence[str]) -> str:
        """Return the summary as it is."""
        return summary


published_docstrings = GlobalPermutation()
