"""Receipts: checksums and notes of written files, by which readers detect damage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sonde.base.errors import InputError, StoreError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import hash_bytes, hash_file
from sonde.store.address import format_path, get_stamp

RECEIPT_FOLDER = "receipts"


_SUFFIX = ".json"


_COMPARISON_NAME = "comparison.json"


_intact_stamps: dict[Path, tuple[str, str]] = {}
"""Files that this process has found intact, with the stamps of the file and its receipt at that time."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Record of a written file.

    Attributes:
        key: Fingerprint of everything that can change it; empty for files that are rewritten each time.
        content: Hash of its bytes.
        notes: Notes of its writer.
        size: Its size in bytes.
    """

    key: str
    content: str
    notes: Mapping[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of comparing a folder with its receipts.

    Attributes:
        intact: Files whose content matches their receipt.
        damaged: Files that do not match, each with the reason.
        unchecked: Files without a receipt, such as training checkpoints.
    """

    intact: tuple[str, ...]
    damaged: tuple[tuple[str, str], ...]
    unchecked: tuple[str, ...]


def receipt_path(root: Path, relative: str) -> Path:
    """Return the path of the receipt of a file."""
    return root / RECEIPT_FOLDER / f"{relative}{_SUFFIX}"


def receipt_to_file(receipt: str) -> str:
    """Convert the relative path of a receipt to that of its file; empty if it is no receipt.

    >>> receipt_to_file("receipts/labels/a.parquet.json")
    'labels/a.parquet'
    >>> receipt_to_file("comparison/receipts/moved.parquet.json")
    'comparison/moved.parquet'
    >>> receipt_to_file("labels/a.parquet"), receipt_to_file("a/b/receipts/c.json")
    ('', '')
    """
    parts = PurePosixPath(receipt).parts
    index = parts.index(RECEIPT_FOLDER) if RECEIPT_FOLDER in parts[:2] and receipt.endswith(_SUFFIX) else -1
    if not 0 <= index < len(parts) - 1:
        return ""
    return "/".join((*parts[:index], *parts[index + 1 :])).removesuffix(_SUFFIX)


def read_receipt(root: Path, relative: str) -> Receipt | None:
    """Read the receipt of a file; None if it has none.

    Raises:
        StoreError: The receipt cannot be read.
    """
    path = receipt_path(root, relative)
    try:
        receipt = parse_receipt(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"{format_path(path)}: cannot be read ({error}); run again to rewrite it") from error
    if receipt is None:
        raise StoreError(f"{format_path(path)}: is no longer a receipt; run again to rewrite it")
    return receipt


def parse_receipt(content: bytes) -> Receipt | None:
    """Parse the content of a receipt; None if it is invalid."""
    try:
        fields = json.loads(content)
        return Receipt(str(fields["key"]), str(fields["content"]), dict(fields["notes"]), int(fields["size"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_receipt(
    root: Path, relative: str, content: bytes, key: str = "", notes: Mapping[str, Any] | None = None
) -> None:
    """Write the receipt of a file that has just been written.

    Raises:
        StoreError: The disk is full or not writable.
    """
    receipt = {"key": key, "content": hash_bytes(content), "notes": dict(notes or {}), "size": len(content)}
    write_atomic(receipt_path(root, relative), json.dumps(receipt, indent=1, sort_keys=True))


def write_with_receipt(root: Path, relative: str, content: bytes | str, key: str = "") -> Path:
    """Write a file, then its receipt; `key` is empty for files that are rewritten each time.

    Raises:
        StoreError: The disk is full or not writable.
    """
    raw = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    write_atomic(root / relative, raw)
    write_receipt(root, relative, raw, key)
    return root / relative


def copy_files_with_receipts(source: Path, target: Path, *, exclude: Sequence[str] = ()) -> None:
    """Copy all intact files with a receipt, unless the target has them; each file before its receipt.

    Args:
        source: Source folder; damaged files are not copied.
        target: Target folder.
        exclude: Relative paths of files that are not copied.

    Raises:
        StoreError: The disk is full or not writable.
    """
    for relative in sorted(set(_iterate_receipts(source)).difference(exclude)):
        receipt = receipt_path(source, relative).read_bytes()
        target_receipt = receipt_path(target, relative)
        if _find_damage(source, relative) or (
            target_receipt.is_file() and target_receipt.read_bytes() == receipt
        ):
            continue
        write_atomic(target / relative, (source / relative).read_bytes())
        write_atomic(target_receipt, receipt)


def check_intact(root: Path, relative: str) -> None:
    """Check that a file matches its receipt; a file without a receipt passes.

    The content is read once per process, unless the stamp of the file or its receipt changes.

    Raises:
        StoreError: The file has been damaged, changed or removed.
    """
    path = root / relative
    stamps = get_stamp(path), get_stamp(receipt_path(root, relative))
    if _intact_stamps.get(path) == stamps:
        return
    if damage := _find_damage(root, relative):
        raise StoreError(f"{format_path(path)}: {damage}; {suggest_remedy(root)}")
    if all(stamps):
        _intact_stamps[path] = stamps


def check_tables_intact(root: Path) -> None:
    """Check that all tables of a run match their receipts; removed tables are ignored.

    Raises:
        StoreError: A table has been damaged or changed.
    """
    for relative in sorted(_iterate_receipts(root)):
        if relative.endswith(".parquet") and (root / relative).exists():
            check_intact(root, relative)


def suggest_remedy(root: Path) -> str:
    """Return the advice on how to restore the files of a folder."""
    if receipt_path(root, _COMPARISON_NAME).is_file():
        return "the same `sonde compare` rewrites it"
    return "the same `sonde run` recomputes the damaged files"


def verify_folder(root: Path) -> Verification:
    """Compare every file of a folder with its receipt; a comparison inside a run has receipts of its own.

    Raises:
        InputError: The folder has no receipts.
    """
    if not (root / RECEIPT_FOLDER).is_dir():
        raise InputError(f"{format_path(root)}: no checksums here (there is no folder {RECEIPT_FOLDER!r})")
    intact: list[str] = []
    damages: list[tuple[str, str]] = []
    files = list_files_with_receipt(root)
    for name, (folder, relative) in files.items():
        if damage := _find_damage(folder, relative):
            damages.append((name, damage))
        else:
            intact.append(name)
    return Verification(tuple(intact), tuple(damages), list_files_without_receipt(root, files))


def list_files_with_receipt(root: Path) -> dict[str, tuple[Path, str]]:
    """List files with a receipt by relative path, with the folder of its receipts and its path in that."""
    return {
        (folder / relative).relative_to(root).as_posix(): (folder, relative)
        for folder in (
            root,
            *(receipts_folder.parent for receipts_folder in sorted(root.glob(f"*/{RECEIPT_FOLDER}"))),
        )
        for relative in sorted(_iterate_receipts(folder))
    }


def list_files_without_receipt(root: Path, files_with_receipt: Mapping[str, object]) -> tuple[str, ...]:
    """List files without a receipt, such as training checkpoints."""
    return tuple(sorted(set(_iterate_files(root)).difference(files_with_receipt)))


def _find_damage(root: Path, relative: str) -> str | None:
    """Describe the damage of a file in a few words; None if it is intact or has no receipt."""
    try:
        receipt = read_receipt(root, relative)
    except StoreError:
        return "its receipt cannot be read"
    if receipt is None:
        return None
    try:
        if (root / relative).stat().st_size != receipt.size:
            return "its content is not what was written"
        is_intact = hash_file(root / relative) == receipt.content
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    return None if is_intact else "its content is not what was written"


def _iterate_receipts(root: Path) -> Iterator[str]:
    folder = root / RECEIPT_FOLDER
    for path in folder.rglob(f"*{_SUFFIX}"):
        if path.is_file():
            yield path.relative_to(folder).as_posix().removesuffix(_SUFFIX)


def _iterate_files(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if path.is_file() and RECEIPT_FOLDER not in relative.parts and not path.name.startswith("."):
            yield relative.as_posix()
