"""A page in a real browser, at a width and in a mode, asked by a script that runs inside it.

Playwright drives the Chromium that is installed; it brings none of its own. Time is real time: what takes the
page long on a busy machine is waited for.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

_SECONDS = 240
_ASKED = """async () => {{
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  {script}
}}"""
_UNDRAWN = "[data-chart]:not(:has(svg.marks))"


@contextmanager
def opened(page: str, folder: Path, *, width: int = 1280, dark: bool = False) -> Generator[Page]:
    """A page in a browser that must neither complain nor ask for anything beyond the page.

    Args:
        page: The text of the page.
        folder: Where the page may lie.
        width: Of the window, in pixels.
        dark: Whether the page is dark.

    Raises:
        AssertionError: The browser complained, or the page asked for something.
    """
    text = page.replace('<html lang="en">', '<html lang="en" data-theme="dark">') if dark else page
    file = folder / "opened.html"
    file.write_text(text, encoding="utf-8")
    complaints: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=BROWSER, args=arguments, timeout=_SECONDS * 1000)
        shown = browser.new_page(viewport={"width": width, "height": 1600})
        shown.set_default_timeout(_SECONDS * 1000)
        shown.on("console", lambda message: complaints.append(message.text))
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.on("request", lambda request: requests.append(request.url))
        shown.goto(file.as_uri())
        yield shown
        browser.close()
    # Vega-Lite advises against nothing here: with rows of a fixed height it says that it fits the width only.
    told = [text for text in complaints if 'Dropping "fit-y"' not in text]
    assert not told, f"the browser complained {len(told)} times: {told[:5]}"
    beyond = [url for url in requests if not url.startswith((file.as_uri(), "data:", "blob:"))]
    assert not beyond, f"the page asked for {beyond[:5]}"


def asked(
    page: str, script: str, folder: Path, *, width: int = 1280, dark: bool = False, library: str = ""
) -> Any:
    """What a script returns that runs inside a page.

    Args:
        page: The text of the page.
        script: The body of an asynchronous function; ``wait(milliseconds)`` is there.
        folder: Where the page may lie.
        width: Of the window, in pixels.
        dark: Whether the page is dark.
        library: A script that runs before.

    Raises:
        AssertionError: The browser complained, the page asked for something, or the script failed.
    """
    with opened(page, folder, width=width, dark=dark) as shown:
        if library:
            shown.add_script_tag(content=library)
        return shown.evaluate(_ASKED.format(script=script))


def charts_drawn(page: Page) -> int:
    """How many charts a page has, once all of them are drawn, whether they are in sight or not."""
    # A function to wait for would be compiled in the page, which the policy of the page forbids.
    expect(page.locator(_UNDRAWN)).to_have_count(0, timeout=_SECONDS * 1000)
    return page.locator("[data-chart]").count()
