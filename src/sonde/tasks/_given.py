"""Data sets that a published file brings: its labels and its splits, as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sonde.base.errors import InputError
from sonde.corpora import Given, Item
from sonde.languages._edits import Edits
from sonde.tasks._balance import SHARES, deal
from sonde.tasks._drawn import DatasetRequest
from sonde.tasks._examples import Example, SplitExamples
from sonde.tasks._pool import count_tokens, edits_of


def is_given(items: Sequence[Item], task: str) -> bool:
    """Whether any item brings labels of the task."""
    return any(given.task.lower() == task for item in items if item.given for given in item.given)


def brings_splits(items: Sequence[Item], task: str) -> bool:
    """Whether labels of the task come with a split, which is then kept."""
    return any(given.split for item in items for given in item.given if given.task.lower() == task)


def brings_groups(items: Sequence[Item], task: str) -> bool:
    """Whether labels of the task come with a group, which is then what is resampled and split as one."""
    return any(given.group for item in items for given in item.given if given.task.lower() == task)


def example_of(item: Item, given: Given, edits: Edits | None, surface: str = "") -> Example:
    """An example as its source gives it.

    Those of one surface, where there is one, share a cluster, unless the source groups them itself.
    """
    return Example(
        item=item,
        source=item,
        label=given.label,
        start=given.start,
        end=given.end,
        other_start=None if given.other_start < 0 else given.other_start,
        other_end=None if given.other_end < 0 else given.other_end,
        tokens=count_tokens(item.text, edits),
        value=given.value,
        cluster=item.cluster if given.group else surface or item.cluster,
        type=surface,
    )


def given_examples(items: Sequence[Item], asked: DatasetRequest) -> list[tuple[str, Example]]:
    """All labels that the items bring for the task, each with its split, empty where the source says none."""
    edits = edits_of(asked.language)
    tokens_alone = asked.task.target == "span"
    rows: list[tuple[str, Example]] = []
    for item in items:
        for given in item.given:
            if given.task.lower() == asked.task.name:
                surface = item.text[given.start : given.end] if tokens_alone else ""
                rows.append((given.split, example_of(item, given, edits, surface)))
    return rows


def draw_given(items: Sequence[Item], asked: DatasetRequest) -> SplitExamples:
    """All labels that the items bring for the task, none balanced away.

    Where the source says no split, whole clusters are dealt to splits.

    Raises:
        InputError: A split is without a class, or holds nothing.
    """
    rows = given_examples(items, asked)
    sides = deal(unsplit(rows), asked.seed)
    drawn = SplitExamples([(split or sides[one.cluster], False, one) for split, one in rows])
    drawn.report = {"published": True}
    held = Counter((split, one.label) for split, _, one in drawn.rows)
    for split in SHARES:
        for label in sorted({one.label for _, one in rows}):
            if not held[split, label]:
                raise InputError(
                    f"task {asked.task.name!r} in {asked.language}: the {split} split of the published "
                    f"labels has no example of class {label!r}; name a file with all classes in all splits"
                )
    return drawn


def unsplit(rows: Sequence[tuple[str, Example]]) -> dict[str, Counter[str]]:
    """Classes of each cluster, of the rows whose source says no split."""
    counts: dict[str, Counter[str]] = {}
    for split, one in rows:
        if not split:
            counts.setdefault(one.cluster, Counter())[one.label] += 1
    return counts
