"""Safe import path for child Python processes, their common clock, and the peak memory of this process.

``python -c`` and ``python -m`` import from the current folder first, and so do the workers and the resource
tracker of `multiprocessing`. Reading a repository from inside it would execute its ``threading.py``.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

SAFE_PATH_ENV = "PYTHONSAFEPATH"
"""Environment variable that keeps the current folder out of an interpreter's import path."""


class _ActiveContexts:
    """Count of active `safe_path_environment` contexts in all threads, with the value to restore."""

    lock = Lock()
    number = 0
    before: str | None = None


@contextmanager
def safe_path_environment() -> Generator[None]:
    """Keep the current folder out of the import path of child processes that start in this context.

    The environment is shared by all threads, so it is restored when the last context exits.
    """
    with _ActiveContexts.lock:
        if not _ActiveContexts.number:
            _ActiveContexts.before = os.environ.get(SAFE_PATH_ENV)
        _ActiveContexts.number += 1
        os.environ[SAFE_PATH_ENV] = "1"
    try:
        yield
    finally:
        with _ActiveContexts.lock:
            _ActiveContexts.number -= 1
            if not _ActiveContexts.number:
                if _ActiveContexts.before is None:
                    os.environ.pop(SAFE_PATH_ENV, None)
                else:
                    os.environ[SAFE_PATH_ENV] = _ActiveContexts.before


def read_clock() -> float:
    """Return the time of day in seconds, by which processes, also of other machines, tell the same moment.

    It may be set while something runs: how long something takes is measured by `time.monotonic`.
    """
    return time.time()


_STATUS = Path("/proc/self/status")


_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def measure_peak_memory() -> int:
    """Measure how many bytes this process has held in memory at most.

    Linux counts it for each program apart; in `getrusage` the peak of the process that started this one
    counts too.
    """
    if _STATUS.is_file() and (found := _PEAK.search(_STATUS.read_text(encoding="utf-8"))):
        return int(found[1]) * 1024
    # Only Unix has it, and every command imports this module.
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
