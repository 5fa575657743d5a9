"""Whole pages from hostile items: names, paths, clusters and code that break out where they can."""

from __future__ import annotations

import itertools
import random
from html.parser import HTMLParser
from pathlib import Path

from tests.fuzz import hostile
from tests.report.synthetic import Source, write_run

from sonde.report import RunData, write_report
from sonde.report.page import build_sections, render_page

ITEMS = 500
DRAWN_EVERY = 16
"""Of so many pages one has its figures drawn too; a page has about fifteen."""


class _Elements(HTMLParser):
    """Counts scripts and event handlers: text of a corpus may add none."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts = self.handlers = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.handlers += sum(name.startswith("on") for name, _ in attrs)


def page(seed: int, folder: Path, items: int = ITEMS) -> None:
    """Write a run of hostile items and make its page, now and then with its figures.

    Raises:
        AssertionError: Text of the corpus became markup.
    """
    rng = random.Random(seed)
    named = map(_clean, hostile.names(rng))
    clusters = list(itertools.islice(named, 30))
    sources = [Source(next(named), next(named), rng.choice(clusters), _text(rng)) for _ in range(items)]
    write_run(folder, sources, {"sonde/mini-decoder": 1.0, next(named): 1.2})
    run = RunData(folder)
    made = render_page(run, build_sections(run))
    made.encode()
    found = _Elements(made)
    assert (found.handlers, "alert(" in made) == (0, False), f"{found.handlers} handlers in the page"
    if seed % DRAWN_EVERY == 0:
        write_report(folder, figures=True)


def _text(rng: random.Random) -> str:
    while True:
        _, text = hostile.text(rng)
        if 0 < len(text) < 120:
            return _clean(text)


def _clean(text: str) -> str:
    """Text as a corpus hands it on: lone surrogates are none."""
    return text.encode("utf-8", "replace").decode("utf-8")
