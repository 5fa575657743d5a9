"""Peak memory of this process."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def measure_peak_memory() -> int:
    """Measure how many bytes this process has held in memory at most.

    Linux counts it for each program apart; in `getrusage` the peak of the process that started this one
    counts too.
    """
    if _STATUS.is_file() and (found := _PEAK.search(_STATUS.read_text(encoding="utf-8"))):
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
