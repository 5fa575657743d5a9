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
from sonde.tasks._published import as_asked

INCORRECT = "Incorrect"


class FunctionDocstring(BugTask):
    """A function without its documentation, beside the first line of its own or of another function's.

    The text of an example is the function and, on a line of its own behind it, the summary: the labelled
    stretch is the function, the other one the summary. Whose summary a function gets falls by a permutation
    of the functions of its split, so that none is in two of them; a function that gets its own words is left
    out. What a paper published may permute otherwise (`permuted_in`, `unchanged`).
    """

    name = "function_docstring"
    labels = (CORRECT, INCORRECT)
    version = "2"
    target = "pair"

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
        task = as_asked(self, asked.mode, asked.quirks)
        groups: dict[str, list[Item]] = defaultdict(list)
        for item in pool.items:
            if summary(item):
                groups[task.permuted_in(sides[item.cluster])].append(item)
        others: dict[str, Item] = {}
        for items in groups.values():
            ordered = sorted(items, key=lambda item: item.item_id)
            permuted = sorted(ordered, key=lambda item: unit_hash(asked.seed, "permutation", item.item_id))
            others |= {item.item_id: other for item, other in zip(ordered, permuted, strict=True)}
        for item in pool.items:
            other = others.get(item.item_id)
            # A function that the permutation leaves where it is has no other summary.
            yield item, () if other is None or task.unchanged(item, other) else pair(item, other, bugs)

    def permuted_in(self, split: str) -> str:
        """The functions among which summaries are permuted, given the split of one of them."""
        return split

    def unchanged(self, item: Item, other: Item) -> bool:
        """Whether another function's summary is no other summary."""
        return summary(other) == summary(item)


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
