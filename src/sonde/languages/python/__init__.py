"""Python 3, by tree-sitter-python.

The code below covers what the queries cannot express: which strings are documentation, their words, and
whether a text compiles.
"""

from __future__ import annotations

import inspect
import re
import warnings

from sonde.languages.engine.treesitter import TreeSitterLanguage

SYNONYMS = ("py",)

_STRING = re.compile(r"""([A-Za-z]{0,2})(\"{3}|'{3}|"|')((?:\\.|(?!\2).)*)\2""", re.DOTALL)


def extract_documentation(literal: str) -> str:
    """Extract the words of a documentation string, without quotes and indentation; escapes are not decoded.

    Adjacent strings are one. Byte strings and f-strings do not document (Python's own rule).
    """
    pieces = [(prefix.lower(), content) for prefix, _, content in _STRING.findall(literal)]
    if any("b" in prefix or "f" in prefix for prefix, _ in pieces):
        return ""
    return inspect.cleandoc("".join(content for _, content in pieces))


def compiles(text: str) -> bool:
    """Return whether Python's own compiler accepts a text, which is never run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<text>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            return False
    return True


language = TreeSitterLanguage(__name__, extract_documentation=extract_documentation, compiles=compiles)
