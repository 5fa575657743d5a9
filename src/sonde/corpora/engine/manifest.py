"""Files of a built corpus: lines of JSON, and its manifest.

A source file is one line of JSON. These lines are what ``jsonl:FILE`` reads, so that anything that reads JSON
lines can use a built corpus.

The manifest says what a corpus was built from and how, and has the hash of every file. It is JSON lines: the
first holds the options, what the corpora held, and what was left out and why; each further line is a file. It
holds no code, so it can be published where the code cannot, and the corpus can be rebuilt from it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.fingerprint import fingerprint, hash_text
from sonde.corpora.engine.corpus import Given, SourceFile, Tag

_WORDS = ("unit", "cluster", "repository", "licence", "version", "name", "identifier")


def to_line(file: SourceFile) -> bytes:
    """Write a file as one line with its line break, without its split; equal files give equal bytes."""
    row: dict[str, Any] = {"id": file.path, "code": file.text, "language": file.language}
    row |= {name: value for name in _WORDS if (value := getattr(file, name))}
    if file.tags:
        row["tags"] = [[tag.start, tag.end, tag.label] for tag in file.tags]
    if file.given:
        row["given"] = [_label_to_dict(label) for label in file.given]
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def from_line(line: bytes, split: str = "") -> SourceFile:
    """Read a file from its line.

    Args:
        line: What `to_line` gave.
        split: The split that it belongs to.

    Raises:
        ValueError: The line is no such line.
        KeyError: It lacks something.
        TypeError: Something in it is of another kind.
    """
    row = json.loads(line)
    return SourceFile(
        path=row["id"],
        text=row["code"],
        language=row["language"],
        split=split,
        tags=tuple(Tag(*tag) for tag in row.get("tags", ())),
        given=tuple(Given(**label) for label in row.get("given", ())),
        **{name: row.get(name, "") for name in _WORDS},
    )


def _label_to_dict(label: Given) -> dict[str, Any]:
    """Convert a label to a dict, without the fields that most sources leave at their defaults."""
    return {
        attribute.name: value
        for attribute in dataclasses.fields(label)
        if (value := getattr(label, attribute.name)) != attribute.default or not attribute.metadata
    }


def compute_sha256(path: Path) -> str:
    """Compute the hash of a file as manifests hold it, whatever its size.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, hashlib.sha256).hexdigest()


SPLITS = ("train", "valid", "test")


MANIFEST = "manifest.jsonl"


_FORMAT = "sonde corpus 1"


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """A file of a built corpus.

    Attributes:
        split: Its split.
        path: Its path in the built corpus.
        corpus: Number of the corpus that it is from.
        source_path: Its path there.
        language: Public name of its language.
        unit: ``"file"``, or ``"function"`` where the source holds single functions.
        cluster: What is resampled as one, and never in two splits.
        repository: What definitions are looked up in.
        version: Version of what it belongs to, as the source knows it.
        licence: As the source knows it.
        content: Hash of its text, tags and labels.
    """

    split: str
    path: str
    corpus: int
    source_path: str
    language: str
    unit: str
    cluster: str
    repository: str
    version: str
    licence: str
    content: str

    @property
    def item_id(self) -> str:
        """Return the path, as the id by which files are assigned to splits."""
        return self.path


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest's content.

    Attributes:
        head: ``sonde`` (the version that built it), ``asked``, ``corpora``, ``held_out``, ``rules``,
            ``splits`` with the hash of each file.
        rows: The files, split by split, by path.
    """

    head: Mapping[str, Any]
    rows: tuple[ManifestRow, ...]

    def splits(self) -> dict[str, Mapping[str, Any]]:
        """Return ``files``, ``bytes`` and ``sha256`` of each split by name."""
        return dict(self.head["splits"])


def manifest_text(head: Mapping[str, Any], rows: Sequence[ManifestRow]) -> str:
    """Format a manifest as it is written; equal corpora give equal bytes."""
    body = "".join(json.dumps(dataclasses.asdict(row), ensure_ascii=False) + "\n" for row in rows)
    full = {"format": _FORMAT, **head, "rows": len(rows), "rows_hash": hash_text(body)}
    return json.dumps({**full, "checksum": fingerprint(full)}, ensure_ascii=False) + "\n" + body


def read_manifest(path: Path) -> Manifest:
    """Read a manifest back.

    Args:
        path: The file, or the folder of a built corpus.

    Raises:
        InputError: It does not exist, is none, or is not as it was written; says what is wrong with it.
    """
    file = path / MANIFEST if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"manifest {str(file)!r}: no such file; `sonde corpus build` writes one")
    number = 1
    rows: list[ManifestRow] = []
    try:
        first, _, body = file.read_text("utf-8").partition("\n")
        head = json.loads(first)
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise ValueError(f"not a file of {_FORMAT!r}")
        if head.pop("checksum", "") != fingerprint(head) or set(head["splits"]) - set(SPLITS):
            raise ValueError("it was changed since it was written")
        for line in filter(None, body.split("\n")):  # not splitlines: a path may hold other line breaks
            number += 1
            rows.append(ManifestRow(**json.loads(line)))
        number += 1
        if head["rows"] != len(rows) or head["rows_hash"] != hash_text(body):
            raise ValueError(f"the rows are not the {head['rows']} that were written")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"manifest {str(file)!r}: line {number} cannot be read: {error}; "
            "take an undamaged copy, or build the corpus again"
        ) from error
    return Manifest(head, tuple(rows))


def check_free(output: Path) -> bool:
    """Return whether a corpus exists at `output`; False if nothing does and one can be written there.

    Raises:
        UsageError: Something else is there.
        StoreError: Nothing can be written there.
    """
    if (output / MANIFEST).is_file():
        return True
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(
            f"output {str(output)!r} exists already and is not a built corpus; name another folder with -o"
        )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=output.parent).close()
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror or error}; name another -o") from error
    return False
