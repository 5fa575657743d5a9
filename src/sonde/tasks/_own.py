"""Tasks whose labels a user's own table brings, and the data sets that are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, NearTexts
from sonde.tasks._balance import SHARES, deal
from sonde.tasks._copies import COPIES, CopiedRows
from sonde.tasks._drawn import DatasetRequest
from sonde.tasks._examples import Example, SplitExamples
from sonde.tasks._given import brings_groups, brings_splits, given_examples, unsplit
from sonde.tasks._task import PAIR_SCHEMA, ItemLabels, Repository


class OwnLabels(ItemLabels):
    """A task that asks for the labels that the source brings. A subclass gives ``name`` and ``target``."""

    name: str
    target: str
    version = "2"
    labels: tuple[str, ...] = ()
    needs_repository = False
    schema = PAIR_SCHEMA

    def label_rows(
        self, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: Set[str]
    ) -> list[tuple[Any, ...]]:
        """One row a label."""
        return [
            (one.start, one.end, one.label, one.value, *_other(one.other_start, one.other_end))
            for one in item.given
            if one.task == self.name
        ]


def _other(start: int, end: int) -> tuple[int | None, int | None]:
    return (None, None) if start < 0 else (start, end)


def draw_own(items: Sequence[Item], asked: DatasetRequest) -> SplitExamples:
    """The labels of a user's table, as frequent as they are there.

    The file's splits are kept; where it has no validation rows, a quarter of the training clusters become
    them. Where it says no split, whole clusters are dealt to splits. Where it names no group, texts of nearly
    the same code are one cluster, and so are pairs of such texts; a span's cluster is what it says, and of
    texts of nearly the same code one is kept. Where it names groups and no split, near-duplicates by their
    words are left out. Of more labels than asked for, texts are taken by hash.

    Args:
        items: The items in one language.
        asked: What is asked for.

    Raises:
        InputError: No item brings a label, there is one class only, or a split would be without one.
    """
    name, what = asked.task.name, f"task {asked.task.name!r} in {asked.language}"
    splits, groups = brings_splits(items, name), brings_groups(items, name)
    left = Counter[str]()
    rows = given_examples(_first(items, asked, left, splits=splits, groups=groups), asked)[: asked.size]
    if not rows:
        raise InputError(f"{what} takes the labels of a table of one's own; name it as labelled:FILE")
    classes = sorted({one.label for _, one in rows})
    if len(classes) < 2:
        raise InputError(f"{what}: all {len(rows)} labels are {classes[0]!r}, and two classes are needed")
    report: dict[str, Any] = {}
    if splits or not groups:
        copies = CopiedRows.of([one for _, one in rows], asked.language)
        report[COPIES] = copies.told([split for split, _ in rows], grouped=groups, left=left.total())
        if not groups and asked.task.target != "span":
            rows = [
                (split, replace(one, cluster=own))
                for (split, one), own in zip(rows, copies.named, strict=True)
            ]
    if left:
        report["dropped"] = dict(left)
    drawn = SplitExamples(
        [(split, False, one) for split, one in _with_splits(rows, asked.seed, what)], report
    )
    _check_splits(drawn, classes, what)
    return drawn


def are_enough(items: Sequence[Item], beyond: Sequence[Item], asked: DatasetRequest) -> bool:
    """Whether the first items of a table by hash bring all the labels that are drawn of it.

    Args:
        items: The first items in the language.
        beyond: Some of the others, one a kind: with a split or a group, and without.
        asked: What is asked for.
    """
    name, every = asked.task.name, (*items, *beyond)
    splits, groups = brings_splits(every, name), brings_groups(every, name)
    taken = _first(items, asked, Counter(), splits=splits, groups=groups)
    return sum(_labels(item, name) for item in taken) >= asked.size


def _first(
    items: Sequence[Item], asked: DatasetRequest, left: Counter[str], *, splits: bool, groups: bool
) -> list[Item]:
    """The first items by hash that bring as many labels as asked for; counts what is left out before."""
    ordered = sorted(items, key=lambda item: (unit_hash(asked.seed, item.item_id), item.item_id))
    kept: Iterable[Item] = ordered
    if not splits and (groups or asked.task.target == "span"):
        kept = _without_near(ordered, NearTexts(asked.language, shapes=not groups), left)
    taken: list[Item] = []
    labels = 0
    for item in kept:
        taken.append(item)
        labels += _labels(item, asked.task.name)
        if labels >= asked.size:
            break
    return taken


def _labels(item: Item, task: str) -> int:
    return sum(one.task.lower() == task for one in item.given)


def _without_near(items: Sequence[Item], near: NearTexts, left: Counter[str]) -> Iterator[Item]:
    """The items whose code nearly repeats that of none before them; counts the others."""
    for number, item in enumerate(items):
        bags = near.read(item.text)
        if next(near.matches(bags), None) is not None:
            left["near duplicate"] += 1
        else:
            near.add(number, item.text, bags)
            yield item


def _with_splits(rows: Sequence[tuple[str, Example]], seed: int, what: str) -> list[tuple[str, Example]]:
    """Rows with a split each."""
    given = {split for split, _ in rows if split}
    if given and not {"train", "test"} <= given:
        raise InputError(
            f"{what}: its split says {' and '.join(sorted(given))} alone, and train and test are needed; "
            "leave it out (split=) and clusters are dealt to splits"
        )
    shares = SHARES
    if given and "valid" not in given:
        rows = [("" if split == "train" else split, one) for split, one in rows]
        shares = {name: share for name, share in SHARES.items() if name != "test"}
        shares = {name: share / sum(shares.values()) for name, share in shares.items()}
    sides = deal(unsplit(rows), seed, shares=shares)
    return [(split or sides[one.cluster], one) for split, one in rows]


def _check_splits(drawn: SplitExamples, classes: Sequence[str], what: str) -> None:
    held = {(split, one.label) for split, _, one in drawn.rows}
    for split in SHARES:
        for label in classes:
            if (split, label) not in held:
                raise InputError(
                    f"{what}: the {split} split has no example of class {label!r}; name a table with more "
                    "rows or groups of it (rows of nearly the same code are one group where the table names "
                    "none), or leave the class out"
                )
