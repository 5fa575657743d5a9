"""Lock files: exactly the items of a run, by path, offset and hash, so that another run has the same.

A lock file is JSON lines. The first holds the corpus, sonde's version and the selection; each further one
is an item. It holds no code, so it can be published where the code cannot.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sonde.base.errors import InputError, UsageError
from sonde.base.files import write_atomic
from sonde.base.formatting import plural
from sonde.base.options import NonNegative, build_record, check_fields
from sonde.corpora.engine.candidates import CandidateItem
from sonde.corpora.engine.corpus import ItemSet, Selection
from sonde.version import __version__

_FORMAT = "sonde corpus lock 1"


_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class LockedItem:
    """One item of a lock file: where it is, and the hashes of the item and of its file."""

    path: str
    offset: NonNegative
    item_id: str
    file_hash: str

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Lock:
    """The content of a lock file.

    Attributes:
        corpus: The corpus as it was named.
        version: sonde's version that wrote the file.
        corpus_hash: Hash of the whole corpus; it may change while the locked items do not.
        selection: How the items were chosen.
        items: The items, in the order of the run.
    """

    corpus: str
    version: str
    corpus_hash: str
    selection: Selection
    items: tuple[LockedItem, ...]

    def __post_init__(self) -> None:
        check_fields(self)


def write_lock(item_set: ItemSet, path: Path) -> None:
    """Write the lock file of a selection.

    Raises:
        StoreError: The file cannot be written.
    """
    header = {
        "format": _FORMAT,
        "corpus": item_set.corpus,
        "version": __version__,
        "corpus_hash": item_set.corpus_hash,
        "selection": dataclasses.asdict(item_set.selection),
    }
    rows = [
        {
            "path": item.path,
            "offset": item.offset,
            "item_id": item.item_id,
            "file": item_set.file_hashes[item.path],
        }
        for item in item_set.items
    ]
    write_atomic(path, "".join(json.dumps(row) + "\n" for row in (header, *rows)))


def read_lock(path: Path) -> Lock:
    """Read a lock file back.

    Raises:
        InputError: The file does not exist or is no lock file; the line is named.
    """
    if not path.is_file():
        raise InputError(f"lock file {str(path)!r}: no such file; write one with `sonde corpus lock`")
    number = 1
    items: list[LockedItem] = []
    try:
        first, *lines = path.read_text("utf-8").splitlines() or [""]
        header = json.loads(first)
        if header.get("format") != _FORMAT:
            raise ValueError(f"not a file of {_FORMAT!r}")
        selection = build_record(Selection, header["selection"], "selection")
        lock = Lock(header["corpus"], header["version"], header["corpus_hash"], selection, ())
        for line in lines:
            number += 1
            row = json.loads(line)
            items.append(LockedItem(row["path"], row["offset"], row["item_id"], row["file"]))
    except OSError as error:
        raise InputError(f"lock file {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"lock file {str(path)!r}: line {number} cannot be read: {reason}") from error
    return dataclasses.replace(lock, items=tuple(items))


def resolve_lock(
    lock: Lock, items: Iterable[CandidateItem], hashes: Mapping[str, str], path: Path | None
) -> list[CandidateItem]:
    """Find the locked items, in the lock's order.

    Args:
        lock: The lock file's content.
        items: Items of at least the locked files.
        hashes: Path to content hash, of the corpus as it is now.
        path: The lock file, for messages.

    Raises:
        InputError: Files or items are missing or changed; the first few are named and all counted.
    """
    items_by_key = {(item.path, item.offset, item.item_id): item for item in items}
    paths = list(dict.fromkeys(row.path for row in lock.items))
    expected_hashes = {row.path: row.file_hash for row in lock.items}
    missing_paths = [name for name in paths if name not in hashes]
    changed_paths = [name for name in paths if name in hashes and hashes[name] != expected_hashes[name]]
    missing_items = [
        f"{row.path}:{row.offset}"
        for row in lock.items
        if hashes.get(row.path) == row.file_hash and (row.path, row.offset, row.item_id) not in items_by_key
    ]
    problems = describe_differences(
        {
            ("file", "missing"): missing_paths,
            ("file", "changed"): changed_paths,
            ("item", "not found"): missing_items,
        }
    )
    if problems:
        raise InputError(
            f"lock file {str(path)!r} of corpus {lock.corpus!r}: {problems}; "
            "use the corpus in the version that was locked, or lock it again"
        )
    return [items_by_key[row.path, row.offset, row.item_id] for row in lock.items]


def describe_differences(problems: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Describe each kind of problem: its count and the first few names; empty without problems.

    Args:
        problems: Noun and state, such as ``("file", "missing")``, to the names that it concerns.
    """
    return "; ".join(
        f"{plural(len(names), noun)} {state} "
        f"({', '.join(names[:_MAX_NAMES])}{', ...' if len(names) > _MAX_NAMES else ''})"
        for (noun, state), names in problems.items()
        if names
    )
