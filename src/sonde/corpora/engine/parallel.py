"""Map a function over texts in several processes, local or on a cluster; their number changes no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Generic, TypeVar

from sonde.corpora.engine.corpus import Item, SourceFile
from sonde.executors import EXECUTORS, is_on_cluster

Rule = TypeVar("Rule")


Answer = TypeVar("Answer")


Text = TypeVar("Text", bound=Item | SourceFile)


_CHUNK = 500


_WORTH_FILES = 500


_CHARACTERS = 1_000_000
"""Of one chunk, so that those in flight take little memory however long the texts are."""


AHEAD = 8
"""Chunks a process, at most, that are answered while the first of them is waited for; few at first, since a
few items may be enough."""


@dataclass(frozen=True, slots=True)
class ParallelMap:
    """A map over functions or files in several processes.

    Attributes:
        executor: Public name of the executor.
        workers: Processes at a time.
        worth: Texts below which a process more costs longer to start than it saves; with fewer, none is
            started and no other machine is asked.
    """

    executor: str = "local"
    workers: int = 1
    worth: int = 2_000

    @property
    def is_serial(self) -> bool:
        """Return whether this process reads everything, however much there is."""
        return self.workers <= 1 and not is_on_cluster(self.executor)

    @property
    def of_files(self) -> ParallelMap:
        """Return the same map for whole files, which take longer to read than functions."""
        return replace(self, worth=min(self.worth, _WORTH_FILES))

    def processes(self, items: int) -> int:
        """Return the number of processes for a number of items; at least one."""
        return max(1, min(self.workers, items // self.worth))

    def map(
        self,
        function: Callable[[ItemChunk[Rule, Text]], Iterable[Answer]],
        rule: Rule,
        items: Iterable[Text],
        *,
        share: Callable[[Rule, Sequence[Text]], Rule] | None = None,
    ) -> Iterator[tuple[Text, Answer]]:
        """Yield each item with its answer, in the items' order.

        Items are taken as processes come free, up to some chunks a process at a time: of a corpus no more
        than these are held, and little is read beyond what a caller takes first.

        Args:
            function: A top-level function that maps a chunk of items to answers.
            rule: Its rule, the same for all items.
            items: The items, or whole files.
            share: Reduces the rule to what some items need, if all of it is much to send.
        """
        remaining = iter(items)
        # As many as say how many processes are worth it.
        head = list(islice(remaining, self.workers * self.worth))
        executor = EXECUTORS.load(self.executor if len(head) >= self.worth else "local")
        workers = self.processes(len(head))
        chunks = _chunks(chain(head, remaining), rule, share)
        chunks_by_start: dict[int, tuple[ItemChunk[Rule, Text], Iterable[Answer]]] = {}
        next_start, chunks_per_worker, previous_start = 0, 1, -1
        while previous_start < next_start:
            previous_start = next_start
            for part, answers in executor.map(
                function, islice(chunks, chunks_per_worker * workers), workers=workers
            ):
                chunks_by_start[part.begin] = part, answers
                while next_start in chunks_by_start:
                    chunk, chunk_answers = chunks_by_start.pop(next_start)
                    next_start += len(chunk.items)
                    yield from zip(chunk.items, chunk_answers, strict=True)
            chunks_per_worker = min(2 * chunks_per_worker, AHEAD)


@dataclass(frozen=True, slots=True)
class ItemChunk(Generic[Rule, Text]):
    """A chunk of the items, with the rule that the function applies.

    Attributes:
        begin: Index of the first item among all.
        rule: The rule that the function applies.
        items: The items.
    """

    begin: int
    rule: Rule
    items: tuple[Text, ...]


def _chunks(
    items: Iterable[Text], rule: Rule, share: Callable[[Rule, Sequence[Text]], Rule] | None
) -> Iterator[ItemChunk[Rule, Text]]:
    begin = 0
    for chunk_items in make_chunks(items):
        yield ItemChunk(begin, share(rule, chunk_items) if share else rule, chunk_items)
        begin += len(chunk_items)


def make_chunks(items: Iterable[Text], times: int = 1) -> Iterator[tuple[Text, ...]]:
    """Split items into chunks of `times` jobs; a chunk of long texts has fewer items."""
    chunk: list[Text] = []
    size = 0
    for item in items:
        length = len(item.text) + (len(item.context) if isinstance(item, Item) else 0)
        if chunk and (len(chunk) >= times * _CHUNK or size + length > times * _CHARACTERS):
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(item)
        size += length
    if chunk:
        yield tuple(chunk)


ONE = ParallelMap()
