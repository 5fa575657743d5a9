"""The manifest of a built corpus: what it was built from, how, and what every file of it says, by hash.

JSON lines: the first holds what was asked, what the corpora held, what was left out and why; each further one
is a file. It holds no code, so it can be published where the code cannot, and the corpus rebuilt from it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint, hash_text
from sonde.corpora._splits import SPLITS

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
        """Name to ``files``, ``bytes`` and ``sha256`` of each split."""
        return dict(self.head["splits"])


def manifest_text(head: Mapping[str, Any], rows: Sequence[ManifestRow]) -> str:
    """The manifest as it is written: equal corpora have equal bytes."""
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
