"""A source file as one line of JSON and back: how built corpora lie on disk.

The lines are also what ``jsonl:FILE`` reads, so that anything that reads JSON lines can use a built corpus.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from sonde.corpora._corpus import Given, SourceFile, Tag

_WORDS = ("unit", "cluster", "repository", "licence", "version", "name", "identifier")


def to_line(file: SourceFile) -> bytes:
    """One line, its line break included; equal files give equal bytes. The split is no part of it."""
    row: dict[str, Any] = {"id": file.path, "code": file.text, "language": file.language}
    row |= {name: value for name in _WORDS if (value := getattr(file, name))}
    if file.tags:
        row["tags"] = [[tag.start, tag.end, tag.label] for tag in file.tags]
    if file.given:
        row["given"] = [_said(one) for one in file.given]
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def from_line(line: bytes, split: str = "") -> SourceFile:
    """The file of a line.

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
        given=tuple(Given(**one) for one in row.get("given", ())),
        **{name: row.get(name, "") for name in _WORDS},
    )


def _said(given: Given) -> dict[str, Any]:
    """A label without the number and the group that most sources give none of."""
    return {
        one.name: value
        for one in dataclasses.fields(given)
        if (value := getattr(given, one.name)) != one.default or not one.metadata
    }
