"""Data sets over the same programs in other words: each example is brought over, so that both can be paired.

The examples are those that the code as it was written gives. The forwarded text of each is changed, the place
that it labels is found again by its code tokens, and what the code already has is labelled anew. A text with
a fault or a bug gets the same one put into the changed function. Examples that this cannot be done for are
left out.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.corpora import Item
from sonde.corpora._spread import ItemChunk, Spread
from sonde.corpora._transformed import SAME_AS_ANOTHER, behind, change_of, code_language, transformed_item
from sonde.languages._carried import Carried
from sonde.languages._transforms import DOCSTRINGS, MISLEAD, ChangedText, Transforms
from sonde.tasks import TASKS
from sonde.tasks._changed import Place
from sonde.tasks._dataset import is_picked
from sonde.tasks._examples import EXAMPLE_SCHEMA, Dataset
from sonde.tasks._picked import Pick, Question, around, places_of
from sonde.tasks._pool import count_tokens, edits_of
from sonde.tasks._task import Task

TRANSFORM_VERSION = "1"
"""Raised when a transform makes another data set of the same one: part of the key of those."""

_Row = dict[str, Any]
_NOT_HERE = "its place is not in the changed text"


class PoolTransform:
    """A transform of the functions of a pool, which remembers what it made of each.

    Args:
        name: One of `sonde.languages._transforms.TRANSFORMS`.
        language: Public name of the language of all texts.
        seed: Of what is drawn.
        pool: The functions; names that mislead come from the ones behind one in the order of their ids.

    Raises:
        UsageError: The language is no code.
    """

    def __init__(self, name: str, language: str, seed: int, pool: Sequence[Item]) -> None:
        self.name, self.language = name, language
        self._seed, self._code = seed, code_language(language, name)
        self._rules = Transforms(self._code)
        mine = {item.item_id: item.text for item in pool if item.language == language}
        self._order = sorted(mine)
        self._texts = mine
        self._made: dict[str, ChangedText | str] = {}
        self._names: dict[str, Sequence[str]] = {}

    def change(self, item: Item) -> ChangedText | str:
        """What becomes of an item, or why nothing does."""
        if item.item_id not in self._made:
            others = self._behind(item.item_id) if self.name == MISLEAD else ()
            self._made[item.item_id] = change_of(item, self._rules, self.name, self._seed, others)
        return self._made[item.item_id]

    def item(self, source: Item, item: Item, end: int | None = None) -> Item | str:
        """An item that was made of a function by an edit, as the same edit makes it of the changed function.

        Args:
            source: The function.
            item: The function itself, or what was made of it.
            end: Where the function ends in its text, if words stand behind it, which stay as they are.

        Returns:
            The item, or why there is none.
        """
        change = self.change(source)
        if isinstance(change, str):
            return change
        if item.text == source.text:
            return transformed_item(item, change.text, self.name)
        function, words = item.text[:end], "" if end is None else item.text[end:]
        if self.name == DOCSTRINGS and words:
            text = self._rules.change(function, DOCSTRINGS).text
        else:
            text = Carried(self._code, source.text, change, self.name).edited(function)
        if text is None:
            return "its fault cannot be put into the changed text"
        if text == function:
            return f"nothing to change by {self.name}"
        return transformed_item(item, text + words, self.name)

    def shown(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, changed where they can be."""
        for item in items:
            changed = self.item(item, item)
            yield item if isinstance(changed, str) else changed

    def places(self, item: Item, changed: Item, *places: Place | None) -> list[Place | None]:
        """Where places of an item are in the changed one; None of what is not there."""
        carried = Carried(self._code, item.text, ChangedText(changed.text), self.name)
        known = {(0, len(item.text)): (0, len(changed.text)), (0, 0): (0, 0)}
        return [
            None if place is None else known[place] if place in known else carried.place(*place)
            for place in places
        ]

    def _behind(self, name: str) -> Iterator[Sequence[str]]:
        """Names of the functions behind one."""
        first = bisect_right(self._order, name)
        for other in behind(self._order, first):
            if other not in self._names:
                self._names[other] = self._rules.names(self._texts[other])
            yield self._names[other]


def transform_dataset(
    made: Dataset, pool: Iterable[Item], transform: PoolTransform, question: Question, spread: Spread
) -> Dataset:
    """A data set over the same programs in other words; ids of examples stay those of the code as written.

    Classes are no longer exactly balanced where examples are left out or are of another class in other
    words. Of a task that changes functions, all examples of a function are kept or left out together.

    Args:
        made: The data set of the code as it was written.
        pool: What it was drawn from.
        transform: The transform.
        question: The task, with what it was asked.
        spread: Processes that label texts.

    Raises:
        InputError: A split would be without a class.
    """
    task = TASKS.load(question.task)
    items = {item.item_id: item for item in (*pool, *made.inputs)}
    left_out: Counter[str] = Counter()
    if is_picked(task):
        rows = _relabelled(made.examples, items, transform, question, spread, left_out)
    else:
        rows = _edited(made.examples, items, transform, task, left_out)
    found: dict[str, Item] = {}
    kept: list[_Row] = []
    for some in rows:
        if any(item.item_id in found and found[item.item_id].original != item.original for _, item in some):
            left_out[SAME_AS_ANOTHER] += len(some)
            continue
        for row, item in some:
            found[item.item_id] = item
            kept.append({**row, "item_id": item.item_id, "characters": len(item.text)})
    # Of another test set all is told as it is.
    beside = made.examples.filter(pl.col("split").is_in(("train", "valid", "test")).not_())
    table = pl.concat([pl.DataFrame(kept, schema=dict(EXAMPLE_SCHEMA), orient="row"), beside])
    _check_classes(made, table, transform.name)
    counted = {
        name: dict(sorted(Counter(row[column] for row in kept).items()))
        for name, column in (("kept", "label"), ("splits", "split"))
    }
    told = {"kept": len(kept), **dict(left_out)}
    report = {**made.report, "size": len(kept), **counted, "transform": told}
    inputs = tuple(found[name] for name in sorted(found))
    return dataclasses.replace(made, examples=table, inputs=inputs, report=report)


def _own(examples: pl.DataFrame) -> Iterator[_Row]:
    yield from examples.filter(pl.col("split").is_in(("train", "valid", "test"))).iter_rows(named=True)


def _relabelled(
    examples: pl.DataFrame,
    items: Mapping[str, Item],
    transform: PoolTransform,
    question: Question,
    spread: Spread,
    left_out: Counter[str],
) -> Iterator[list[tuple[_Row, Item]]]:
    """The examples at the same places of the changed texts, with the labels that they have there."""
    rows = list(_own(examples))
    changed = {name: transform.item(items[name], items[name]) for name in {row["item_id"] for row in rows}}
    able = [changed[name] for name in sorted(changed)]
    labelled = dict(_labelled([item for item in able if not isinstance(item, str)], question, spread))
    edits = edits_of(transform.language)
    for row in rows:
        item = changed[row["item_id"]]
        if isinstance(item, str):
            left_out[item] += 1
            continue
        place, other = transform.places(items[row["item_id"]], item, (row["start"], row["end"]), _beside(row))
        pick = None if place is None else labelled[item.item_id].get((place, other))
        if place is None or pick is None:
            left_out[_NOT_HERE] += 1
            continue
        told = {
            "label": pick.label,
            "value": pick.value,
            "type": item.text[slice(*place)] if row["type"] else "",
            "tokens": count_tokens(item.text, edits),
        }
        yield [({**row, **_placed(place, other), **told}, item)]


_Labelled = dict[tuple[Place, Place | None], Pick]


def _labelled(items: Sequence[Item], question: Question, spread: Spread) -> Iterator[tuple[str, _Labelled]]:
    """The labelled places of each item, by its id."""
    for item, picks in spread.over(_places, question, items, share=around):
        found: _Labelled = {}
        for one in picks:
            other = None if one.other_start is None else (one.other_start, one.other_end or 0)
            found[(one.start, one.end), other] = one
        yield item.item_id, found


def _places(part: ItemChunk[Question, Item]) -> list[list[Pick]]:
    """All labelled places of some items; runs in any process."""
    one = part.rule
    task = TASKS.load(one.task)
    return [places_of(task, item, one.repositories, mode=one.mode, quirks=one.quirks) for item in part.items]


def _edited(
    examples: pl.DataFrame,
    items: Mapping[str, Item],
    transform: PoolTransform,
    task: Task,
    left_out: Counter[str],
) -> Iterator[list[tuple[_Row, Item]]]:
    """The examples of functions and of what was made of them, all or none of a function."""
    blocks: defaultdict[str, list[_Row]] = defaultdict(list)
    for row in _own(examples):
        blocks[row["source_id"]].append(row)
    for source, block in blocks.items():
        moved = [_moved(row, items[row["item_id"]], items[source], transform, task) for row in block]
        reasons = [one for one in moved if isinstance(one, str)]
        if reasons:
            left_out[reasons[0]] += len(block)
        else:
            yield [one for one in moved if not isinstance(one, str)]


def _moved(
    row: _Row, item: Item, source: Item, transform: PoolTransform, task: Task
) -> tuple[_Row, Item] | str:
    """An example with the changed text, or why there is none."""
    place, other = (row["start"], row["end"]), _beside(row)
    changed = transform.item(source, item, row["end"] if task.target == "pair" else None)
    itself = transform.item(source, source)
    if isinstance(changed, str) or isinstance(itself, str):
        return str(changed)
    if task.target == "pair" and other is not None:
        apart = len(changed.text) - len(item.text)
        place, moved = (0, place[1] + apart), (other[0] + apart, other[1] + apart)
    else:
        place, moved = transform.places(item, changed, place, other)
    if place is None or (moved is None) != (other is None):
        return _NOT_HERE
    # As data sets have it, the length is that of the function, whatever was put into it.
    tokens = count_tokens(itself.text, edits_of(transform.language))
    return {**row, **_placed(place, moved), "source_id": itself.item_id, "tokens": tokens}, changed


def _beside(row: _Row) -> Place | None:
    """The other place of an example."""
    return None if row["other_start"] is None else (row["other_start"], row["other_end"])


def _placed(place: Place, other: Place | None) -> _Row:
    start, end = other or (None, None)
    return {"start": place[0], "end": place[1], "other_start": start, "other_end": end}


def _check_classes(made: Dataset, table: pl.DataFrame, transform: str) -> None:
    """Raise where a split has lost a class."""
    held = set(table.select("split", "label").iter_rows())
    for split, label in sorted(set(made.examples.select("split", "label").iter_rows())):
        if (split, label) not in held:
            raise InputError(
                f"task {made.task!r}: transform {transform!r} leaves no example of class {label!r} in the "
                f"{split} split; draw from more code"
            )
