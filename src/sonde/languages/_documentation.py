"""What a comment that documents says, where several languages write it alike."""

from __future__ import annotations

import re

_STARS = re.compile(r"^[ \t\f]*\*+", re.MULTILINE)


def starred(written: str) -> str:
    """The words of a comment such as Javadoc's: marks and leading stars off, tags and HTML left as written.

    A block comment that does not begin with ``/**`` does not document (JLS 3.7 and the javadoc tool).
    """
    if not written.startswith("/**") or len(written) < len("/***/"):
        return ""
    body = written.removeprefix("/**").removesuffix("*/")
    lines = _STARS.sub("", body.rstrip("*").lstrip("*")).splitlines()
    return "\n".join(line.strip() for line in lines).strip()
