"""Languages: from a text to its syntax tree, tokens, functions, definitions and calls."""

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
    """Return the multi-package corpora that a language declares in `language.toml`, the demo's first.

    Raises:
        SondeError: There is no such language.
    """
    return tuple(_declared(LANGUAGES.hand_in(language), "corpora"))


@cache
def reasons_without(language: str) -> Mapping[str, str]:
    """Return the tasks that a language cannot support, each with the reason given in `language.toml`."""
    declared = _declared(language, "without")
    return MappingProxyType({task: entry["reason"] for entry in declared for task in entry["tasks"]})


def _declared(language: str, key: str) -> Sequence[Any]:
    """Read a list of a language's `language.toml`; empty if the file or the key is missing."""
    package = LANGUAGES.module_name(language)
    return read_table(package, "language").get(key, ()) if has_table(package, "language") else ()


def version_of(language: str) -> str:
    """Return the version of a language's rules for keys; of a user-supplied language, with its hash."""
    return LANGUAGES.load(language).version + LANGUAGES.source_hash(language)


def parses(language: str, text: str) -> bool:
    """Return whether the grammar parses a text without an error, if need be inside a wrapper.

    Where it does not, the tree holds fragments, and labels derived from it are unreliable.
    """
    from sonde.languages.engine.treesitter import TreeSitterLanguage

    found = LANGUAGES.load(language)
    if isinstance(found, TreeSitterLanguage):
        return not found.reading(text).root.has_error
    return not found.parse(text).has_error


@cache
def spelled(language: str) -> str:
    """Format a language's name for prose, as its summary spells it, else capitalised.

    >>> format_language("php"), format_language("java"), format_language("text")
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
