"""Python 3, by tree-sitter-python."""

from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.python.rules import compiles, docstring

language = TreeSitterLanguage(__name__, docstring=docstring, compiles=compiles)
