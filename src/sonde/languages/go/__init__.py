"""Go up to 1.23, by tree-sitter-go.

The code below covers what the queries cannot express: the words of a documentation comment.
"""

from __future__ import annotations

import re

from sonde.languages.engine.treesitter import TreeSitterLanguage

SYNONYMS = ("golang",)

_DIRECTIVE = re.compile(r"//(line |extern |export |[a-z0-9]+:[a-z0-9])")


def extract_documentation(source: str) -> str:
    """Extract the words of the comments directly above a function, without comment marks and directives.

    A directive such as ``//go:noinline`` is no documentation (``go doc comment``).
    """
    if source.startswith("/*"):
        lines = source.removeprefix("/*").removesuffix("*/").splitlines()
    else:
        raw_lines = (line.strip() for line in source.splitlines())
        lines = [line.removeprefix("//") for line in raw_lines if not _DIRECTIVE.match(line)]
    return "\n".join(line.strip() for line in lines).strip()


language = TreeSitterLanguage(__name__, extract_documentation=extract_documentation)
