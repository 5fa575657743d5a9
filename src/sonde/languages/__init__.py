"""Languages: text in, syntax trees, tokens, functions, definitions and calls out."""

from sonde.base.registry import Registry
from sonde.languages._facets import facet_of, has_facet
from sonde.languages._language import Language
from sonde.languages._tree import (
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

LANGUAGES: Registry[Language] = Registry("sonde.languages", "language", "language")

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
    "facet_of",
    "has_facet",
]
