"""Statements that queries are cut from: an import or call, with the place of each level of the name.

The templates are the language's (``imports.toml``). A level is what stands between dots; words of the
language, dots and an alias are never asked for.
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
    """
    last = len(levels) - 1
    numbers = {"name": range(len(levels)), "module": range(last), "member": range(last, last + 1)}
    return _fill(template, {field: _dotted(levels, which) for field, which in numbers.items()})


def aliased(template: str, levels: Sequence[str], imported: int, alias: str) -> Statement:
    """An import under an alias and a call through it.

    Args:
        template: One of the alias forms.
        levels: The levels of the name.
        imported: How many of them the alias stands for; at least one has to follow.
        alias: The alias.
    """
    head = list(levels[:imported])
    fixed = {
        "imported": ".".join(head),
        "imported_module": ".".join(head[:-1]),
        "imported_member": head[-1],
        "alias": alias,
    }
    return _fill(
        template,
        {field: ((text, None),) for field, text in fixed.items()}
        | {"rest": _dotted(levels, range(imported, len(levels)))},
    )


def _dotted(levels: Sequence[str], which: range) -> tuple[tuple[str, int | None], ...]:
    parts: list[tuple[str, int | None]] = []
    for number in which:
        parts += [(".", None)] * bool(parts)
        parts.append((levels[number], number))
    return tuple(parts)


def _fill(template: str, fields: Mapping[str, Sequence[tuple[str, int | None]]]) -> Statement:
    text, found = "", list[Level]()
    for literal, field, _, _ in Formatter().parse(template):
        text += literal
        for part, number in fields[field] if field else ():
            if number is not None:
                found.append(Level(number, len(text), len(text) + len(part)))
            text += part
    return Statement(text, tuple(found))
