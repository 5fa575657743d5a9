"""Make what the pages show of real runs: pictures and outputs on pages of lenses, outputs in notebooks.

    python docs/examples.py              # all of them; finished runs in build/examples are reused
    python docs/examples.py probe        # the page docs/lenses/probe.md
    python docs/examples.py probe.ipynb  # the notebook

A page has the command as its first block ``sh``. Its first block ``text`` is replaced with what the command
prints. Its pictures are ``images/lenses/LENS-PLOT.svg`` (``LENS-PLOT-2.svg`` is the second chart of a
plot). If a model of the command is not on this machine (``make models``), the page stays as it is, and a
line says so.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import sonde

DOCS = Path(__file__).parent
LENSES = DOCS / "lenses"
NOTEBOOKS = DOCS / "notebooks"
MEASURED = DOCS / "measured" / "lenses.json"
"""Command and output of each page of a lens, so that a test sees what was changed without a run."""

WORKPLACE = DOCS.parent / "build" / "examples"
MODULES = (textwrap, inspect, json, html, re)
"""Modules of the standard library that notebooks read as the code in ``src``."""

EMPTY_TABLE = "shape: (0,"
"""How polars begins a table without rows, which shows a reader nothing."""

COMMAND = re.compile(r"```sh\n(sonde run [^`]*?)\n```")
OUTPUT = re.compile(r"(?<=```text\n).*?(?=\n```)", re.DOTALL)
PICTURE = re.compile(r"\(\.\./(images/lenses/\w+?-(\w+?)(?:-(\d+))?\.svg)\)")
LINES = 16


def update_page(lens: str) -> None:
    """Run the command of a lens's page, and write what it prints and its picture."""
    page = LENSES / f"{lens}.md"
    text = page.read_text(encoding="utf-8")
    command = COMMAND.findall(text)[0].replace("\\\n", "")
    arguments = shlex.split(command)[1:]
    if missing := [name for name in find_models(arguments) if not (DOCS.parent / name).exists()]:
        sys.stderr.write(
            f"{lens}: {missing[0]} is not on this machine (make models); the page stays as it is\n"
        )
        return
    link_models()
    done = subprocess.run(
        [sys.executable, "-m", "sonde", *arguments],
        cwd=WORKPLACE,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    output = shorten(done.stdout)
    page.write_text(OUTPUT.sub(lambda _: output, text, count=1), encoding="utf-8")
    run = sonde.Run(WORKPLACE / arguments[arguments.index("-o") + 1])
    for path, plot, number in PICTURE.findall(text):
        picture = run.plot(plot).svgs[int(number or 1) - 1]
        (DOCS / path).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / path).write_text(picture, encoding="utf-8")
    measured = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    measured[lens] = {"command": command, "output": output.splitlines()}
    MEASURED.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def find_models(arguments: list[str]) -> Iterator[str]:
    """Yield the models of a command that are files of `make models`."""
    for flag, value in pairwise(arguments):
        if flag == "-m" and value.startswith("models/"):
            yield value


def link_models() -> None:
    """Let commands find the models of the checkout from the folder that they run in."""
    WORKPLACE.mkdir(parents=True, exist_ok=True)
    link = WORKPLACE / "models"
    if not link.is_symlink():
        link.symlink_to(DOCS.parent / "models")


def shorten(printed: str) -> str:
    """Return the first lines that a run printed, without those about its files."""
    lines = printed.rstrip().split("\n")
    shown = [line for line in lines if not re.search(r"\bobserved\b.*\bstore\b|^report: ", line)]
    while shown and not shown[-1].strip():
        shown.pop()
    rest = len(shown) - LINES
    shown = [*shown[:LINES], f"... ({rest} more lines)"] if rest > 1 else shown
    return "\n".join(line.rstrip() for line in shown)


def write_code(folder: Path) -> None:
    """Write some modules of the standard library below ``src`` of a folder."""
    for module in MODULES:
        code = folder / "src" / module.__name__ / "__init__.py"
        code.parent.mkdir(parents=True, exist_ok=True)
        code.write_text(inspect.getsource(module), encoding="utf-8")


NOTEBOOK_SECONDS = 1800
"""How long a cell of a notebook may take."""


def update_notebook(path: Path) -> None:
    """Execute a notebook in a folder with some code, and keep the value of each cell.

    Raises:
        ValueError: A cell gives a table without rows; the notebook stays as it is.
    """
    folder = WORKPLACE / "notebooks"
    write_code(folder)
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=NOTEBOOK_SECONDS, resources={"metadata": {"path": str(folder)}})
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata = nbformat.NotebookNode()
            cell.outputs = [output for output in map(_reduce_output, cell.outputs) if output is not None]
            if any(EMPTY_TABLE in output.data["text/plain"] for output in cell.outputs):
                raise ValueError(f"{path.name}: a table has no rows:\n{cell.source}")
    nbformat.write(notebook, path)


def _reduce_output(output: Any) -> Any:
    """Return the value of a cell, without what needs a script from elsewhere; None for progress."""
    if output.output_type != "execute_result":
        return None
    richest = next(kind for kind in ("image/svg+xml", "text/html", "text/plain") if kind in output.data)
    output.data = nbformat.NotebookNode({kind: output.data[kind] for kind in {richest, "text/plain"}})
    return output


if __name__ == "__main__":
    every = [
        *(path.stem for path in sorted(LENSES.glob("*.md"))),
        *(path.name for path in sorted(NOTEBOOKS.glob("*.ipynb"))),
    ]
    for name in sys.argv[1:] or every:
        if name.endswith(".ipynb"):
            update_notebook(NOTEBOOKS / name)
        else:
            update_page(name)
