"""Languages: from a text to its syntax tree, tokens, functions, definitions and calls."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from sonde.languages.engine.language import LANGUAGES, Language, get_facet, has_facet, read_table
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


def list_corpora(language: str) -> tuple[str, ...]:
    """Return the multi-package corpora that a language declares in `language.toml`, the demo's first.

    Raises:
        SondeError: There is no such language.
    """
    return tuple(_read_list(LANGUAGES.hand_in(language), "corpora"))


@cache
def get_unsupported_tasks(language: str) -> Mapping[str, str]:
    """Return the tasks that a language cannot support, each with the reason given in `language.toml`."""
    entries = _read_list(language, "without")
    return MappingProxyType({task: entry["reason"] for entry in entries for task in entry["tasks"]})


def _read_list(language: str, key: str) -> Sequence[Any]:
    """Read a list of a language's `language.toml`; empty if the file or the key is missing."""
    return read_table(LANGUAGES.module_name(language), "language").get(key, ())


def get_language_version(language: str) -> str:
    """Return the version of a language's rules for keys; of a user-supplied language, with its hash."""
    return LANGUAGES.load(language).version + LANGUAGES.source_hash(language)


def parses(language: str, text: str) -> bool:
    """Return whether the grammar parses a text without an error, if need be inside a wrapper.

    Where it does not, the tree holds fragments, and labels derived from it are unreliable.
    """
    from sonde.languages.engine.treesitter import TreeSitterLanguage

    implementation = LANGUAGES.load(language)
    if isinstance(implementation, TreeSitterLanguage):
        return not implementation.reading(text).root.has_error
    return not implementation.parse(text).has_error


@cache
def format_language(language: str) -> str:
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
    "format_language",
    "get_facet",
    "get_language_version",
    "get_unsupported_tasks",
    "has_facet",
    "list_corpora",
    "parses",
]
