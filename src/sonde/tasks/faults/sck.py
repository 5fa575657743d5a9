"""SCK: is one keyword replaced by another of its category?"""

from __future__ import annotations

from sonde.tasks.engine.faults import KeywordSwitch

SYNONYMS = ("swapped keyword", "wrong keyword")


class SwitchCompatibleKeyword(KeywordSwitch):
    """Code as written, or with one keyword replaced by another of its category; it still parses.

    Categories are those of ``languages/<language>/edits.toml``: for Java those of the paper (primitive
    types, flow, modifiers, error handling) and the reserved literals; Python has no primitive types and no
    modifiers, its categories are ``and or``, ``is in``, ``break continue pass``, ``return raise yield``,
    ``True False None`` and the like.
    """

    name = "sck"
    same_category = True


task = SwitchCompatibleKeyword()
