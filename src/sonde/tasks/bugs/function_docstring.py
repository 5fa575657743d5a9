"""CuBERT's function and docstring: does the summary describe this function?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item
from sonde.corpora.engine.parallel import ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.treesitter import find_summary_line
from sonde.tasks.engine.bugs import CORRECT, BugExample, BugTask, RandomChoice
from sonde.tasks.engine.sampling import DatasetRequest, Pool

SYNONYMS = ("docstring match", "code search", "code summary")

INCORRECT = "Incorrect"
BLANK = "___"
"""Placeholder for the name of a function in a summary."""

_WORD = re.compile(r"\w+")


class DocstringMismatch(BugTask):
    """A function without its documentation, paired with its own summary or another function's.

    The summary is the first line of documentation that says something in words; functions that only inherit
    theirs, or list parameters, have none.

    The text of an example is the function, followed by the summary on its own line; the labelled span is the
    function, the second span the summary. A permutation of the functions of each split assigns the wrong
    summaries, so that no summary is in two splits; a function that gets its own words is left out. In both
    summaries the names of both functions are replaced (`BLANK`), because a summary that names its function
    gives the answer away, as most of Go's do. A paper's published data may permute differently
    (`permuted_in`, `is_same_summary`) and keep the names (`without_names`).
    """

    name = "function_docstring"
    labels = (CORRECT, INCORRECT)
    version = "4"
    target = "pair"

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Return nothing: a function alone does not say whose summary it gets; see `draw_examples`."""
        return ()

    def original_label(self, item: Item) -> tuple[int, int, str | None]:
        """Label documented code as correct."""
        return 0, len(item.text), CORRECT if self.summary(item) else None

    def summary(self, item: Item) -> str:
        """Return the summary of a function's documentation; empty where it has none."""
        return find_summary_line(item.docstring)

    def draw_examples(
        self, pool: Pool, sides: Mapping[str, str], request: DatasetRequest, parallel: ParallelMap
    ) -> Iterator[tuple[Item, Sequence[BugExample]]]:
        """Pair functions with summaries in this process; see `BugTask.draw_examples`."""
        bugs = get_facet(request.language, "bugs", BugSites)
        groups: dict[str, list[Item]] = defaultdict(list)
        for item in pool.items:
            if self.summary(item):
                groups[self.permuted_in(sides[item.cluster])].append(item)
        partners: dict[str, Item] = {}
        for items in groups.values():
            sorted_items = sorted(items, key=lambda item: item.item_id)
            permuted_items = sorted(
                sorted_items, key=lambda item: unit_hash(request.seed, "permutation", item.item_id)
            )
            partners |= {
                item.item_id: partner for item, partner in zip(sorted_items, permuted_items, strict=True)
            }
        for item in pool.items:
            partner = partners.get(item.item_id)
            # A function that the permutation leaves where it is has no other summary.
            examples = (
                ()
                if partner is None or self.is_same_summary(item, partner)
                else self.pair(item, partner, bugs)
            )
            yield item, examples

    def permuted_in(self, split: str) -> str:
        """Return the group in which summaries are permuted, given the split of one of its functions."""
        return split

    def is_same_summary(self, item: Item, partner: Item) -> bool:
        """Return whether another function's summary says the same."""
        own_summary, other_summary = self._summaries(item, partner)
        return own_summary == other_summary

    def pair(self, item: Item, partner: Item, bugs: BugSites) -> tuple[BugExample, BugExample]:
        """Return a function with its own summary and with another function's."""
        function = bugs.remove_documentation(item.text).rstrip()
        own_summary, other_summary = self._summaries(item, partner)
        provenance = f"{partner.repository}/{partner.path} {partner.name}"
        return (
            _variant(CORRECT, function, own_summary, "original"),
            _variant(INCORRECT, function, other_summary, f"docstring of {provenance}"),
        )

    def without_names(self, summary: str, names: Sequence[str]) -> str:
        """Return a summary with a blank for each of some names, in any case and with any underscores."""
        words = {word.strip("_") for name in names for word in _WORD.findall(name)} - {""}
        if not words:
            return summary
        alternatives = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        return re.sub(rf"(?<!\w)_*({alternatives})_*(?!\w)", BLANK, summary, flags=re.IGNORECASE)

    def _summaries(self, item: Item, partner: Item) -> tuple[str, str]:
        """Return the summaries of two functions, without the names of both in each."""
        names = [function.name.rpartition(".")[2] for function in (item, partner)]
        return self.without_names(self.summary(item), names), self.without_names(self.summary(partner), names)


def first_line(item: Item) -> str:
    """Return the first line of a function's documentation, whatever it says."""
    return item.docstring.strip().partition("\n")[0].strip()


def _variant(label: str, function: str, words: str, edit: str) -> BugExample:
    start = len(function) + 1
    return BugExample(label, f"{function}\n{words}", edit, 0, len(function), start, start + len(words))


task = DocstringMismatch()
