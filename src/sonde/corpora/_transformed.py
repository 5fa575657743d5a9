"""Items in other words of the same program; see `sonde.languages._transforms`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from sonde.base.errors import UsageError
from sonde.corpora._corpus import Item, item_id
from sonde.languages import LANGUAGES
from sonde.languages._transforms import COMMENTS, DOCSTRINGS, LAYOUT, MISLEAD, RENAME, SHUFFLE, Transforms
from sonde.languages._treesitter import TreeSitterLanguage

_NEIGHBOURS = 20
"""Functions whose names may mislead in one before them."""


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
        loaded = LANGUAGES.load(language)
        if not isinstance(loaded, TreeSitterLanguage):
            raise UsageError(f"transform = {transform!r} changes code, and {language!r} is none")
        mine = [item for item in items if item.language == language]
        for item, text in _texts(mine, transform, seed, Transforms(loaded)):
            if item.tags or item.given:
                leave_out("labels of its own on characters", 1, item.path)
            elif text == item.text:
                leave_out(f"nothing to change by {transform}", 1, item.path)
            elif not text:
                leave_out(f"{transform} would not keep it", 1, item.path)
            else:
                name = item_id(text, language, item.unit)
                changed = dataclasses.replace(item, item_id=name, text=text, original=item.item_id)
                if name in found:
                    leave_out("the same as another once changed", 1, item.path)
                elif transform == DOCSTRINGS:
                    found[name] = dataclasses.replace(changed, docstring="")
                else:
                    found[name] = changed
    return tuple(found.values())


def _texts(items: Sequence[Item], transform: str, seed: int, rules: Transforms) -> Iterator[tuple[Item, str]]:
    """Each item with its changed text, its own where nothing is to be changed, none where it is not kept."""
    names = [rules.names(item.text) for item in items] if transform == MISLEAD else []
    for place, item in enumerate(items):
        text = item.text
        if transform == RENAME:
            changed = rules.renamed(text, rules.neutral(text))
        elif transform == SHUFFLE:
            changed = rules.renamed(text, rules.shuffled(text, seed))
        elif transform == MISLEAD:
            behind = [*names[place + 1 :], *names[:place]][:_NEIGHBOURS]
            changed = rules.renamed(text, rules.misleading(text, [one for some in behind for one in some]))
        elif transform == LAYOUT:
            changed = rules.laid_out(text)
        elif transform == COMMENTS:
            changed = rules.uncommented(text)
        elif transform == DOCSTRINGS:
            changed = rules.undocumented(text)
        else:
            changed = rules.swapped(text, seed)
        kept = changed == text or rules.keeps(text, changed, transform)
        yield item, changed if kept else ""
