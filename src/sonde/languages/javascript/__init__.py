"""JavaScript up to ES2025, with JSX, by tree-sitter-javascript.

The code below covers what the queries cannot express: which comments above a function document it, and their
words.
"""

from __future__ import annotations

import re

from sonde.languages.engine.treesitter import TreeSitterLanguage

SYNONYMS = ("js", "jsx", "node", "ecmascript")

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


_STARS = re.compile(r"^[ \t]*\*+", re.MULTILINE)


_DIRECTIVE = re.compile(
    r"/[/*]+\s*(eslint|globals? |istanbul |c8 |v8 |jshint|jslint|jscs|prettier-|@ts-|@flow|#|@__|webpack)"
)


def extract_documentation(source: str) -> str:
    """Extract the words of the comments directly above a function, without comment marks; tags are kept.

    If there is a JSDoc comment, it alone documents; otherwise all comments do, except tool directives.
    """
    comments = [comment for comment in _COMMENT.findall(source) if not _DIRECTIVE.match(comment)]
    jsdoc = [comment for comment in comments if comment.startswith("/**") and len(comment) > len("/***/")]
    lines = [line for comment in jsdoc[-1:] or comments for line in _strip_marks(comment).splitlines()]
    return "\n".join(line.strip() for line in lines).strip()


def _strip_marks(comment: str) -> str:
    if comment.startswith("//"):
        return comment.lstrip("/")
    return _STARS.sub("", comment.removeprefix("/*").removesuffix("*/").strip("*"))


language = TreeSitterLanguage(__name__, extract_documentation=extract_documentation)
