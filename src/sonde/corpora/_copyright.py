"""What Debian's machine-readable copyright file (DEP 5) says of a package's licence."""

from __future__ import annotations

import re
from pathlib import Path

from sonde.corpora._bounded import read_document

_EVERY_FILE = re.compile(r"^Files:\s*\*", re.MULTILINE)
_LICENCE = re.compile(r"^License: *(\S.*)$", re.MULTILINE)


def copyright_licence(path: Path, corpus: str) -> str:
    """The licence of all files that a copyright file does not list by name; empty where it says none.

    Args:
        path: The file; it need not be there.
        corpus: The corpus, for messages.
    """
    if not path.is_file():
        return ""
    text = read_document(path, corpus).decode("utf-8", "replace")
    if not text.startswith("Format:"):
        return ""
    found = (_LICENCE.search(part) for part in re.split(r"\n\s*\n", text) if _EVERY_FILE.search(part))
    return next((one[1].strip() for one in found if one), "")
