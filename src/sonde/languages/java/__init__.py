"""Java up to 21, by tree-sitter-java."""

from sonde.languages.engine.treesitter import TreeSitterLanguage, strip_comment_stars

language = TreeSitterLanguage(__name__, extract_documentation=strip_comment_stars)
