"""The code of a Jupyter notebook: its Python cells one after the other, as one text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_COMMAND = re.compile(r"^(\s*)(%{1,2}[A-Za-z].*|![^=].*|\?.*|[\w.]+\?{1,2}\s*)$")
_GIVEN = re.compile(r"^(\s*[\w, ]+=\s*)(%[A-Za-z].*|![^=].*)$")
_PYTHON_MAGIC = re.compile(r"%%(time|timeit|capture|prun|debug|memit|mprun|lprun)\b")


class NotPythonError(ValueError):
    """A file that is no notebook of Python; its text says what it is."""


def notebook_code(text: str) -> str:
    """Return the Python of a notebook: a blank line between cells, IPython's commands as comments.

    Cells of another language (``%%bash``) are left out. Line numbers are those of the code returned.

    Raises:
        NotPythonError: It is no notebook, or one of another language.
    """
    try:
        notebook = json.loads(text)
        language = _language(notebook)
        cells = [*_sources(notebook)]
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise NotPythonError("not a notebook") from None
    if not language.startswith(("python", "ipython", "sage")):
        raise NotPythonError("a notebook of another language")
    return "\n\n".join(code for cell in cells if (code := _python(cell))) + "\n"


def _language(notebook: Any) -> str:
    told = notebook.get("metadata") or {}
    named = (told.get("language_info") or {}).get("name") or (told.get("kernelspec") or {}).get("language")
    return str(named or "python").lower()


def _sources(notebook: Any) -> Iterator[str]:
    # Format 3 keeps the cells in worksheets, and code in another field.
    sheets = [notebook] if "cells" in notebook else notebook["worksheets"]
    for sheet in sheets:
        for cell in sheet["cells"]:
            if cell["cell_type"] == "code":
                source = cell["source"] if "source" in cell else cell["input"]
                yield source if isinstance(source, str) else "".join(source)


def _python(cell: str) -> str:
    """Return the code of a cell; empty where it is in another language."""
    if cell.lstrip().startswith("%%") and not _PYTHON_MAGIC.match(cell.lstrip()):
        return ""
    return "\n".join(map(_plain, cell.splitlines())).strip("\n")


def _plain(line: str) -> str:
    """Return a line of Python, where it is a command of IPython as a comment after what may stand there."""
    command, given = _COMMAND.match(line), _GIVEN.match(line)
    if command is not None:
        return f"{command[1]}pass  # {command[2]}" if command[1] else f"# {command[2]}"
    return line if given is None else f"{given[1]}None  # {given[2]}"
