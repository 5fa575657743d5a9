"""AST: the class of any token (keyword, operator, sign, identifier or literal), eighteen in all.

INSPECT's first token task, set aside because it mixes the classes of KTX and IDN. The classes are theirs, and
``KOB`` words for an object (this, super, new; self, cls and super in Python), ``KOT`` constants (true, null),
``STR`` and ``NUM`` literals. Words that declare (class, extends, def) are with the modifiers. INSPECT had
twenty classes, two of them of one word each (import, enum): here no word is in two splits, so a class of one
word cannot be tested.
"""

from __future__ import annotations

from sonde.corpora import Item
from sonde.languages.engine.tagging import AST_CLASSES, TaggedToken
from sonde.tasks.engine.task_types import TokenClasses, get_tagger

SYNONYMS = ("token type", "token kind", "part of speech")


class TokenNodes(TokenClasses):
    """The class of every token."""

    name = "ast"
    version = "2"
    labels = AST_CLASSES
    needs_imports = True

    def tags(self, item: Item, imports: str) -> tuple[TaggedToken, ...]:
        """Return the tokens with their classes."""
        return get_tagger(item.language).nodes(item.text, imports)


task = TokenNodes()
