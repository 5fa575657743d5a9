"""KTX: the class of a keyword, operator or sign, ten in all.

``KPT`` primitive types, ``KFC`` control flow, ``KMD`` modifiers, ``KEH`` errors, ``OAR`` arithmetic, ``OAS``
assignment, ``ORE`` comparison, ``OLB`` logical and bitwise, ``OUT`` unary and conditional operators, ``SYM``
brackets and separators. The class depends on the token's position: a minus may be arithmetic or unary. Python
has no primitive types and no modifiers: the names of built-in types take their place (int, str, list, ...),
and words that change a name or a definition (global, async, def, ...). The tables are in each language's
`tagging.toml`.
"""

from __future__ import annotations

from sonde.corpora import Item
from sonde.languages.engine.tagging import KTX_CLASSES, TaggedToken
from sonde.tasks.engine.task_types import TokenClasses, get_tagger

SYNONYMS = ("keyword type", "token class")


class Keywords(TokenClasses):
    """The class of keywords, operators and signs."""

    name = "ktx"
    version = "2"
    labels = KTX_CLASSES

    def tags(self, item: Item, imports: str) -> tuple[TaggedToken, ...]:
        """Return keywords, operators and signs with their classes."""
        return get_tagger(item.language).keywords(item.text)


task = Keywords()
