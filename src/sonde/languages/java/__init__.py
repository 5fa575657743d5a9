"""Java up to 21, by tree-sitter-java."""

from sonde.languages.engine.treesitter import TreeSitterLanguage, starred

language = TreeSitterLanguage(__name__, docstring=starred)
