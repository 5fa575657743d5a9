"""Receipts: beside what was written lies what its content was, so that damage is seen and never shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sonde.base.errors import InputError, StoreError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import hash_bytes, hash_file
from sonde.store.address import shown, stamp_of

FOLDER = "receipts"


_ENDING = ".json"


_COMPARISON = "comparison.json"


_checked: dict[Path, tuple[str, str]] = {}
"""Files that this process has found intact, with what the file system said of them and their receipts."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is known of a file that was written.

    Attributes:
        key: Fingerprint of everything that can change it; empty for what is written anew each time.
        content: Hash of its bytes.
        notes: What its writer wants to know later.
        size: Its bytes.
    """

    key: str
    content: str
    notes: Mapping[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class Verified:
    """A folder held against its receipts.

    Attributes:
        intact: Files whose content is what was written.
        damaged: The others, each with what is wrong with it.
        unchecked: Files without a receipt, such as checkpoints of trainings.
    """

    intact: tuple[str, ...]
    damaged: tuple[tuple[str, str], ...]
    unchecked: tuple[str, ...]


def receipt_path(root: Path, relative: str) -> Path:
    """Where the receipt of a file lies."""
    return root / FOLDER / f"{relative}{_ENDING}"


def file_of(receipt: str) -> str:
    """The file that a receipt is of, both by their relative paths; empty where it is no receipt.

    >>> file_of("receipts/labels/a.parquet.json"), file_of("comparison/receipts/moved.parquet.json")
    ('labels/a.parquet', 'comparison/moved.parquet')
    >>> file_of("labels/a.parquet"), file_of("a/b/receipts/c.json")
    ('', '')
    """
    parts = PurePosixPath(receipt).parts
    place = parts.index(FOLDER) if FOLDER in parts[:2] and receipt.endswith(_ENDING) else -1
    if not 0 <= place < len(parts) - 1:
        return ""
    return "/".join((*parts[:place], *parts[place + 1 :])).removesuffix(_ENDING)


def read_receipt(root: Path, relative: str) -> Receipt | None:
    """The receipt of a file; None where it has none.

    Raises:
        StoreError: There is one, and it cannot be read.
    """
    path = receipt_path(root, relative)
    try:
        found = receipt_from(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"{shown(path)}: cannot be read ({error}); run again to write it anew") from error
    if found is None:
        raise StoreError(f"{shown(path)}: is no receipt any more; run again to write it anew")
    return found


def receipt_from(content: bytes) -> Receipt | None:
    """A receipt from its bytes; None where they are none."""
    try:
        found = json.loads(content)
        return Receipt(str(found["key"]), str(found["content"]), dict(found["notes"]), int(found["size"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_receipt(
    root: Path, relative: str, content: bytes, key: str = "", notes: Mapping[str, Any] | None = None
) -> None:
    """Say what the content of a file is that has just been written.

    Raises:
        StoreError: The disk is full or not writable.
    """
    receipt = {"key": key, "content": hash_bytes(content), "notes": dict(notes or {}), "size": len(content)}
    write_atomic(receipt_path(root, relative), json.dumps(receipt, indent=1, sort_keys=True))


def write_with_receipt(root: Path, relative: str, content: bytes | str, key: str = "") -> Path:
    """Write a file, then its receipt; without a key for what is written anew each time.

    Raises:
        StoreError: The disk is full or not writable.
    """
    raw = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    write_atomic(root / relative, raw)
    write_receipt(root, relative, raw, key)
    return root / relative


def copy_signed(source: Path, target: Path, *, but: Sequence[str] = ()) -> None:
    """Copy whatever has a receipt into another folder, unless it is there; a file comes before its receipt.

    Args:
        source: The folder that is copied from; damaged files stay behind.
        target: The folder that is copied into.
        but: Files that are left out.

    Raises:
        StoreError: The disk is full or not writable.
    """
    for relative in sorted(set(_signed(source)).difference(but)):
        receipt = receipt_path(source, relative).read_bytes()
        there = receipt_path(target, relative)
        if _damage(source, relative) or (there.is_file() and there.read_bytes() == receipt):
            continue
        write_atomic(target / relative, (source / relative).read_bytes())
        write_atomic(there, receipt)


def must_be_intact(root: Path, relative: str) -> None:
    """Refuse a file that is not what was written, or is gone; one without a receipt is taken as it is.

    Its content is read once in a process, as long as the file system says that neither it nor its receipt
    has changed.

    Raises:
        StoreError: It has been damaged, changed or removed.
    """
    path = root / relative
    stamps = stamp_of(path), stamp_of(receipt_path(root, relative))
    if _checked.get(path) == stamps:
        return
    if what := _damage(root, relative):
        raise StoreError(f"{shown(path)}: {what}; {remedy(root)}")
    if all(stamps):
        _checked[path] = stamps


def tables_must_be_intact(root: Path) -> None:
    """Refuse a run of whose tables one is not what was written; those that were removed are not missed.

    Raises:
        StoreError: A table has been damaged or changed.
    """
    for relative in sorted(_signed(root)):
        if relative.endswith(".parquet") and (root / relative).exists():
            must_be_intact(root, relative)


def remedy(root: Path) -> str:
    """What makes the files of a folder whole again."""
    if receipt_path(root, _COMPARISON).is_file():
        return "the same `sonde compare` writes it anew"
    return "the same `sonde run` computes anew what is damaged"


def verify(root: Path) -> Verified:
    """Hold every file of a folder against its receipt; a comparison inside a run has receipts of its own.

    Raises:
        InputError: The folder has no receipts.
    """
    if not (root / FOLDER).is_dir():
        raise InputError(f"{shown(root)}: nothing here says what was written (there is no folder {FOLDER!r})")
    intact: list[str] = []
    damaged: list[tuple[str, str]] = []
    signed = signed_files(root)
    for name, (folder, relative) in signed.items():
        if what := _damage(folder, relative):
            damaged.append((name, what))
        else:
            intact.append(name)
    return Verified(tuple(intact), tuple(damaged), unsigned_files(root, signed))


def signed_files(root: Path) -> dict[str, tuple[Path, str]]:
    """Files with a receipt by their path in a folder: the folder of the receipts, and the path in that."""
    return {
        (folder / relative).relative_to(root).as_posix(): (folder, relative)
        for folder in (root, *(inner.parent for inner in sorted(root.glob(f"*/{FOLDER}"))))
        for relative in sorted(_signed(folder))
    }


def unsigned_files(root: Path, signed: Mapping[str, object]) -> tuple[str, ...]:
    """Files without a receipt, such as checkpoints of trainings."""
    return tuple(sorted(set(_files(root)).difference(signed)))


def _damage(root: Path, relative: str) -> str | None:
    """What is wrong with a file, in a few words."""
    try:
        receipt = read_receipt(root, relative)
    except StoreError:
        return "its receipt cannot be read"
    if receipt is None:
        return None
    try:
        if (root / relative).stat().st_size != receipt.size:
            return "its content is not what was written"
        same = hash_file(root / relative) == receipt.content
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    return None if same else "its content is not what was written"


def _signed(root: Path) -> Iterator[str]:
    folder = root / FOLDER
    for path in folder.rglob(f"*{_ENDING}"):
        if path.is_file():
            yield path.relative_to(folder).as_posix().removesuffix(_ENDING)


def _files(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if path.is_file() and FOLDER not in relative.parts and not path.name.startswith("."):
            yield relative.as_posix()
