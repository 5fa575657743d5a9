"""Python processes that are started here import nothing of the folder that they start in.

``python -c`` and ``python -m`` look there first, and so do the workers and the resource tracker of
`multiprocessing`. Whoever reads a repository from inside it would have its ``threading.py`` executed.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

SAFE_PATH = "PYTHONSAFEPATH"
"""Variable by which an interpreter leaves that folder out."""


class _Entered:
    """Who is within `safe_children` now, over all threads; the first one finds what the last one restores."""

    lock = Lock()
    number = 0
    before: str | None = None


@contextmanager
def safe_children() -> Generator[None]:
    """Within it, processes that start leave the current folder out of what they import from.

    The environment belongs to all threads: it is as it was when the last of them has left.
    """
    with _Entered.lock:
        if not _Entered.number:
            _Entered.before = os.environ.get(SAFE_PATH)
        _Entered.number += 1
        os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        with _Entered.lock:
            _Entered.number -= 1
            if not _Entered.number:
                if _Entered.before is None:
                    os.environ.pop(SAFE_PATH, None)
                else:
                    os.environ[SAFE_PATH] = _Entered.before
