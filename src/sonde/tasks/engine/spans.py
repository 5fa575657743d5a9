"""Labelled places of functions for data sets, tables of labels, and the changed spans of two texts.

Which labelled places one function gives a data set does not depend on the other functions read. A data set
takes at most one place of each class from a function (for tokens: of each class and surface), so no more is
kept. Functions are labelled for all tasks of a run together, so that each is parsed once, and in several
processes.

`label_items` makes tables of the labels of items, also in several processes: what one item gives depends on
no other. `find_changed_spans` finds where two versions of a text differ: the shortest stretches of whole code
tokens around the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.base.frames import concatenate_tables
from sonde.corpora import Item
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages.engine.edits import TextSpan
from sonde.languages.engine.text import common_string_prefix_length
from sonde.tasks.engine.task import PAIR_SCHEMA, TASKS, ItemLabels, Repository, Task, resolve_task

PICKED = ("item", "span", "pair")
"""Targets of tasks that label what the code already has."""


class LabelledSpan(NamedTuple):
    """A labelled place; see `sonde.tasks.engine.task.EXAMPLE_SCHEMA`."""

    start: int
    end: int
    label: str
    value: float | None
    other_start: int | None = None
    other_end: int | None = None


Picks = Mapping[str, tuple[LabelledSpan, ...]]
"""Item id to its places."""


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """A task and how it is asked.

    Attributes:
        task: Name or path, as `sonde.tasks.engine.task.TASKS` loads it.
        seed: Of the choice among places.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        repositories: What the task may know of the files around.
    """

    task: str
    seed: int
    mode: str
    quirks: frozenset[str]
    repositories: Mapping[str, Repository]

    def load(self) -> Task:
        """Load the task, as published if the mode or a quirk requests that."""
        return resolve_task(TASKS.load(self.task), self.mode, self.quirks)

    def restrict(self, items: Sequence[Item]) -> LabelRequest:
        """Return the request with only the repositories of some items, and the imports of their files."""
        paths: dict[str, set[str]] = {}
        for item in items:
            if item.repository in self.repositories:
                paths.setdefault(item.repository, set()).add(item.path)
        kept = {
            name: replace(known, imports={path: known.imports[path] for path in own & known.imports.keys()})
            for name, own in paths.items()
            for known in [self.repositories[name]]
        }
        return replace(self, repositories=kept)


def label_spans(task: Task, item: Item, repositories: Mapping[str, Repository]) -> list[LabelledSpan]:
    """Return all spans of an item that a task labels."""
    rows: Iterable[tuple[Any, ...]]
    if isinstance(task, ItemLabels):
        # Of these no table is made: it takes longer to make than the labels do.
        width = 6 if task.schema is PAIR_SCHEMA else 4
        rows = (row[:width] for row in task.rows(item, repositories))
    else:
        table = task.label([item], repositories)[item.item_id]
        rows = table.select(name for name in LabelledSpan._fields if name in table.columns).iter_rows()
    return [LabelledSpan(*row) for row in rows if row[2] is not None]


def select_spans(
    task: Task, item: Item, repositories: Mapping[str, Repository], seed: int
) -> tuple[LabelledSpan, ...]:
    """Select one span per class of an item, for tokens one per class and surface, by hash."""
    rows = label_spans(task, item, repositories)
    if task.target == "item":
        return tuple(rows)
    tokens = task.target == "span"
    alike: dict[tuple[str, str], list[LabelledSpan]] = {}
    for row in rows:
        place = row.label, item.text[row.start : row.end] if tokens else ""
        alike.setdefault(place, []).append(row)

    def rank(row: LabelledSpan) -> float:
        return unit_hash(seed, item.item_id, row.start, *(() if tokens else (row.other_start,)))

    return tuple(some[0] if len(some) == 1 else min(some, key=rank) for some in alike.values())


def select_all_spans(
    questions: Sequence[LabelRequest], items: Sequence[Item], spread: ParallelMap
) -> dict[str, Picks]:
    """Select the spans of all items for several tasks at once.

    Returns:
        Task to its places.
    """
    found: dict[str, dict[str, tuple[LabelledSpan, ...]]] = {question.task: {} for question in questions}
    if questions:
        for item, answers in spread.map(_pick, tuple(questions), items, share=_share):
            for question, picks in zip(questions, answers, strict=True):
                found[question.task][item.item_id] = picks
    return {**found}


def _pick(part: ItemChunk[tuple[LabelRequest, ...], Item]) -> list[tuple[tuple[LabelledSpan, ...], ...]]:
    """Select the spans of some items; runs in any process."""
    asked = [(question.load(), question.repositories, question.seed) for question in part.rule]
    return [
        tuple(select_spans(task, item, repositories, seed) for task, repositories, seed in asked)
        for item in part.items
    ]


def _share(questions: tuple[LabelRequest, ...], items: Sequence[Item]) -> tuple[LabelRequest, ...]:
    return tuple(question.restrict(items) for question in questions)


Place = tuple[int, int]
"""First character and one past the last."""


def find_changed_spans(
    one: str, other: str, tokens: Sequence[TextSpan], other_tokens: Sequence[TextSpan]
) -> tuple[Place, Place]:
    """Find the span of each of two texts in which they differ.

    What stands before it is the same in both, and so is what stands behind it. A stretch begins and ends
    where code tokens do, so that a name counts whole. Where one text only has more than the other, the token
    behind is part of both stretches (``is None`` and ``is not None`` differ in ``None`` and ``not None``):
    nothing is never likelier than something.

    Args:
        one: A text.
        other: The same otherwise.
        tokens: Code tokens of the first, in text order.
        other_tokens: Those of the second.
    """
    before = common_string_prefix_length(one, other)
    most = min(len(one), len(other)) - before
    behind = min(common_string_prefix_length(one[::-1], other[::-1]), most)
    texts = ((one, tokens), (other, other_tokens))
    # A border that is moved out of a token of one text may then lie inside one of the other.
    while (start := min(_begin(of, before) for _, of in texts)) < before:
        before = start
    while (end := min(_rest(text, of, behind) for text, of in texts)) < behind:
        behind = end
    if min(len(one), len(other)) - behind <= before:
        behind, before = _with_neighbour(texts, before, behind)
    return (before, len(one) - behind), (before, len(other) - behind)


def _begin(tokens: Sequence[TextSpan], place: int) -> int:
    """Return the start of the token that contains a border, else the border itself."""
    return next((token.start for token in tokens if token.start < place < token.end), place)


def _rest(text: str, tokens: Sequence[TextSpan], behind: int) -> int:
    """Return the number of characters after the token at a border, given those after the border."""
    place = len(text) - behind
    return len(text) - next((token.end for token in tokens if token.start < place < token.end), place)


def _with_neighbour(
    texts: Sequence[tuple[str, Sequence[TextSpan]]], before: int, behind: int
) -> tuple[int, int]:
    """Extend each changed span by one neighbouring token: the next, or the last one at the end."""
    text, tokens = min(texts, key=lambda one: len(one[0]))
    for token in tokens:
        if token.start >= len(text) - behind:
            return len(text) - token.end, before
    return behind, max((token.start for token in tokens if token.end <= before), default=before)


_PLACE = "_place"


_WINDOW = 16_384
"""Items whose labels are held, where items are labelled in another order than their own."""


def label_items(
    question: LabelRequest, items: Sequence[Item], spread: ParallelMap = ONE
) -> Iterator[tuple[Item, pl.DataFrame]]:
    """Yield each item with its labels, in the order of ``items``; see `sonde.tasks.Task.label`.

    Args:
        question: The task and how it is asked.
        items: The items; two with one id, in several files, are labelled each where it stands.
        spread: Processes that read them; any number gives the same.
    """
    if not question.repositories:
        yield from spread.map(_label, question, items)
        return
    for begin in range(0, len(items), _WINDOW):
        yield from _in_repositories(question, items[begin : begin + _WINDOW], spread)


def _in_repositories(
    question: LabelRequest, items: Sequence[Item], spread: ParallelMap
) -> Iterator[tuple[Item, pl.DataFrame]]:
    """Yield the same for a task that looks into repositories; holds the labels of all these items."""
    # Those of one repository stand together, so that what is known of it is sent with few chunks.
    order = sorted(range(len(items)), key=lambda place: items[place].repository)
    answers = spread.map(_label, question, [items[place] for place in order], share=LabelRequest.restrict)
    heights = [0] * len(items)

    def placed() -> Iterator[pl.DataFrame]:
        for place, (_, table) in zip(order, answers, strict=True):
            heights[place] = table.height
            yield table.with_columns(pl.lit(place).alias(_PLACE))

    held = concatenate_tables(placed()).sort(_PLACE, maintain_order=True).drop(_PLACE)
    for item, height, end in zip(items, heights, accumulate(heights), strict=True):
        yield item, held.slice(end - height, height)


def _label(part: ItemChunk[LabelRequest, Item]) -> list[pl.DataFrame]:
    """Label some items; runs in any process."""
    task, items = part.rule.load(), part.items
    if len({item.item_id for item in items}) < len(items):
        return [task.label([item], part.rule.repositories)[item.item_id] for item in items]
    found = task.label(items, part.rule.repositories)
    return [found[item.item_id] for item in items]
