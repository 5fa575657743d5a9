"""Statement jumbling: are two statements of a block swapped, of which one depends on the other?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from sonde.languages.engine.edits import Edits, TextSpan
from sonde.tasks.engine.faults import Exchange

ALIASES = ["statement_jumbling"]


class JumbledStatements(Exchange):
    """Code as written, or with two statements of one block exchanged; it still parses.

    The later one has a name that the earlier one gives a value, so that their order matters: what is used is
    not yet there, or no longer. One of the variants that the authors of INSPECT name as future work.
    """

    name = "jst"
    facet = "places"

    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        """Yield two statements of one block, the later of which needs the earlier one."""
        bindings, names = _Names(edits.places(text, "bound")), _Names(edits.places(text, "name"))
        for block in edits.blocks(text):
            # By name and statement, so that many statements alike are passed over at once.
            using: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
            for number, statement in enumerate(block):
                for name in names.find_names(statement):
                    using[name][statement.surface].append(number)
            for number, statement in enumerate(block):
                later_indices = {
                    second
                    for name in bindings.find_names(statement)
                    if name in using
                    for surface, numbers in using[name].items()
                    if surface != statement.surface
                    for second in numbers[bisect_right(numbers, number) :]
                }
                yield from ((statement, block[second]) for second in sorted(later_indices))


class _Names:
    """Names by where they stand; ``occurrences`` are in text order."""

    def __init__(self, occurrences: tuple[TextSpan, ...]) -> None:
        self._places = occurrences
        self._starts = [occurrence.start for occurrence in occurrences]

    def find_names(self, statement: TextSpan) -> set[str]:
        """Return the names in a statement."""
        first = bisect_left(self._starts, statement.start)
        stop = bisect_right(self._starts, statement.end)
        return {
            occurrence.surface for occurrence in self._places[first:stop] if occurrence.end <= statement.end
        }


task = JumbledStatements()
