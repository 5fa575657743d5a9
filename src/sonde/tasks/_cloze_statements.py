"""Statements that queries are cut from: an import or call, with the place of each level of the name.

The templates are the language's (``imports.toml``). A level is what stands between dots, or whatever a field
gives behind a colon; words of the language, what joins levels and an alias are never asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

CALL, IMPORT, ALIAS, ADVERSARIAL = "call", "import", "alias", "adversarial"
TEMPLATES = (CALL, IMPORT, ALIAS, ADVERSARIAL)


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a name inside a statement: its number in the name, first and last character."""

    index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and the levels that may be asked for in it."""

    text: str
    levels: tuple[Level, ...]


def plain(template: str, levels: Sequence[str]) -> Statement:
    """A call or an import of a name.

    >>> plain("from {module} import {member}", ("a", "b", "c")).text
    'from a.b import c'
    >>> plain("{module:/}::{member}", ("a", "b", "c")).text
    'a/b::c'
    >>> plain("{package}.{member}(", ("a", "b", "c")).text
    'b.c('
    """
    numbered = [(level, number) for number, level in enumerate(levels)]
    module = numbered[:-1]
    fields = {"name": numbered, "module": module, "package": module[-1:], "member": numbered[-1:]}
    return _fill(template, fields)


def aliased(template: str, levels: Sequence[str], imported: int, alias: str) -> Statement:
    """An import under an alias and a call through it.

    Args:
        template: One of the alias forms.
        levels: The levels of the name.
        imported: How many of them the alias stands for; at least one has to follow.
        alias: The alias.
    """
    head = [(level, None) for level in levels[:imported]]
    fields: dict[str, Sequence[tuple[str, int | None]]] = {
        "imported": head,
        "imported_module": head[:-1],
        "imported_member": head[-1:],
        "alias": [(alias, None)],
        "rest": [(level, imported + place) for place, level in enumerate(levels[imported:])],
    }
    return _fill(template, fields)


def _fill(template: str, fields: Mapping[str, Sequence[tuple[str, int | None]]]) -> Statement:
    text, found = "", list[Level]()
    for literal, field, joint, _ in Formatter().parse(template):
        text += literal
        for place, (part, number) in enumerate(fields[field] if field else ()):
            text += (joint or ".") if place else ""
            if number is not None:
                found.append(Level(number, len(text), len(text) + len(part)))
            text += part
    return Statement(text, tuple(found))
