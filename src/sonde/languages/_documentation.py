"""What a comment that documents says, where several languages write it alike."""

from __future__ import annotations

import re

_INHERITED = re.compile(r"\{?@inherit_?doc\}?\s*\.?", re.IGNORECASE)
_SUMMARY = re.compile(r"[@\\](summary|description|desc|brief)\b:?", re.IGNORECASE)
_FIELD = re.compile(r"[@\\][A-Za-z]|:(param|parameter|arg|type|returns?|rtype|raises?|keyword|var|ivar)\b")
_SIGNATURES = re.compile(r":?call-seq:", re.IGNORECASE)
_MARKUP = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"[^\W_]")
_STARS = re.compile(r"^[ \t\f]*\*+", re.MULTILINE)


def summary_line(docstring: str) -> str:
    """Return the first line of documentation that says in words what is documented; empty where none does.

    None are what is inherited (``{@inheritDoc}``), the signatures of RDoc (``call-seq:``), examples, rules
    and marks without a word, and tags (``@param``), after which no summary comes.
    """
    lines = [line.strip() for line in docstring.strip().splitlines()]
    while lines:
        line = lines.pop(0)
        if _SIGNATURES.match(line) or line.startswith(">>>"):
            lines = _after_paragraph(lines, wanted=line.lower() in ("call-seq:", ":call-seq:"))
            continue
        line = _SUMMARY.sub("", _INHERITED.sub("", line).strip(), count=1).strip()
        if _FIELD.match(line):
            return ""
        if _WORD.search(_MARKUP.sub("", line)):
            return line
    return ""


def _after_paragraph(lines: list[str], *, wanted: bool) -> list[str]:
    """Return the lines after a paragraph; ``wanted`` says that it may begin after blank lines only."""
    start = next((index for index, line in enumerate(lines) if line), len(lines)) if wanted else 0
    end = next((index for index in range(start, len(lines)) if not lines[index]), len(lines))
    return lines[end:]


def starred(written: str) -> str:
    """The words of a comment such as Javadoc's: marks and leading stars off, tags and HTML left as written.

    A block comment that does not begin with ``/**`` does not document (JLS 3.7 and the javadoc tool).
    """
    if not written.startswith("/**") or len(written) < len("/***/"):
        return ""
    body = written.removeprefix("/**").removesuffix("*/")
    lines = _STARS.sub("", body.rstrip("*").lstrip("*")).splitlines()
    return "\n".join(line.strip() for line in lines).strip()
