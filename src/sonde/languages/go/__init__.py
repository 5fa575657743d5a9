"""Go up to 1.23, by tree-sitter-go."""

from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.go.rules import docstring

language = TreeSitterLanguage(__name__, docstring=docstring)
