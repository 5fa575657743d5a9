"""Items that a grammar cannot read as a whole, whose labels are of fragments: they are counted and named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sonde.corpora import Item
from sonde.corpora.engine.parallel import ItemChunk, Spread
from sonde.languages import parses

DROPPED = "does not parse"
"""The reason by which data sets count what they leave out."""

_NAMED = 3


def unparsed_items(items: Iterable[Item], spread: Spread) -> list[Item]:
    """Return the items with a parse error, in their order.

    Args:
        items: The items.
        spread: Processes that parse; any number gives the same.
    """
    return [item for item, parsed in spread.over(_parse, None, items) if not parsed]


def _parse(part: ItemChunk[None, Item]) -> list[bool]:
    """Whether some items parse; runs in any process."""
    return [parses(item.language, item.text) for item in part.items]


def unparsed_account(corpus: str, unparsed: Sequence[Item], total: int, unit: str) -> str:
    """Return a line on the items with a parse error; empty where there is none.

    >>> unparsed_account("local:a", [Item("id", "f(", "python", "function", "a.py", "f")], 9, "function")
    'local:a: 1 of 9 functions does not parse (a.py f): its labels are of what could be read'
    """
    if not unparsed:
        return ""
    named = ", ".join(f"{item.path} {item.name}".strip() for item in unparsed[:_NAMED])
    more = f" and {len(unparsed) - _NAMED:,} more" if len(unparsed) > _NAMED else ""
    verb, whose = ("does", "its") if len(unparsed) == 1 else ("do", "their")
    return (
        f"{corpus}: {len(unparsed):,} of {total:,} {unit}s {verb} not parse ({named}{more}): "
        f"{whose} labels are of what could be read"
    )


def dropped_account(corpus: str, language: str, number: int) -> str:
    """Return a line on the functions with a parse error that data sets leave out.

    >>> dropped_account("local:a", "python", 1)
    'local:a in python: data sets leave out 1 function that does not parse'
    """
    what = "1 function that does" if number == 1 else f"{number:,} functions that do"
    return f"{corpus} in {language}: data sets leave out {what} not parse"
