"""The page in a real browser: no errors, charts drawn, the explorer answers the pointer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.report.browser import charts_drawn, needs_browser, opened


@pytest.mark.slow
@needs_browser
def test_page_in_a_browser(report: Path, tmp_path: Path) -> None:
    text = report.read_text(encoding="utf-8")
    with opened(text, tmp_path, width=1400) as page:
        # Whatever is drawn later would move the text under the pointer.
        assert charts_drawn(page) == text.count("data-chart=")
        tokens = page.locator(".ex-code .t")
        tokens.nth(2).hover()
        told = page.locator(".ex-detail")
        expect(told).to_contain_text(" bits")
        expect(told).to_contain_text("What it expected")
        page.locator(".ex-code").press("ArrowRight")
        expect(tokens.nth(3)).to_have_class(re.compile(r"\bon\b"))
        page.locator(".ex-search input").fill("hostile")
        found = page.locator(".ex-items button")
        expect(found).to_have_count(1)
        found.click()
        assert (page.locator(".ex-code").text_content() or "").startswith("def f(x)")
        assert page.evaluate("document.images.length") == 0
