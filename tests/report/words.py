"""How many words of a report can be read without opening anything."""

from __future__ import annotations

from collections.abc import Collection
from html.parser import HTMLParser

_UNREAD = ("script", "style", "svg", "head", "noscript")


def count_unfolded_words(page: str, *, without: Collection[str] = ()) -> int:
    """The words of a page outside closed details, scripts and drawings.

    Args:
        page: The text of the page.
        without: Names of lenses whose part of the page is not counted.
    """
    reader = _Reader(without)
    reader.feed(page)
    reader.close()
    return reader.words


class _Reader(HTMLParser):
    def __init__(self, without: Collection[str]) -> None:
        super().__init__()
        self.words = 0
        self._without = without
        # Elements that hide, each with the elements of its name that are open inside it.
        self._hidden: list[tuple[str, int]] = []
        self._summary = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if self._hidden and self._hidden[-1][0] == tag:
            self._hidden[-1] = (tag, self._hidden[-1][1] + 1)
            return
        is_closed = tag == "details" and "open" not in values
        is_left_out = tag == "div" and values.get("data-lens") in self._without and bool(self._without)
        if tag in _UNREAD or is_closed or is_left_out:
            self._hidden.append((tag, 1))
        elif tag == "summary":
            self._summary = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "summary":
            self._summary = False
        elif self._hidden and self._hidden[-1][0] == tag:
            name, depth = self._hidden.pop()
            if depth > 1:
                self._hidden.append((name, depth - 1))

    def handle_data(self, data: str) -> None:
        # The summary of closed details can be read, if nothing around these is closed.
        is_read = not self._hidden or (self._summary and [name for name, _ in self._hidden] == ["details"])
        self.words += len(data.split()) if is_read else 0
