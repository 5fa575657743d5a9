"""The labels of items as tables, made in several processes: what one item gives depends on no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import polars as pl

from sonde.base.frames import one_below_another
from sonde.corpora import Item
from sonde.corpora._spread import ONE, ItemChunk, Spread
from sonde.tasks._picked import Question, around

_PLACE = "_place"

_WINDOW = 16_384
"""Items whose labels are held, where items are labelled in another order than their own."""


def label_items(
    question: Question, items: Sequence[Item], spread: Spread = ONE
) -> Iterator[tuple[Item, pl.DataFrame]]:
    """Each item with its labels as `sonde.tasks.Task.label` gives them, in their order.

    Args:
        question: The task and how it is asked.
        items: The items; two with one id, in several files, are labelled each where it stands.
        spread: Processes that read them; any number gives the same.
    """
    if not question.repositories:
        yield from spread.over(_label, question, items)
        return
    for begin in range(0, len(items), _WINDOW):
        yield from _in_repositories(question, items[begin : begin + _WINDOW], spread)


def _in_repositories(
    question: Question, items: Sequence[Item], spread: Spread
) -> Iterator[tuple[Item, pl.DataFrame]]:
    """The same for a task that looks into repositories; the labels of all these items are held."""
    # Those of one repository stand together, so that what is known of it is sent with few chunks.
    order = sorted(range(len(items)), key=lambda place: items[place].repository)
    answers = spread.over(_label, question, [items[place] for place in order], share=around)
    heights = [0] * len(items)

    def placed() -> Iterator[pl.DataFrame]:
        for place, (_, table) in zip(order, answers, strict=True):
            heights[place] = table.height
            yield table.with_columns(pl.lit(place).alias(_PLACE))

    held = one_below_another(placed()).sort(_PLACE, maintain_order=True).drop(_PLACE)
    for item, height, end in zip(items, heights, accumulate(heights), strict=True):
        yield item, held.slice(end - height, height)


def _label(part: ItemChunk[Question, Item]) -> list[pl.DataFrame]:
    """The tables of some items; runs in any process."""
    from sonde.tasks import TASKS

    asked, items = part.rule, part.items
    task = TASKS.load(asked.task)

    def tables(some: Sequence[Item]) -> dict[str, pl.DataFrame]:
        return task.label(some, asked.repositories, mode=asked.mode, quirks=asked.quirks)

    if len({item.item_id for item in items}) < len(items):
        return [tables([item])[item.item_id] for item in items]
    found = tables(items)
    return [found[item.item_id] for item in items]
