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
from sonde.base.plugins import offered
from sonde.base.registry import Registry
from sonde.languages.engine.grammar import has_grammar

F = TypeVar("F")


LANGUAGE_PACKAGE = "sonde.languages"


BY_QUERY: Mapping[str, tuple[str, tuple[str, ...]]] = {
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


ADDED = "sonde.facets"
"""Entry point group for facets that a package adds to an existing language, named ``<language>.<facet>``."""


def facet_of(language: str, name: str, protocol: type[F]) -> F:
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
    found: F = _checked(language, name, protocol)
    return found


@functools.cache
def _checked(language: str, name: str, protocol: type[Any]) -> Any:
    """Return a facet after checking it against its protocol, once, since facets are fetched per function."""
    found = _facet(language, name)
    if not isinstance(found, protocol):
        raise TypeError(f"facet {name!r} of {language!r} does not answer {protocol.__name__}")
    return found


@functools.cache
def has_facet(language: str, name: str) -> bool:
    """Return whether a language has a facet, without importing it."""
    return bool(_module(language, name))


def _module(language: str, name: str) -> str:
    """Find the module that defines a facet: the language's own, a plugin's or the shared one; "" if none."""
    package = _languages().module_name(language)
    if importlib.util.find_spec(f"{package}.{name}") is not None:
        return f"{package}.{name}"
    added = offered(ADDED).get(f"{language}.{name}")
    if added is not None:
        return added.module
    module, needed = BY_QUERY.get(name, ("", ()))
    by_query = module and has_grammar(package) and all((files(package) / file).is_file() for file in needed)
    return module if by_query else ""


@functools.cache
def _facet(language: str, name: str) -> Any:
    languages = _languages()
    of = languages.load(language)
    if not has_facet(language, name):
        able = ", ".join(other for other in languages.names() if has_facet(other, name)) or "none"
        raise UsageError(f"language {language!r} has no {name}; languages that have: {able}")
    return importlib.import_module(_module(language, name)).facet(of)


def _languages() -> Registry[Any]:
    return Registry(LANGUAGE_PACKAGE, "language", "language")
