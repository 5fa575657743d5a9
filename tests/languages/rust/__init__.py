"""Rust, by tree-sitter-rust: a language from outside, of queries and tables alone."""

from sonde.languages.engine.treesitter import TreeSitterLanguage


def docstring(written: str) -> str:
    """The words of a doc comment."""
    lines = (line.strip().removeprefix("///").strip() for line in written.splitlines())
    return "\n".join(lines).strip()


language = TreeSitterLanguage(__name__, extract_documentation=docstring)
