"""Items in other words of the same program; see `sonde.languages._transforms`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from sonde.base.errors import UsageError
from sonde.corpora._corpus import Item, item_id
from sonde.languages import LANGUAGES
from sonde.languages._transforms import DOCSTRINGS, MISLEAD, ChangedText, Transforms
from sonde.languages._treesitter import TreeSitterLanguage

T = TypeVar("T")

_NEIGHBOURS = 20
"""Functions whose names may mislead in one before them."""

SAME_AS_ANOTHER = "the same as another once changed"


def transformed(
    items: Sequence[Item], transform: str, seed: int, leave_out: Callable[[str, int, str], None]
) -> tuple[Item, ...]:
    """The items with their texts changed, each under an id of its own and with that of its original.

    Args:
        items: The items as they stand in their files.
        transform: One of `sonde.languages._transforms.TRANSFORMS`.
        seed: Of what is drawn.
        leave_out: Is told why an item is left out, with a count and its path: what has nothing to change says
            nothing of the change, and what the change would not keep is not shown.

    Raises:
        UsageError: A language is no code.
    """
    found: dict[str, Item] = {}
    for language in sorted({item.language for item in items}):
        rules = Transforms(code_language(language, transform))
        mine = [item for item in items if item.language == language]
        names = [rules.names(item.text) for item in mine] if transform == MISLEAD else []
        for place, item in enumerate(mine):
            change = change_of(item, rules, transform, seed, behind(names, place + 1))
            if isinstance(change, str):
                leave_out(change, 1, item.path)
                continue
            changed = transformed_item(item, change.text, transform)
            if changed.item_id in found:
                leave_out(SAME_AS_ANOTHER, 1, item.path)
            else:
                found[changed.item_id] = changed
    return tuple(found.values())


def behind(ordered: Sequence[T], first: int) -> Iterator[T]:
    """Those whose names may mislead in the one before ``first``; behind the last stands the first of all.

    Of few functions it is among them itself, and the names that a text holds never mislead in it.
    """
    for step in range(min(_NEIGHBOURS, len(ordered))):
        yield ordered[(first + step) % len(ordered)]


def change_of(
    item: Item, rules: Transforms, transform: str, seed: int, others: Iterable[Sequence[str]] = ()
) -> ChangedText | str:
    """What a transform makes of an item's text, or why it makes nothing of it.

    Args:
        item: The item.
        rules: Those of its language.
        transform: One of `sonde.languages._transforms.TRANSFORMS`.
        seed: Of what is drawn.
        others: What other functions call their variables, for names that mislead.
    """
    if item.tags or item.given:
        return "labels of its own on characters"
    change = rules.change(item.text, transform, seed, [name for names in others for name in names])
    if change.text == item.text:
        return f"nothing to change by {transform}"
    kept = change.text and rules.keeps(item.text, change.text, transform)
    return change if kept else f"{transform} would not keep it"


def transformed_item(item: Item, text: str, transform: str) -> Item:
    """The item with a changed text, under an id of its own and with that of its original."""
    name = item_id(text, item.language, item.unit)
    docstring = "" if transform == DOCSTRINGS else item.docstring
    return dataclasses.replace(item, item_id=name, text=text, original=item.item_id, docstring=docstring)


def code_language(language: str, transform: str) -> TreeSitterLanguage:
    """The language, whose texts a transform can change.

    Raises:
        UsageError: It is no code.
    """
    loaded = LANGUAGES.load(language)
    if not isinstance(loaded, TreeSitterLanguage):
        raise UsageError(f"transform = {transform!r} changes code, and {language!r} is none")
    return loaded
