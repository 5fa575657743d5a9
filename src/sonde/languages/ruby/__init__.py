"""Ruby up to 3.3, by tree-sitter-ruby.

The code below covers what the queries cannot express: the words of documentation comments.
"""

from __future__ import annotations

import re

from sonde.languages.engine.treesitter import TreeSitterLanguage

SYNONYMS = ("rb",)

_MAGIC = re.compile(r"#+\s*(-\*-.*-\*-|(frozen_string_literal|encoding|coding|warn_indent|rubocop):.*)$")


_DIRECTIVE = re.compile(r"^:(nodoc|doc|stopdoc|startdoc|section|enddoc):.*$|^-{2}$|^\+{2}$", re.MULTILINE)


def extract_documentation(source: str) -> str:
    """Extract the words of the comments above a method, without marks, directives and magic comments."""
    lines = [line.strip() for line in source.splitlines()]
    comment_lines = [
        line.lstrip("#").strip()
        for line in lines
        if not _MAGIC.match(line) and line not in ("=begin", "=end")
    ]
    return _DIRECTIVE.sub("", "\n".join(comment_lines)).strip()


language = TreeSitterLanguage(__name__, extract_documentation=extract_documentation)
