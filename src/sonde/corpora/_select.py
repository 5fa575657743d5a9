"""Choosing items from a corpus: exact and near duplicates out, filters, caps, a sample by hash."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint, hash_text, unit_hash
from sonde.corpora._corpus import Intake, Item, ItemSet, Selection, SourceFile
from sonde.corpora._duplicates import NearDuplicateIndex, duplicate_tokens
from sonde.corpora._items import items_of
from sonde.corpora._lock import Lock, read_lock, resolve
from sonde.corpora._open import read_files
from sonde.languages import LANGUAGES

UNITS = ("function", "file")


def select(corpus: str, selection: Selection, lock: Path | None = None) -> ItemSet:
    """Choose the items of a run.

    All items of the corpus are put in an order by hash; each is kept unless it repeats one kept before,
    fails a filter or finds its cluster full, until there are enough. So the choice depends neither on the
    order of files nor on the machine, and a larger limit contains a smaller one.

    Args:
        corpus: The corpus as named on the command line.
        selection: Unit, languages, limits and filters.
        lock: A lock file: its items are taken as they are, and of ``selection`` nothing.

    Raises:
        SondeError: The corpus cannot be read (see `read_files`), no item is left, or the corpus no longer
            holds what the lock file names.
    """
    if selection.unit not in UNITS:
        raise UsageError(f"unknown unit {selection.unit!r}; known: {', '.join(UNITS)}")
    locked = read_lock(lock) if lock is not None else None
    if locked is not None:
        selection = locked.selection
    intake = Intake()
    gathered = _Gathered(selection, locked, intake)
    for file in read_files(corpus, selection.languages, intake):
        gathered.take(file)
    items = resolve(locked, gathered.items, gathered.hashes, lock) if locked else _choose(gathered, intake)
    if not items:
        raise InputError(_nothing(corpus, selection, gathered, intake))
    return ItemSet(
        corpus=corpus,
        items=items,
        corpus_hash=fingerprint(sorted(gathered.hashes.items())),
        intake=intake,
        selection=selection,
        file_hashes={item.path: gathered.hashes[item.path] for item in items},
    )


class _Gathered:
    """What one pass over a corpus leaves behind.

    Attributes:
        items: Candidates; those that a cheap filter refuses are never held.
        hashes: Path to content hash, of every file.
        repository_files: Number of files by language and repository.
    """

    def __init__(self, selection: Selection, locked: Lock | None, intake: Intake) -> None:
        self.selection = selection
        self.items: list[Item] = []
        self.hashes: dict[str, str] = {}
        self.repository_files: Counter[tuple[str, str]] = Counter()
        self._wanted = None if locked is None else {row.path for row in locked.items}
        self._intake = intake
        # A lock file names its items one by one: nothing is left for a filter to refuse.
        self._refusal = _cheap_filter(selection if locked is None else Selection(min_chars=0))

    def take(self, file: SourceFile) -> None:
        """Hash a file and keep its candidates."""
        self.hashes[file.path] = content_hash(file)
        self.repository_files[file.language, file.repository] += 1
        if self._wanted is not None and file.path not in self._wanted:
            return
        for item in items_of(file, self.selection.unit, self._intake):
            if reason := self._refusal(item):
                self._intake.note(reason, item.path)
            else:
                self.items.append(item)


def content_hash(file: SourceFile) -> str:
    """Hash of what a file says: its text, and the tags and labels that the source brings."""
    brought = (*file.tags, *file.given)
    return fingerprint(file.text, brought) if brought else hash_text(file.text)


def _cheap_filter(selection: Selection) -> Callable[[Item], str]:
    """The reason why an item is left out, by the filters that cost nothing; empty where it stays."""
    longest = selection.max_chars if selection.max_chars is not None else float("inf")
    # A word may go on (GPL matches GPLv3) but must not start inside another (GPL does not match LGPL).
    words = "|".join(re.escape(word) for word in selection.licences)
    licence = re.compile(rf"(?<![a-z0-9])(?:{words})", re.IGNORECASE) if words else None

    def refusal(item: Item) -> str:
        if len(item.text) < selection.min_chars:
            return "shorter than wanted"
        if len(item.text) > longest:
            return "longer than wanted"
        if licence is not None and not licence.search(item.licence):
            return "other licence"
        return ""

    return refusal


def _choose(gathered: _Gathered, intake: Intake) -> tuple[Item, ...]:
    selection = gathered.selection
    unique = _without_copies(gathered.items, intake)
    if selection.several_files:
        several = gathered.repository_files
        kept = [item for item in unique if several[item.language, item.repository] > 1]
        intake.counts["repository of one file"] += len(unique) - len(kept)
        unique = kept
    order = {item.item_id: unit_hash(selection.seed, item.item_id) for item in unique}
    unique.sort(key=lambda item: (order[item.item_id], item.item_id))
    chosen: list[Item] = []
    for language in sorted({item.language for item in unique}):
        chosen += _greedy([item for item in unique if item.language == language], selection, intake)
    return tuple(sorted(chosen, key=lambda item: (order[item.item_id], item.item_id)))


def _without_copies(items: Iterable[Item], intake: Intake) -> list[Item]:
    """One item for each content: of copies, the one whose path and offset come first."""
    first: dict[str, Item] = {}
    for item in items:
        known = first.setdefault(item.item_id, item)
        if known is not item:
            intake.note("exact duplicate", item.path)
            if (item.path, item.offset) < (known.path, known.offset):
                first[item.item_id] = item
    return list(first.values())


def _greedy(candidates: list[Item], selection: Selection, intake: Intake) -> list[Item]:
    """The items of one language that stay, in order; the costly filters see only what is reached."""
    limit = len(candidates) if selection.limit is None else selection.limit
    cap = len(candidates) if selection.max_per_cluster is None else selection.max_per_cluster
    index = NearDuplicateIndex()
    kept: list[Item] = []
    in_cluster: Counter[str] = Counter()
    for item in candidates:
        if len(kept) >= limit:
            break
        if in_cluster[item.cluster] >= cap:
            intake.note("cluster is full", item.path)
            continue
        if selection.parses and LANGUAGES.load(item.language).parse(item.text).has_error:
            intake.note("does not parse", item.path)
            continue
        if selection.near_duplicates:
            tokens = duplicate_tokens(item.text)
            if index.find(tokens) is not None:
                intake.note("near duplicate", item.path)
                continue
            index.add(item.item_id, tokens)
        in_cluster[item.cluster] += 1
        kept.append(item)
    return kept


def _nothing(corpus: str, selection: Selection, gathered: _Gathered, intake: Intake) -> str:
    languages = ", ".join(selection.languages) or "any language"
    skipped = ", ".join(f"{count} {reason}" for reason, count in intake.counts.most_common() if count)
    return (
        f"corpus {corpus!r}: no {selection.unit} to study in {len(gathered.hashes)} files of {languages}; "
        f"skipped: {skipped or 'nothing'}; loosen the filters or name another corpus"
    )
