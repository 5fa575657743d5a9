"""The page in a real browser: no errors, charts drawn, the explorer answers the pointer."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--virtual-time-budget=15000", "--window-size=1400,3000", "--enable-logging=stderr", "--v=0",
)  # fmt: skip

POINT = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const tokens = [...document.querySelectorAll(".ex-code .t")];
  tokens[2].dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  const told = document.querySelector(".ex-detail").textContent;
  const press = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
  document.querySelector(".ex-code").dispatchEvent(press);
  const next = tokens[3].classList.contains("on");
  const search = document.querySelector(".ex-search input");
  search.value = "hostile";
  search.dispatchEvent(new Event("input"));
  const found = document.querySelectorAll(".ex-items button");
  found[0].click();
  document.body.dataset.told = told;
  document.body.dataset.next = String(next);
  document.body.dataset.found = String(found.length);
  document.body.dataset.code = document.querySelector(".ex-code").textContent.slice(0, 8);
  document.body.dataset.images = String(document.images.length);
}, 3000));
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_page_in_a_browser(report: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = report.read_text(encoding="utf-8")
    before, end, after = text.rpartition("</body>")
    page.write_text(before + POINT + end + after, encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    # Vega-Lite advises against nothing here: with rows of a fixed height it says that it fits the width only.
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    complaints = [line for line in said if 'WARN Dropping "fit-y"' not in line]
    assert complaints == []
    body = re.search(r"<body[^>]*>", done.stdout)
    assert body is not None
    told = body[0]
    assert " bits" in told and "What it expected" in told and 'data-next="true"' in told
    assert 'data-found="1"' in told and 'data-code="def f(x)' in told and 'data-images="0"' in told
    drawn = len(re.findall(r'<svg[^>]*class="marks"', done.stdout))
    assert drawn == text.count("data-chart=")
