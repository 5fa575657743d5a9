"""The site builds strictly and without network, and its pages fetch nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert {"index", "tutorial", "methods", "reference", "glossary", "citing"} <= {
        page.stem for page in pages
    }
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="?https?:', text), page
        assert not re.findall(
            r'<link[^>]+rel="?(?:stylesheet|preconnect|preload)[^>]+href="?https?:', text
        ), page
    assert "corpora" in (tmp_path / "reference.html").read_text(encoding="utf-8")


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
