"""Items written before a day and items written since, so that both can be held against each other.

A model that was trained before the day may have read the older ones and cannot have read the newer ones. An
item that has lines of both times is in neither, and a newer one that nearly repeats an older one is left out:
who has read the older one knows it too.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence

from sonde.base.errors import InputError
from sonde.corpora._candidates import CandidateItem
from sonde.corpora._corpus import Item
from sonde.corpora._duplicates import NearDuplicateIndex, duplicate_tokens

BEFORE, AFTER = "before", "after"

LIKE_OLDER = "near duplicate of an older one"
BOTH_TIMES = "changed on both sides of the cut-off date"
ONE_SIDED = "nothing on the other side of the cut-off date in its cluster"


def in_period(item: Item, cut_off: str) -> Item:
    """The item with its `Item.period`; none where it has lines of both times.

    Args:
        item: An item with its days.
        cut_off: The first day of the later time.
    """
    period = BEFORE if item.newest < cut_off else AFTER if item.oldest >= cut_off else ""
    return dataclasses.replace(item, period=period)


def on_both_sides(
    items: Sequence[CandidateItem], cut_off: str, leave_out: Callable[[str, int, str], None]
) -> list[CandidateItem]:
    """The items that lie wholly on one side of a day, of clusters that have some on each.

    Args:
        items: Items with their days and periods, each content once.
        cut_off: The first day of the later time, for the message.
        leave_out: Told the reason, 1 and the path of each item that is left out.

    Returns:
        The items in their order.

    Raises:
        InputError: No cluster has items on both sides.
    """
    older: defaultdict[str, NearDuplicateIndex] = defaultdict(NearDuplicateIndex)
    for item in items:
        if item.period != AFTER:
            older[item.language].add(item.item_id, duplicate_tokens(item.text))
    sided: list[CandidateItem] = []
    for item in items:
        if not item.period:
            leave_out(BOTH_TIMES, 1, item.path)
        elif item.period == AFTER and older[item.language].find(duplicate_tokens(item.text)) is not None:
            leave_out(LIKE_OLDER, 1, item.path)
        else:
            sided.append(item)
    sides = {(item.language, item.cluster, item.period) for item in sided}
    kept: list[CandidateItem] = []
    for item in sided:
        if all((item.language, item.cluster, side) in sides for side in (BEFORE, AFTER)):
            kept.append(item)
        else:
            leave_out(ONE_SIDED, 1, item.path)
    if items and not kept:
        first, last = min(item.oldest for item in items), max(item.newest for item in items)
        raise InputError(
            f"no cluster has items on both sides of the cut-off date {cut_off}: the corpus was written from "
            f"{first} to {last}; name another date, or a corpus with older and newer code of each repository"
        )
    return kept
