"""Ruby up to 3.3, by tree-sitter-ruby."""

from sonde.languages._treesitter import TreeSitterLanguage
from sonde.languages.ruby.rules import docstring

language = TreeSitterLanguage(__name__, docstring=docstring)
