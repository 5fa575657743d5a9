"""PHP up to 8.4, by tree-sitter-php."""

from sonde.languages.php.rules import PhpLanguage, docstring

language = PhpLanguage(__name__, docstring=docstring)
