"""Languages: text in, syntax trees, tokens, functions, definitions and calls out."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from sonde.base.registry import Registry
from sonde.languages.engine.components import facet_of, has_facet
from sonde.languages.engine.grammar import Language, has_table, read_table
from sonde.languages.engine.tree import (
    CONSTRUCT_LABELS,
    TOKEN_KINDS,
    TOKEN_ROLES,
    Call,
    CodeTokens,
    Construct,
    Definition,
    Function,
    Tree,
)

LANGUAGES: Registry[Language] = Registry("sonde.languages", "language", "language", protocols=(Language,))


def corpora_of(language: str) -> tuple[str, ...]:
    """Corpora of many packages that a machine has or can be given, the demo's first; see `language.toml`.

    Raises:
        SondeError: There is no such language.
    """
    return tuple(_declared(LANGUAGES.hand_in(language), "corpora"))


@cache
def reasons_without(language: str) -> Mapping[str, str]:
    """Tasks that a language cannot have, each with the reason, as its ``language.toml`` declares them."""
    declared = _declared(language, "without")
    return MappingProxyType({task: entry["reason"] for entry in declared for task in entry["tasks"]})


def _declared(language: str, key: str) -> Sequence[Any]:
    """A list of a language's ``language.toml``; empty where it has none."""
    package = LANGUAGES.module_name(language)
    return read_table(package, "language").get(key, ()) if has_table(package, "language") else ()


def version_of(language: str) -> str:
    """What of a language's rules is part of a key: its version, and of one handed in its content as well."""
    return LANGUAGES.load(language).version + LANGUAGES.source_hash(language)


def parses(language: str, text: str) -> bool:
    """Return whether the grammar reads all of a text, which may be a function that is no file of its own.

    What it cannot read lies in the tree as fragments, and so do the labels of it.
    """
    from sonde.languages.engine.treesitter import TreeSitterLanguage

    found = LANGUAGES.load(language)
    if isinstance(found, TreeSitterLanguage):
        return not found.reading(text).root.has_error
    return not found.parse(text).has_error


@cache
def spelled(language: str) -> str:
    """A language as prose writes it: as its own summary begins, else with a capital.

    >>> spelled("php"), spelled("java"), spelled("text")
    ('PHP', 'Java', 'Text')
    """
    summary = next((header.summary for header in LANGUAGES.headers() if header.name == language), "")
    word = summary.partition(" ")[0].rstrip(",:")
    return word if word.lower() == language.lower() else language.capitalize()


__all__ = [
    "CONSTRUCT_LABELS",
    "LANGUAGES",
    "TOKEN_KINDS",
    "TOKEN_ROLES",
    "Call",
    "CodeTokens",
    "Construct",
    "Definition",
    "Function",
    "Language",
    "Tree",
    "corpora_of",
    "facet_of",
    "has_facet",
    "parses",
    "reasons_without",
    "spelled",
    "version_of",
]
