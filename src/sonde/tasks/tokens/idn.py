"""IDN: identifier type: class (``IDC``), method (``IDM``), package (``IDP``) or variable (``IDV``).

Packages come from the imports of the file: a name that an import of the file binds to a module (Python), or
that leads a qualified name as an import does (Java). Functions name few packages, so the import statements of
their files are read too, see `sonde.tasks.engine.task_types.TokenClasses.extra_items`. A class is what is
declared, constructed or annotated as one; where only types could tell, the convention of the language decides
(a capital before a dot in Java, PEP 8 in Python). Fields, parameters and keyword arguments are variables.
Labels of jumps, and what an import takes out of a module without a capital, are none of the four.
"""

from __future__ import annotations

from sonde.corpora import Item
from sonde.languages.engine.tagging import IDN_CLASSES, TaggedToken
from sonde.tasks.engine.task_types import TokenClasses, get_tagger

SYNONYMS = ("identifier type", "identifier kind", "identifier class")


class Identifiers(TokenClasses):
    """The class of what an identifier names."""

    name = "idn"
    version = "2"
    labels = IDN_CLASSES
    needs_imports = True

    def tags(self, item: Item, imports: str) -> tuple[TaggedToken, ...]:
        """Return the identifiers with their classes."""
        return get_tagger(item.language).identifiers(item.text, imports)


task = Identifiers()
