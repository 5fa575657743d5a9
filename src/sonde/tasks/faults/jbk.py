"""Block jumbling: are two blocks of the function swapped?"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator

from sonde.languages.engine.edits import Edits, TextSpan
from sonde.tasks.engine.faults import Exchange

ALIASES = ["block_jumbling"]


class JumbledBlocks(Exchange):
    """Code as written, or with two blocks of the same depth exchanged; it still parses.

    What a condition guards then stands under another, or in the branch for its opposite. One of the variants
    that the authors of INSPECT name as future work.
    """

    name = "jbk"
    facet = "places"

    def pairs(self, text: str, edits: Edits) -> Iterator[tuple[TextSpan, TextSpan]]:
        """Yield pairs of blocks of one depth, neither in the other."""
        bodies = edits.places(text, "body")
        blocks_by_kind: defaultdict[tuple[int, bool], deque[TextSpan]] = defaultdict(deque)
        kinds: list[tuple[int, bool]] = []
        ends: list[int] = []
        for body in bodies:
            # Blocks come in text order, outer ones first: those that end no earlier are around this one.
            index = bisect_left(ends, body.end)
            kinds.append((len(ends) - index, _opens_line(text, body)))
            blocks_by_kind[kinds[-1]].append(body)
            ends.insert(index, body.end)
        varied_kinds = {
            kind for kind, group in blocks_by_kind.items() if len({body.surface for body in group}) > 1
        }
        for body, kind in zip(bodies, kinds, strict=True):
            blocks_by_kind[kind].popleft()
            if kind in varied_kinds:
                yield from (
                    (body, later_block)
                    for later_block in blocks_by_kind[kind]
                    if body.surface != later_block.surface
                )


def _opens_line(text: str, block: TextSpan) -> bool:
    """Return whether a block begins its line; one on the line of its head cannot stand elsewhere."""
    return not text[text.rfind("\n", 0, block.start) + 1 : block.start].strip()


task = JumbledBlocks()
