"""Spreading functions over processes: the answers are the same however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sonde.corpora import Item
from sonde.executors import EXECUTORS

Rule = TypeVar("Rule")
Answer = TypeVar("Answer")

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Spread:
    """How functions are spread over processes.

    Attributes:
        executor: Public name of the executor.
        workers: Processes at a time; one reads no further than its answers are taken.
        worth: Functions below which a process more costs longer to start than it saves.
    """

    executor: str = "local"
    workers: int = 1
    worth: int = 2_000

    def processes(self, items: int) -> int:
        """How many processes read so many items; at least one."""
        return max(1, min(self.workers, items // self.worth))

    def over(
        self,
        function: Callable[[ItemChunk[Rule]], Sequence[Answer]],
        rule: Rule,
        items: Sequence[Item],
        *,
        share: Callable[[Rule, Sequence[Item]], Rule] | None = None,
        ahead: int | None = None,
    ) -> Iterator[tuple[Item, Answer]]:
        """Each item with its answer, in their order.

        Args:
            function: A top-level function that answers some items.
            rule: What it goes by, the same for all items.
            items: The items.
            share: What of the rule some items need, where all of it is much to send.
            ahead: Parts a process that are answered before the first of them is taken, where a few items may
                be enough; None answers all.
        """
        parts = [
            ItemChunk(begin, share(rule, some) if share else rule, tuple(some))
            for begin in range(0, len(items), _CHUNK)
            for some in [items[begin : begin + _CHUNK]]
        ]
        workers = self.processes(len(items))
        if workers <= 1:
            for part in parts:
                yield from zip(part.items, function(part), strict=True)
            return
        step = len(parts) if ahead is None else workers * ahead
        for begin in range(0, len(parts), step):
            some = parts[begin : begin + step]
            found: dict[int, Sequence[Answer]] = {}
            for part, answers in EXECUTORS.load(self.executor).map(function, some, workers=workers):
                found[part.begin] = answers
            for part in some:
                yield from zip(part.items, found.pop(part.begin), strict=True)


@dataclass(frozen=True, slots=True)
class ItemChunk(Generic[Rule]):
    """Some of the items, with what is to be done.

    Attributes:
        begin: Place of the first among all.
        rule: What the function goes by.
        items: The items.
    """

    begin: int
    rule: Rule
    items: tuple[Item, ...]


ONE = Spread()
