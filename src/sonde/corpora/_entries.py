"""Corpora that are one file of entries: where it lies, and what is wrong with the entries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora._bounded import read_document

_REPORTED = 5

_SPLITS: Mapping[str, str] = {"train": "train", "dev": "valid", "eval": "test"}
"""How files of published data sets begin, and the split that they are."""


class EntryError(Exception):
    """What is wrong with one entry."""


@dataclass(slots=True)
class Faults:
    """What is wrong with a corpus: all of its entries are looked at before it is refused.

    Attributes:
        corpus: The corpus as it was named.
        entries: What several of its entries are called.
        found: Each faulty entry with what is wrong with it.
    """

    corpus: str
    entries: str
    found: list[str] = field(default_factory=list[str])

    def __bool__(self) -> bool:
        return bool(self.found)

    def note(self, entry: str, fault: object) -> None:
        """Note one; ``entry`` says which, as ``line 3``."""
        self.found.append(f"{entry}: {fault}")

    def refuse(self) -> None:
        """Refuse the corpus if an entry is faulty.

        Raises:
            InputError: One is; the first few are named.
        """
        if self.found:
            left = len(self.found) - _REPORTED
            more = f"; and {left} more {self.entries}" if left > 0 else ""
            raise InputError(f"corpus {self.corpus!r}: {'; '.join(self.found[:_REPORTED])}{more}")


def named_file(scheme: str, argument: str, name: str = "") -> Path:
    """The file of a corpus.

    Args:
        scheme: What stands before the colon of the corpus.
        argument: What stands after it.
        name: The file in it, where it says more than that.

    Raises:
        InputError: There is no such file.
        UsageError: None is named.
    """
    if not (name or argument):
        raise UsageError(f"corpus {scheme!r} needs a file; name it as {scheme}:FILE")
    path = expand_home(name or argument)
    if not path.is_file():
        raise InputError(f"corpus '{scheme}:{argument}': no such file")
    return path


def files_by_split(corpus: str, path: Path, *patterns: str) -> list[tuple[Path, str]]:
    """The files of a published data set with the split of each; a file that is named alone has none.

    Args:
        corpus: The corpus as it was named.
        path: A file, or a folder of them.
        patterns: How files are called below the folder, ``{}`` standing for ``train``, ``dev`` and ``eval``.

    Raises:
        InputError: There is no such file.
    """
    if path.is_file():
        return [(path, "")]
    if not path.is_dir():
        raise InputError(f"corpus {corpus!r}: no such file or folder")
    found = [
        (one, split)
        for begin, split in _SPLITS.items()
        for pattern in patterns
        for one in sorted(path.glob(pattern.replace("{}", begin)))
        if one.is_file()
    ]
    if not found:
        train, dev, evaluation = (patterns[0].replace("{}", begin) for begin in _SPLITS)
        raise InputError(f"corpus {corpus!r}: no file named {train}, {dev} or {evaluation} in it")
    return found


def json_list(corpus: str, path: Path, entries: str) -> list[Any]:
    """The entries of a file that is one JSON list.

    Raises:
        InputError: It is none, or too long to be read as a whole.
    """
    try:
        found = json.loads(read_document(path, corpus))
    except (ValueError, RecursionError) as error:
        raise InputError(f"corpus {corpus!r}: {not_json(error)}") from None
    if not isinstance(found, list):
        raise InputError(f"corpus {corpus!r}: not a list of {entries}")
    return found


def not_json(error: Exception) -> str:
    """Why a text is not JSON, in a few words."""
    return f"not JSON ({str(error).partition(':')[0]})"
