"""A hook of MkDocs: each notebook, with its stored outputs, is a page of the site."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

NOTEBOOKS = Path(__file__).parent / "notebooks"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook; the notebook itself stays beside it to be downloaded."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=render_notebook(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead from links to notebooks to their pages; in the repository they lead to the files."""
    if page.file.src_uri.startswith("notebooks/"):
        return markdown
    return re.sub(r"(notebooks/\w+)\.ipynb\)", r"\1.md)", markdown)


def render_notebook(path: Path) -> str:
    """Return a notebook as Markdown."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, *rest = [part for cell in cells for part in _render_cell(cell)]
    return "\n\n".join([title, f"[Download this notebook]({path.name})", *rest]) + "\n"


def _render_cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        yield _render_data({kind: "".join(text) for kind, text in output["data"].items()})


def _render_data(data: dict[str, str]) -> str:
    """Return the richest form of an output that needs no script."""
    if image := data.get("image/svg+xml"):
        encoded = base64.b64encode(image.encode()).decode()
        return f'<img class="notebook-output" alt="" src="data:image/svg+xml;base64,{encoded}">'
    if html := data.get("text/html"):
        return f'<div class="notebook-output">\n{html}\n</div>'
    return f"```text\n{data['text/plain']}\n```"
