"""Block depth: how many blocks enclose a token, from 0 to 3 and `4+` for four or more.

Blocks are those that MXN counts: the function's body is 1, the body of an ``if`` in it 2. A model that writes
code has to track this number, by braces or by indentation.
"""

from __future__ import annotations

from sonde.corpora import Item
from sonde.languages import get_facet
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.tagging import TaggedToken
from sonde.tasks.engine.task_types import TokenClasses

SYNONYMS = ("nesting depth", "indentation level", "scope depth")

DEEPEST = 4


class BlockDepth(TokenClasses):
    """The number of blocks that a token stands in."""

    name = "block_depth"
    labels = (*map(str, range(DEEPEST)), f"{DEEPEST}+")
    facet = "metrics"

    def tags(self, item: Item, imports: str) -> tuple[TaggedToken, ...]:
        """Return every token with its depth."""
        depths = get_facet(item.language, self.facet, Metrics).depths(item.text)
        return tuple(
            TaggedToken(leaf.start, leaf.end, self.labels[min(depth, DEEPEST)]) for leaf, depth in depths
        )


task = BlockDepth()
