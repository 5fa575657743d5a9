"""Corpora: named sources of code in, items out."""

from sonde.base.registry import Registry
from sonde.corpora._corpus import (
    Intake,
    Item,
    ItemSet,
    Selection,
    Source,
    SourceFile,
    Tag,
    item_id,
)

CORPORA: Registry[Source] = Registry("sonde.corpora", "corpus", "source")

__all__ = [
    "CORPORA",
    "Intake",
    "Item",
    "ItemSet",
    "Selection",
    "Source",
    "SourceFile",
    "Tag",
    "item_id",
]
