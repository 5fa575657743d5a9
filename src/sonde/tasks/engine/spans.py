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

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.base.frames import concatenate_tables
from sonde.base.registry import is_from_outside
from sonde.corpora import Item
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages.engine.edits import TextSpan
from sonde.languages.engine.text import common_prefix_length
from sonde.tasks.engine.label_checks import label_with_checks
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
        quirks: Single quirks in addition to the mode's preset.
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
        repositories = {
            name: replace(
                repository,
                imports={
                    path: repository.imports[path] for path in repository_paths & repository.imports.keys()
                },
            )
            for name, repository_paths in paths.items()
            for repository in [self.repositories[name]]
        }
        return replace(self, repositories=repositories)


def label_spans(task: Task, item: Item, repositories: Mapping[str, Repository]) -> list[LabelledSpan]:
    """Return all spans of an item that a task labels."""
    rows: Iterable[tuple[Any, ...]]
    if isinstance(task, ItemLabels) and not is_from_outside(task):
        # Of these no table is made: it takes longer to make than the labels do.
        width = 6 if task.schema is PAIR_SCHEMA else 4
        rows = (row[:width] for row in task.rows(item, repositories))
    else:
        table = label_with_checks(task, [item], repositories)[item.item_id]
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
    groups: dict[tuple[str, str], list[LabelledSpan]] = {}
    for row in rows:
        key = row.label, item.text[row.start : row.end] if tokens else ""
        groups.setdefault(key, []).append(row)

    def rank(row: LabelledSpan) -> float:
        return unit_hash(seed, item.item_id, row.start, *(() if tokens else (row.other_start,)))

    return tuple(group[0] if len(group) == 1 else min(group, key=rank) for group in groups.values())


def select_all_spans(
    questions: Sequence[LabelRequest],
    items: Sequence[Item],
    parallel: ParallelMap,
    known: Mapping[str, Picks] = {},
) -> dict[str, Picks]:
    """Select the spans of all items for several tasks at once.

    Args:
        questions: The tasks and how they are asked.
        items: The items.
        parallel: Processes that read them; any number gives the same.
        known: Places that need not be selected again, by task.

    Returns:
        Task to its places.
    """
    spans_by_task: dict[str, dict[str, tuple[LabelledSpan, ...]]] = {}
    items_by_id = {item.item_id: item for item in items}
    numbers_by_item: defaultdict[str, tuple[int, ...]] = defaultdict(tuple)
    for number, question in enumerate(questions):
        known_picks = known.get(question.task, {})
        spans_by_task[question.task] = {
            item: known_picks[item] for item in items_by_id if item in known_picks
        }
        for item in items_by_id.keys() - known_picks.keys():
            numbers_by_item[item] += (number,)
    # Items that the same questions are open of are read together: each is parsed once for all of them.
    items_by_numbers: defaultdict[tuple[int, ...], list[Item]] = defaultdict(list)
    for item_id, item in items_by_id.items():
        if item_id in numbers_by_item:
            items_by_numbers[numbers_by_item[item_id]].append(item)
    for numbers, open_items in items_by_numbers.items():
        open_questions = tuple(questions[number] for number in numbers)
        answers_by_item = parallel.map(_pick, open_questions, open_items, share=_share)
        for item, answers in answers_by_item:
            for question, picks in zip(open_questions, answers, strict=True):
                spans_by_task[question.task][item.item_id] = picks
    return {**spans_by_task}


def _pick(part: ItemChunk[tuple[LabelRequest, ...], Item]) -> list[tuple[tuple[LabelledSpan, ...], ...]]:
    """Select the spans of some items; runs in any process."""
    requests = [(question.load(), question.repositories, question.seed) for question in part.rule]
    return [
        tuple(select_spans(task, item, repositories, seed) for task, repositories, seed in requests)
        for item in part.items
    ]


def _share(questions: tuple[LabelRequest, ...], items: Sequence[Item]) -> tuple[LabelRequest, ...]:
    return tuple(question.restrict(items) for question in questions)


Place = tuple[int, int]
"""First character and one past the last."""


def find_changed_spans(
    text: str, other_text: str, tokens: Sequence[TextSpan], other_tokens: Sequence[TextSpan]
) -> tuple[Place, Place]:
    """Find the span of each of two texts in which they differ.

    What stands before it is the same in both, and so is what stands behind it. A stretch begins and ends
    where code tokens do, so that a name counts whole. Where one text only has more than the other, the token
    behind is part of both stretches (``is None`` and ``is not None`` differ in ``None`` and ``not None``):
    nothing is never likelier than something.

    Args:
        text: A text.
        other_text: The same otherwise.
        tokens: Code tokens of the first, in text order.
        other_tokens: Those of the second.
    """
    prefix_length = common_prefix_length(text, other_text)
    maximum = min(len(text), len(other_text)) - prefix_length
    suffix_length = min(common_prefix_length(text[::-1], other_text[::-1]), maximum)
    texts = ((text, tokens), (other_text, other_tokens))
    # A border that is moved out of a token of one text may then lie inside one of the other.
    while (start := min(_begin(text_tokens, prefix_length) for _, text_tokens in texts)) < prefix_length:
        prefix_length = start
    while (
        end := min(_rest(text, text_tokens, suffix_length) for text, text_tokens in texts)
    ) < suffix_length:
        suffix_length = end
    if min(len(text), len(other_text)) - suffix_length <= prefix_length:
        suffix_length, prefix_length = _with_neighbour(texts, prefix_length, suffix_length)
    return (prefix_length, len(text) - suffix_length), (prefix_length, len(other_text) - suffix_length)


def _begin(tokens: Sequence[TextSpan], position: int) -> int:
    """Return the start of the token that contains a border, else the border itself."""
    return next((token.start for token in tokens if token.start < position < token.end), position)


def _rest(text: str, tokens: Sequence[TextSpan], suffix_length: int) -> int:
    """Return the number of characters after the token at a border, given those after the border."""
    position = len(text) - suffix_length
    return len(text) - next((token.end for token in tokens if token.start < position < token.end), position)


def _with_neighbour(
    texts: Sequence[tuple[str, Sequence[TextSpan]]], prefix_length: int, suffix_length: int
) -> tuple[int, int]:
    """Extend each changed span by one neighbouring token: the next, or the last one at the end."""
    text, tokens = min(texts, key=lambda entry: len(entry[0]))
    for token in tokens:
        if token.start >= len(text) - suffix_length:
            return len(text) - token.end, prefix_length
    return suffix_length, max(
        (token.start for token in tokens if token.end <= prefix_length), default=prefix_length
    )


_POSITION_COLUMN = "_place"


_WINDOW = 16_384
"""Items whose labels are held, where items are labelled in another order than their own."""


def label_items(
    question: LabelRequest, items: Sequence[Item], parallel: ParallelMap = ONE
) -> Iterator[tuple[Item, pl.DataFrame]]:
    """Yield each item with its labels, in the order of ``items``; see `sonde.tasks.Task.label`.

    Args:
        question: The task and how it is asked.
        items: The items; two with one id, in several files, are labelled each where it stands.
        parallel: Processes that read them; any number gives the same.
    """
    if not question.repositories:
        yield from parallel.map(_label, question, items)
        return
    for begin in range(0, len(items), _WINDOW):
        yield from _in_repositories(question, items[begin : begin + _WINDOW], parallel)


def _in_repositories(
    question: LabelRequest, items: Sequence[Item], parallel: ParallelMap
) -> Iterator[tuple[Item, pl.DataFrame]]:
    """Yield the same for a task that looks into repositories; holds the labels of all these items."""
    # Those of one repository stand together, so that what is known of it is sent with few chunks.
    order = sorted(range(len(items)), key=lambda index: items[index].repository)
    answers = parallel.map(_label, question, [items[index] for index in order], share=LabelRequest.restrict)
    heights = [0] * len(items)

    def iterate_tables() -> Iterator[pl.DataFrame]:
        for index, (_, table) in zip(order, answers, strict=True):
            heights[index] = table.height
            yield table.with_columns(pl.lit(index).alias(_POSITION_COLUMN))

    labels = (
        concatenate_tables(iterate_tables())
        .sort(_POSITION_COLUMN, maintain_order=True)
        .drop(_POSITION_COLUMN)
    )
    for item, height, end in zip(items, heights, accumulate(heights), strict=True):
        yield item, labels.slice(end - height, height)


def _label(part: ItemChunk[LabelRequest, Item]) -> list[pl.DataFrame]:
    """Label some items; runs in any process."""
    task, items = part.rule.load(), part.items
    if len({item.item_id for item in items}) < len(items):
        repositories = part.rule.repositories
        return [label_with_checks(task, [item], repositories)[item.item_id] for item in items]
    tables = label_with_checks(task, items, part.rule.repositories)
    return [tables[item.item_id] for item in items]
