"""AST: the class of a token, of keywords, operators, signs, identifiers and literals, twenty in all.

INSPECT's first token task, set aside because it mixes what KTX and IDN ask apart. The classes are theirs,
and ``KDC`` words that declare (class, def, extends), ``KPC`` that import, ``KOB`` that stand for an object
(this, super, new; self in Python), ``KOT`` constants (true, null), ``STR`` and ``NUM`` literals. The names
of INSPECT's own twenty are known for some only, and ``paper`` is the same definition. Java's import words
stand in no function: they are read from the import statements of the files, see `beside`.
"""

from __future__ import annotations

from sonde.corpora import Item
from sonde.languages._tagging import AST_CLASSES, Tagged
from sonde.tasks._tagged import TokenClasses, tagging


class TokenNodes(TokenClasses):
    """The class of every token."""

    name = "ast"
    labels = AST_CLASSES
    needs_repository = True

    def tags(self, item: Item, imports: str, paper: bool) -> tuple[Tagged, ...]:
        """Tokens with their class."""
        return tagging(item.language).nodes(item.text, imports)


task = TokenNodes()
