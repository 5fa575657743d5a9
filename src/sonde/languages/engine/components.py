"""Facets of a language: what only some questions ask of it, each a module of the language's folder.

The protocol every language answers stays small. Metrics, relations, imports or edits are asked by a few tasks
each; a folder that holds ``imports.py`` answers questions about imports, another does not, and a task
that asks says so in one line.
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
"""Facets that are the same code over every language: its module, and the files that have to say it.

What needs no file is told by the tokens of a grammar. One module may answer several facets, the later ones
of which ask for more of its files.
"""


ADDED = "sonde.facets"
"""Entry points of facets that a package adds to a language of another, named ``<language>.<facet>``."""


def facet_of(language: str, name: str, protocol: type[F]) -> F:
    """A facet of a language.

    The module ``<language>/<name>.py`` defines ``facet(language)``, which is called once with the language
    and gives an object with the methods of ``protocol``. What queries and tables can say whole (`BY_QUERY`)
    needs no module: a folder with the files has the facet. A package may add one by an entry point (`ADDED`),
    which takes the place of the one by query.

    Args:
        language: Public name of the language.
        name: The facet, the stem of its module: ``"metrics"``, ``"relations"``, ...
        protocol: The runtime-checkable protocol of the facet, for the type of the answer.

    Raises:
        UnknownNameError: No language has this name.
        UsageError: The language does not have this facet; names those that do.
    """
    found: F = _checked(language, name, protocol)
    return found


@functools.cache
def _checked(language: str, name: str, protocol: type[Any]) -> Any:
    """The facet, held against its protocol once: functions are asked by hundred thousands."""
    found = _facet(language, name)
    if not isinstance(found, protocol):
        raise TypeError(f"facet {name!r} of {language!r} does not answer {protocol.__name__}")
    return found


@functools.cache
def has_facet(language: str, name: str) -> bool:
    """Whether a language answers a facet, without importing the facet."""
    return bool(_module(language, name))


def _module(language: str, name: str) -> str:
    """The module that defines a facet of a language, its own or that of all; empty where it has none."""
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
