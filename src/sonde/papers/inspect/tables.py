"""Tables of a language that INSPECT published data of; empty for any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sonde.languages._leaves import surfaces
from sonde.languages._settings import read_table

_PACKAGE = "sonde.papers.inspect"


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """What the released files count and call otherwise.

    Attributes:
        operators: Signs that are operators wherever they stand.
        keywords: From the text of a keyword or sign to its class.
    """

    operators: frozenset[str] = frozenset()
    keywords: Mapping[str, str] | None = None


@cache
def tables(language: str) -> PublishedTables:
    """The tables of a language, from the file of its name."""
    if not (files(_PACKAGE) / f"{language}.toml").is_file():
        return PublishedTables()
    raw = read_table(_PACKAGE, language)
    return PublishedTables(frozenset(raw["operators"]), surfaces(raw["keywords"]))
