"""Functions with wrong docstrings as CuBERT's released data have them."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.corpora import Item
from sonde.papers.declared import lines
from sonde.tasks.bugs.function_docstring import FunctionDocstring, first_line


class GlobalPermutation(FunctionDocstring):
    """One permutation of all functions, in which a summary may come from another split or say the same."""

    quirks = lines(__name__, "cubert.global_permutation")

    def permuted_in(self, split: str) -> str:
        """All of them together."""
        return ""

    def summary(self, item: Item) -> str:
        """Return the first line, whatever it says."""
        return first_line(item)

    def unchanged(self, item: Item, other: Item) -> bool:
        """Whether the permutation leaves the function where it is."""
        return other is item

    def without_names(self, summary: str, names: Sequence[str]) -> str:
        """Return the summary as it is."""
        return summary


published = GlobalPermutation()
