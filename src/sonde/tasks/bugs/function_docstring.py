"""CuBERT's function and docstring: does a summary belong to the function?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item
from sonde.corpora._spread import Spread
from sonde.languages import facet_of
from sonde.languages._bugs import Bugs
from sonde.tasks._bugs import CORRECT, BugExample, BugTask, Choice
from sonde.tasks._drawn import DatasetRequest
from sonde.tasks._pool import Pool

INCORRECT = "Incorrect"
GLOBAL = "cubert.global_permutation"
QUIRKS: Mapping[str, str] = {
    GLOBAL: "summaries are permuted over all functions, so that one stands in several splits, and a function "
    "whose new summary says the same as its own is taken for wrong",
}


class FunctionDocstring(BugTask):
    """A function without its documentation, beside the first line of its own or of another function's.

    The text of an example is the function and, on a line of its own behind it, the summary: the labelled
    stretch is the function, the other one the summary. Whose summary a function gets falls by a permutation
    of the functions of its split, so that none is in two of them; a function that gets its own words is left
    out. As published the permutation is one of all functions (`QUIRKS`).
    """

    name = "function_docstring"
    labels = (CORRECT, INCORRECT)
    version = "2"
    target = "pair"
    quirks = QUIRKS

    def variants(self, text: str, bugs: Bugs, choice: Choice) -> tuple[BugExample, ...]:
        """None: a function alone does not say whose summary it gets, see `drawn`."""
        return ()

    def as_written(self, item: Item) -> tuple[int, int, str | None]:
        """Documented code is correct."""
        return 0, len(item.text), CORRECT if summary(item) else None

    def drawn(
        self, pool: Pool, sides: Mapping[str, str], asked: DatasetRequest, spread: Spread
    ) -> Iterator[tuple[Item, Sequence[BugExample]]]:
        """See `BugTask.drawn`; one process pairs them all, which takes little."""
        bugs = facet_of(asked.language, "bugs", Bugs)
        paper = asked.mode == "paper" or GLOBAL in asked.quirks
        groups: dict[str, list[Item]] = defaultdict(list)
        for item in pool.items:
            if summary(item):
                groups["" if paper else sides[item.cluster]].append(item)
        others: dict[str, Item] = {}
        for items in groups.values():
            ordered = sorted(items, key=lambda item: item.item_id)
            permuted = sorted(ordered, key=lambda item: unit_hash(asked.seed, "permutation", item.item_id))
            others |= {item.item_id: other for item, other in zip(ordered, permuted, strict=True)}
        for item in pool.items:
            other = others.get(item.item_id)
            # A function that the permutation leaves where it is has no other summary.
            same = other is None or (other is item if paper else summary(other) == summary(item))
            yield item, () if other is None or same else pair(item, other, bugs)


def summary(item: Item) -> str:
    """The first line of a function's documentation; empty where it has none."""
    return item.docstring.strip().partition("\n")[0].strip()


def pair(item: Item, other: Item, bugs: Bugs) -> tuple[BugExample, BugExample]:
    """A function with its own summary and with another function's."""
    function = bugs.undocumented(item.text).rstrip()
    place = f"{other.repository}/{other.path} {other.name}"
    return (
        _variant(CORRECT, function, summary(item), "original"),
        _variant(INCORRECT, function, summary(other), f"docstring of {place}"),
    )


def _variant(label: str, function: str, words: str, edit: str) -> BugExample:
    start = len(function) + 1
    return BugExample(label, f"{function}\n{words}", edit, 0, len(function), start, start + len(words))


task = FunctionDocstring()
