"""The site builds strictly and without network, fetches nothing from elsewhere, and can be searched."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.report.browser import BROWSER, needs_browser

import sonde

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_pages_of_the_site_fetch_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert {"index", "tutorial", "methods", "reference", "glossary", "citing"} <= {
        page.stem for page in pages
    }
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="?https?:', text), page
        assert not re.findall(
            r'<link[^>]+rel="?(?:stylesheet|preconnect|preload)[^>]+href="?https?:', text
        ), page


@pytest.mark.slow
def test_the_reference_has_every_public_name_as_it_is_imported(site: Path) -> None:
    reference = (site / "reference.html").read_text(encoding="utf-8")
    assert "corpora" in reference
    assert [name for name in sonde.__all__ if f'id="sonde.{name}"' not in reference] == []


@pytest.mark.slow
@needs_browser
def test_the_search_works_in_pages_that_are_opened_from_the_folder(site: Path) -> None:
    fetched: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(f"{(site / 'index.html').as_uri()}?q=minimal+pairs")
        result = page.locator(".md-search-result__link").first
        expect(result).to_have_attribute("href", re.compile(r"minimal-pairs\.html"), timeout=60_000)
        browser.close()
    assert [address for address in fetched if not address.startswith(("file:", "data:"))] == []


def test_links_of_the_readme_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all((ROOT / link).exists() for link in re.findall(r"\]\((?!https:)([^)#]+)", readme))


def test_every_test_that_shows_a_feature_is_there() -> None:
    page = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        tests = re.findall(r"`(tests/\S+\.py)`", row)
        assert tests, row
        assert all("def test_" in (ROOT / path).read_text(encoding="utf-8") for path in tests), row
