"""Safe import path for child Python processes.

``python -c`` and ``python -m`` import from the current folder first, and so do the workers and the resource
tracker of `multiprocessing`. Reading a repository from inside it would execute its ``threading.py``.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable that keeps the current folder out of an interpreter's import path."""


class _Entered:
    """Count of active `safe_path_environment` contexts in all threads, with the value to restore."""

    lock = Lock()
    number = 0
    before: str | None = None


@contextmanager
def safe_children() -> Generator[None]:
    """Keep the current folder out of the import path of child processes that start in this context.

    The environment is shared by all threads, so it is restored when the last context exits.
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
