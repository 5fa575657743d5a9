"""Python processes that are started here import nothing of the folder that they start in.

``python -c`` and ``python -m`` look there first, and so do the workers and the resource tracker of
`multiprocessing`. Whoever reads a repository from inside it would have its ``threading.py`` executed.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

SAFE_PATH = "PYTHONSAFEPATH"
"""Variable by which an interpreter leaves that folder out."""


@contextmanager
def safe_children() -> Generator[None]:
    """Within it, processes that start leave the current folder out of what they import from."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before
