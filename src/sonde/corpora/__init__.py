"""Corpora: named sources of code in, items out."""

from sonde.corpora._build import build_corpus
from sonde.corpora._building import Building
from sonde.corpora._clusters import NearTexts, near_clusters
from sonde.corpora._corpus import (
    DatedSource,
    Given,
    Intake,
    Item,
    ItemSet,
    LabelledSource,
    Selection,
    Source,
    SourceFile,
    Tag,
    item_id,
)
from sonde.corpora._decode import read_text
from sonde.corpora._duplicates import NearDuplicateIndex, duplicate_tokens
from sonde.corpora._first import Enough, FirstItems
from sonde.corpora._items import read_items
from sonde.corpora._kept import content_key
from sonde.corpora._lock import Lock, LockedItem, read_lock, write_lock
from sonde.corpora._manifest import Manifest, ManifestRow, read_manifest
from sonde.corpora._open import CORPORA, brought_tasks, check_corpora, check_corpus, read_files
from sonde.corpora._rebuild import rebuild_corpus
from sonde.corpora._select import BEYOND_CAP, BEYOND_LIMIT, content_hash, select
from sonde.corpora._spans_index import kept_definitions, kept_imports
from sonde.corpora._splits import reserved, split
from sonde.corpora._walk import language_of_path

__all__ = [
    "BEYOND_CAP",
    "BEYOND_LIMIT",
    "CORPORA",
    "Building",
    "DatedSource",
    "Enough",
    "FirstItems",
    "Given",
    "Intake",
    "Item",
    "ItemSet",
    "LabelledSource",
    "Lock",
    "LockedItem",
    "Manifest",
    "ManifestRow",
    "NearDuplicateIndex",
    "NearTexts",
    "Selection",
    "Source",
    "SourceFile",
    "Tag",
    "brought_tasks",
    "build_corpus",
    "check_corpora",
    "check_corpus",
    "content_hash",
    "content_key",
    "duplicate_tokens",
    "item_id",
    "kept_definitions",
    "kept_imports",
    "language_of_path",
    "near_clusters",
    "read_files",
    "read_items",
    "read_lock",
    "read_manifest",
    "read_text",
    "rebuild_corpus",
    "reserved",
    "select",
    "split",
    "write_lock",
]
