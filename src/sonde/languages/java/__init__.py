"""Java up to 21, by tree-sitter-java."""

from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.java.rules import docstring

language = TreeSitterLanguage(__name__, docstring=docstring)
