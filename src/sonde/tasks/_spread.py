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

_WORTH_A_PROCESS = 2_000
"""Functions below which a process more costs longer to start than it saves."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How functions are spread over processes.

    Attributes:
        executor: Public name of the executor.
        workers: Processes at a time; one reads no further than its answers are taken.
    """

    executor: str = "local"
    workers: int = 1

    def processes(self, items: int) -> int:
        """How many processes read so many items; at least one."""
        return max(1, min(self.workers, items // _WORTH_A_PROCESS))

    def over(
        self,
        function: Callable[[Part[Rule]], Sequence[Answer]],
        rule: Rule,
        items: Sequence[Item],
        *,
        share: Callable[[Rule, Sequence[Item]], Rule] | None = None,
    ) -> Iterator[tuple[Item, Answer]]:
        """Each item with its answer, in their order.

        Args:
            function: A top-level function that answers some items.
            rule: What it goes by, the same for all items.
            items: The items.
            share: What of the rule some items need, where all of it is much to send.
        """
        parts = [
            Part(begin, share(rule, some) if share else rule, tuple(some))
            for begin in range(0, len(items), _CHUNK)
            for some in [items[begin : begin + _CHUNK]]
        ]
        workers = self.processes(len(items))
        if workers <= 1:
            for part in parts:
                yield from zip(part.items, function(part), strict=True)
            return
        found: dict[int, Sequence[Answer]] = {}
        for part, answers in EXECUTORS.load(self.executor).map(function, parts, workers=workers):
            found[part.begin] = answers
        for part in parts:
            yield from zip(part.items, found.pop(part.begin), strict=True)


@dataclass(frozen=True, slots=True)
class Part(Generic[Rule]):
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
