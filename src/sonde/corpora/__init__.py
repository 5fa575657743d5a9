"""Corpora: named sources of code in, items out."""

from sonde.corpora.engine.build import Building, build_corpus, rebuild_corpus
from sonde.corpora.engine.candidates import Enough, FirstItems
from sonde.corpora.engine.content_cache import content_key, kept_definitions, kept_imports
from sonde.corpora.engine.corpus import (
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
from sonde.corpora.engine.decode import read_text
from sonde.corpora.engine.dedup import NearDuplicateIndex, NearTexts, duplicate_tokens, near_clusters
from sonde.corpora.engine.lock import Lock, LockedItem, read_lock, write_lock
from sonde.corpora.engine.read import (
    CORPORA,
    brought_tasks,
    check_corpora,
    check_corpus,
    read_files,
    read_items,
)
from sonde.corpora.engine.select import BEYOND_CAP, BEYOND_LIMIT, content_hash, reserved, select, split
from sonde.corpora.engine.staging import Manifest, ManifestRow, read_manifest
from sonde.corpora.engine.walk import language_of_path

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
