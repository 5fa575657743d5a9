"""Facets: optional capabilities of a language, such as metrics, relations, imports or edits.

They keep the `Language` protocol small, since each is used by a few tasks. A language has the facet
``imports`` if its folder holds ``imports.py``; a task that needs a facet refuses the other languages.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, TypeVar

from sonde.base.errors import UsageError
from sonde.base.registry import Registry, find_entry_points
from sonde.languages.engine.grammar import Language, has_grammar

F = TypeVar("F")


LANGUAGES: Registry[Language] = Registry("sonde.languages", "language", "language", protocols=(Language,))

QUERY_FACETS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tokens": ("sonde.languages.engine.metrics", ()),
    "edits": ("sonde.languages.engine.edits", ()),
    "keywords": ("sonde.languages.engine.edits", ("edits.toml",)),
    "places": ("sonde.languages.engine.edits", ("edits.scm",)),
    "operators": ("sonde.languages.engine.edits", ("edits.scm", "edits.toml")),
    "program": ("sonde.languages.engine.program_tokens", ()),
    "metrics": ("sonde.languages.engine.metrics", ("metrics.scm",)),
    "tagging": ("sonde.languages.engine.tagging", ("tagging.toml",)),
    "flow": ("sonde.languages.engine.data_flow", ("locals.scm",)),
    "dependencies": ("sonde.languages.engine.data_flow", ("locals.scm", "flow.scm")),
    "misuse": ("sonde.languages.engine.bug_sites", ("locals.scm",)),
    "bugs": ("sonde.languages.engine.bug_sites", ("locals.scm", "bugs.scm", "bugs.toml")),
    "relations": ("sonde.languages.engine.relations", ("relations.toml",)),
    "deprecations": ("sonde.languages.engine.deprecations", ("deprecations.scm", "deprecations.toml")),
    "edges": ("sonde.languages.engine.relation_query", ("relations.scm",)),
}
"""Facets implemented once for all languages: the module, and the files that a language's folder must hold.

A facet without files needs only the tokens of a grammar. A module may implement several facets, the later
ones of which need more files.
"""


ENTRY_POINT_GROUP = "sonde.facets"
"""Entry point group for facets that a package adds to an existing language, named ``<language>.<facet>``."""


def get_facet(language: str, name: str, protocol: type[F]) -> F:
    """Return a facet of a language.

    The module ``<language>/<name>.py`` defines ``facet(language)``, which is called once with the language
    and returns an object with the methods of ``protocol``. A facet defined by queries and tables alone
    (`QUERY_FACETS`) needs no module: a folder with the files has it. A package may add a facet by an entry
    point (`ENTRY_POINT_GROUP`), which takes precedence over `QUERY_FACETS`.

    Args:
        language: Public name of the language.
        name: Name of the facet, the stem of its module: ``"metrics"``, ``"relations"``, ...
        protocol: Runtime-checkable protocol of the facet, which is the return type.

    Raises:
        UnknownNameError: No language has this name.
        UsageError: The language does not have this facet; the message names those that do.
    """
    facet: F = _get_checked_facet(language, name, protocol)
    return facet


@functools.cache
def _get_checked_facet(language: str, name: str, protocol: type[Any]) -> Any:
    """Return a facet after checking it against its protocol, once, since facets are fetched per function."""
    facet = _load_facet(language, name)
    if not isinstance(facet, protocol):
        raise TypeError(f"facet {name!r} of {language!r} does not answer {protocol.__name__}")
    return facet


@functools.cache
def has_facet(language: str, name: str) -> bool:
    """Return whether a language has a facet, without importing it."""
    return bool(_find_module(language, name))


def _find_module(language: str, name: str) -> str:
    """Find the module that defines a facet: the language's own, a plugin's or the shared one; "" if none."""
    package = LANGUAGES.module_name(language)
    if importlib.util.find_spec(f"{package}.{name}") is not None:
        return f"{package}.{name}"
    entry_point = find_entry_points(ENTRY_POINT_GROUP).get(f"{language}.{name}")
    if entry_point is not None:
        return entry_point.module
    module, required_files = QUERY_FACETS.get(name, ("", ()))
    is_available = (
        module and has_grammar(package) and all((files(package) / file).is_file() for file in required_files)
    )
    return module if is_available else ""


@functools.cache
def _load_facet(language: str, name: str) -> Any:
    implementation = LANGUAGES.load(language)
    if not has_facet(language, name):
        alternatives = (
            ", ".join(candidate for candidate in LANGUAGES.names() if has_facet(candidate, name)) or "none"
        )
        raise UsageError(f"language {language!r} has no {name}; languages that have: {alternatives}")
    return importlib.import_module(_find_module(language, name)).facet(implementation)
