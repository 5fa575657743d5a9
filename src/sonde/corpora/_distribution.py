"""What a distribution says of itself: its normalised name, its licence, its files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message
from pathlib import PurePosixPath

from sonde.corpora._walk import TEST_FOLDERS

_LONGEST_LICENCE = 200
_CLASSIFIER = "License :: "


def normalise(name: str) -> str:
    """A distribution's name as PEP 503 compares them: lower case, runs of ``-_.`` as one hyphen."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(metadata: Message) -> str:
    """The licence of core metadata: its expression (PEP 639), else its field, else its classifiers.

    A licence field that holds the whole text of a licence is passed over, since it names nothing.
    """
    expression = _field(metadata, "License-Expression")
    if expression:
        return expression
    named = _field(metadata, "License")
    if named and "\n" not in named and len(named) <= _LONGEST_LICENCE and named != "UNKNOWN":
        return named
    classifiers = [
        str(value) for value in metadata.get_all("Classifier") or () if value.startswith(_CLASSIFIER)
    ]
    return " OR ".join(classifier.rpartition(" :: ")[2] for classifier in classifiers)


def is_test(path: str) -> bool:
    """Whether a file of a distribution is one of its tests, by the names of its folders and its own."""
    pure = PurePosixPath(path)
    stem = pure.stem
    return (
        not TEST_FOLDERS.isdisjoint(pure.parts[:-1])
        or stem == "conftest"
        or stem.startswith("test_")
        or stem.endswith(("_test", ".test", ".spec"))
    )


def inside(paths: Iterator[str]) -> Iterator[str]:
    """The paths that stay inside the folder they are relative to."""
    for path in paths:
        pure = PurePosixPath(path)
        if not pure.is_absolute() and ".." not in pure.parts and "\\" not in path:
            yield path


def _field(metadata: Message, name: str) -> str:
    value = metadata.get(name)
    return str(value).strip() if value else ""
