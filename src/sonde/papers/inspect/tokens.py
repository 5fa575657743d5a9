"""Classes of tokens as INSPECT's released files have them."""

from __future__ import annotations

from collections.abc import Set

from sonde.corpora import Item
from sonde.languages import facet_of
from sonde.languages._leaves import Leaf
from sonde.languages._tagging import Tagged, TaggingOf, follows, preceded
from sonde.papers.declared import lines
from sonde.papers.inspect.tables import tables
from sonde.tasks._measured import metrics
from sonde.tasks.tokens.idn import Identifiers
from sonde.tasks.tokens.ktx import Keywords


class KeywordText(Keywords):
    """KTX: Java's classes by the text alone.

    Class, new, extends and interface are modifiers, instanceof is control flow, and every question mark and
    colon is a unary operator.
    """

    quirks = lines(__name__, "inspect.keyword_text")

    def tags(self, item: Item, imports: str) -> tuple[Tagged, ...]:
        """Keywords, operators and signs with their class."""
        classes = tables(item.language).keywords
        if classes is None:
            return super().tags(item, imports)
        listed = metrics(item.language).leaves(item.text)
        return tuple(
            Tagged(leaf.start, leaf.end, classes[leaf.text]) for leaf in listed if leaf.text in classes
        )


class LeadingNames(Identifiers):
    """IDN: a package is whatever leads a dotted expression, which is what the released labels look like.

    They are too inconsistent for any rule to reproduce them.
    """

    quirks = lines(__name__, "inspect.leading_names")

    def tags(self, item: Item, imports: str) -> tuple[Tagged, ...]:
        """Identifiers with what they name."""
        facet = facet_of(item.language, "tagging", TaggingOf)
        return facet.named_in(item.text, leading(facet.metrics.leaves(item.text), facet.kinds))


def leading(listed: tuple[Leaf, ...], kinds: Set[str]) -> set[int]:
    """First characters of the names that lead a dotted expression."""
    return {
        leaf.start
        for place, leaf in enumerate(listed)
        if leaf.kind in kinds and follows(listed, place, ".") and not preceded(listed, place, ".")
    }


ktx, idn = KeywordText(), LeadingNames()
