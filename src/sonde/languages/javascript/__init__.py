"""JavaScript up to ES2025, with JSX, by tree-sitter-javascript."""

from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.javascript.rules import docstring

language = TreeSitterLanguage(__name__, docstring=docstring)
