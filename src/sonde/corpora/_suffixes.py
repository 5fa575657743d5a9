"""Which language a file is written in, by its suffix."""

from __future__ import annotations

from pathlib import PurePosixPath

from sonde.languages import LANGUAGES

_PROSE = {"text"}
"""Read where it is asked for by name: notes and licences beside code are no code."""


def suffix_table(languages: tuple[str, ...]) -> dict[str, str]:
    """File suffix (with its dot) to the public name of its language.

    Args:
        languages: Public names; empty means every language of code.

    Raises:
        UnknownNameError: A language that does not exist.
    """
    names = languages or sorted(set(LANGUAGES.names()) - _PROSE)
    return {suffix: name for name in names for suffix in LANGUAGES.load(name).suffixes}


def language_of(path: str, table: dict[str, str]) -> str | None:
    """The language of a path by a `suffix_table`; None where no wanted language has its suffix."""
    return table.get(PurePosixPath(path).suffix)


def language_of_path(path: str) -> str | None:
    """The language of a path by its suffix, prose included; None where no language has it."""
    return language_of(path, suffix_table(LANGUAGES.names()))
