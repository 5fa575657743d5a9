"""A page in a real browser, at a width and in a mode, asked by a script that runs inside it."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.report.test_browser import BROWSER, FLAGS

_FRAME = """<!DOCTYPE html><html><body style="margin:0">
<script>addEventListener("message", (event) => {{ document.body.dataset.told = event.data; }});</script>
<iframe src="inner.html" style="border:0;width:{width}px;height:1600px"></iframe></body></html>
"""

_ASKED = """<script>
window.addEventListener("load", () => setTimeout(async () => {{
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const told = await (async () => {{ {script} }})().catch((error) => ({{ error: String(error) }}));
  parent.postMessage(JSON.stringify(told), "*");
}}, {after}));
</script>
"""


def asked(
    page: str, script: str, folder: Path, *, width: int = 1280, dark: bool = False, library: str = ""
) -> Any:
    """What a script returns that runs inside a page.

    Args:
        page: The page.
        script: The body of an asynchronous function; ``wait(milliseconds)`` is there.
        folder: Where the browser and the page may lie.
        width: Of the window, in pixels.
        dark: Whether the page is dark.
        library: A script that runs before.

    Raises:
        AssertionError: The browser complained, or the script failed.
    """
    text = page.replace('<html lang="en">', '<html lang="en" data-theme="dark">') if dark else page
    before, end, after = text.rpartition("</body>")
    library = library.replace("</script", "<\\/script")
    added = f"<script>{library}</script>{_ASKED.format(script=script, after=2000)}"
    (folder / "inner.html").write_text(before + added + end + after, encoding="utf-8")
    (folder / "outer.html").write_text(_FRAME.format(width=width), encoding="utf-8")
    assert BROWSER is not None
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [BROWSER, *FLAGS, profile, "--dump-dom", (folder / "outer.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and 'Dropping "fit-y"' not in line]
    assert said == []
    found = re.search(r'data-told="([^"]*)"', done.stdout)
    assert found is not None, "the script did not end"
    told = json.loads(html.unescape(found[1]))
    assert not (isinstance(told, dict) and "error" in told), told
    return told
