"""Reduce printed text, pages and JSON to what two runs of the same code share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

_PROGRESS = re.compile(
    r"^(?:.*: (?:begins|done in .*|[\d,]+/[\d,]+ after .*)|observing [\d,]+ inputs? .*)$", re.MULTILINE
)
"""Lines whose number depends on how long things take."""

_NUMBER = r"(?<![\w.,-])\d(?:[\d,]*\d)?(?:\.\d+)?"
_MASKS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<date>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"), "<time>"),
    (re.compile(r"(?<![\w./<>])(?:/[\w.@+=-]+)+(?=/[\w.@+=-]+)"), "<folder>"),
    (re.compile(rf"{_NUMBER}(?: \w+)? (?:a|per) (?:second|minute|hour)\b"), "<rate>"),
    (re.compile(rf"{_NUMBER}(?: ?(?:ms|s|min|h)\b| (?:second|minute|hour|day)s?\b)"), "<duration>"),
    (re.compile(rf"{_NUMBER} ?(?:bytes?|[kKMGT]i?B)\b"), "<size>"),
)
_HASH = re.compile(
    r"(?<![0-9a-zA-Z])(?=[a-f]*[0-9])(?=[0-9]*[a-f])(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{8})"
    r"(?![0-9a-zA-Z])"
)


def mask_text(text: str, *, hashes: bool = True) -> str:
    """Replace what differs from call to call: dates, times, rates, sizes and folders; drop progress.

    Args:
        text: A text of one or more lines.
        hashes: Replace names of 8, 16, 32, 40 or 64 hexadecimal digits too.
    """
    text = _PROGRESS.sub("", text)
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return _HASH.sub("<hash>", text) if hashes else text


def mask_lines(text: str) -> list[str]:
    """Return the masked lines of a text, blank ones left out."""
    return [line for line in map(str.rstrip, mask_text(text).splitlines()) if line]


def flatten_json(value: Any, drop: frozenset[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each number, text and truth value of JSON by its path, and what is empty.

    Args:
        value: Parsed JSON.
        drop: Keys whose values are left out.
        path: Where the value is.
    """
    if isinstance(value, dict) and value:
        for key, child in value.items():
            if key not in drop:
                yield from flatten_json(child, drop, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for number, child in enumerate(value):
            yield from flatten_json(child, drop, f"{path}[{number}]")
    else:
        yield path, mask_text(value, hashes=False) if isinstance(value, str) else value


class Page(HTMLParser):
    """The visible text of a page or drawing, and the JSON that it embeds.

    Attributes:
        texts: Pieces of visible text.
        data: Parsed JSON by the id of its script.
    """

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.data: dict[str, Any] = {}
        self._hidden: str = ""
        self._script: str | None = None
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter a script or style, which is not visible."""
        if tag in ("script", "style"):
            self._hidden = tag
            named = dict(attrs)
            self._script = named.get("id") or "" if named.get("type") == "application/json" else None

    def handle_endtag(self, tag: str) -> None:
        """Leave a script or style."""
        if tag == self._hidden:
            self._hidden, self._script = "", None

    def handle_data(self, data: str) -> None:
        """Keep visible text and embedded JSON."""
        if self._script is not None:
            self.data[self._script] = json.loads(data)
        elif not self._hidden and data.strip():
            self.texts.append(" ".join(data.split()))
