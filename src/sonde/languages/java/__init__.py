"""Java up to 21, by tree-sitter-java."""

from sonde.languages._documentation import starred
from sonde.languages._treesitter import TreeSitterLanguage

language = TreeSitterLanguage(__name__, docstring=starred)
