"""Corpora: named sources of code in, items out."""

from sonde.corpora.engine.build import BuildOptions, build_corpus, rebuild_corpus
from sonde.corpora.engine.candidates import EnoughCheck, FirstItems
from sonde.corpora.engine.content_cache import cached_definitions, cached_imports, content_key
from sonde.corpora.engine.corpus import (
    DatedSource,
    Given,
    Item,
    ItemSet,
    LabelledSource,
    Selection,
    SkipCounter,
    Source,
    SourceFile,
    Tag,
    item_id,
)
from sonde.corpora.engine.dedup import (
    NearDuplicateIndex,
    NearTexts,
    cluster_near_duplicates,
    duplicate_tokens,
)
from sonde.corpora.engine.lock import Lock, LockedItem, read_lock, write_lock
from sonde.corpora.engine.manifest import Manifest, ManifestRow, read_manifest
from sonde.corpora.engine.read import (
    CORPORA,
    check_corpora,
    check_corpus,
    read_files,
    read_items,
    tasks_from_corpora,
)
from sonde.corpora.engine.select import (
    BEYOND_CAP,
    BEYOND_LIMIT,
    content_hash,
    is_holdout_package,
    select,
    split,
)
from sonde.corpora.engine.source_files import find_path_language, read_text

__all__ = [
    "BEYOND_CAP",
    "BEYOND_LIMIT",
    "CORPORA",
    "BuildOptions",
    "DatedSource",
    "EnoughCheck",
    "FirstItems",
    "Given",
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
    "SkipCounter",
    "Source",
    "SourceFile",
    "Tag",
    "build_corpus",
    "cached_definitions",
    "cached_imports",
    "check_corpora",
    "check_corpus",
    "cluster_near_duplicates",
    "content_hash",
    "content_key",
    "duplicate_tokens",
    "find_path_language",
    "is_holdout_package",
    "item_id",
    "read_files",
    "read_items",
    "read_lock",
    "read_manifest",
    "read_text",
    "rebuild_corpus",
    "select",
    "split",
    "tasks_from_corpora",
    "write_lock",
]
