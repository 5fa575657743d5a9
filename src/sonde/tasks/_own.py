"""Tasks whose labels a user's own table brings, and the data sets that are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, NearDuplicateIndex, duplicate_tokens
from sonde.tasks._balance import SHARES, deal
from sonde.tasks._drawn import DatasetRequest
from sonde.tasks._examples import Example, SplitExamples
from sonde.tasks._given import brings_splits, given_examples, unsplit
from sonde.tasks._task import PAIR_SCHEMA, ItemLabels, Repository


class OwnLabels(ItemLabels):
    """A task that asks for the labels that the source brings. A subclass gives ``name`` and ``target``."""

    name: str
    target: str
    version = "1"
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
    them. Where it says no split, near-duplicates are left out and whole clusters are dealt to splits. Of more
    labels than asked for, texts are taken by hash.

    Args:
        items: The items in one language.
        asked: What is asked for.

    Raises:
        InputError: No item brings a label, there is one class only, or a split would be without one.
    """
    what = f"task {asked.task.name!r} in {asked.language}"
    ordered = sorted(items, key=lambda item: (unit_hash(asked.seed, item.item_id), item.item_id))
    kept = ordered if brings_splits(items, asked.task.name) else list(_without_near(ordered))
    rows = given_examples(kept, asked)[: asked.size]
    if not rows:
        raise InputError(f"{what} takes the labels of a table of one's own; name it as labelled:FILE")
    classes = sorted({one.label for _, one in rows})
    if len(classes) < 2:
        raise InputError(f"{what}: all {len(rows)} labels are {classes[0]!r}, and two classes are needed")
    drawn = SplitExamples([(split, False, one) for split, one in _with_splits(rows, asked.seed, what)])
    _check_splits(drawn, classes, what)
    if left := len(ordered) - len(kept):
        drawn.report = {"dropped": {"near duplicate": left}}
    return drawn


def _without_near(items: Sequence[Item]) -> Iterator[Item]:
    index = NearDuplicateIndex()
    for item in items:
        words = duplicate_tokens(item.text)
        if index.find(words) is None:
            index.add(item.item_id, words)
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
                    "rows or groups of it, or leave the class out"
                )
