"""How long a person waits for ``sonde --help``."""

import statistics
import subprocess
import sys
import time
from pathlib import Path


def run() -> list[dict[str, object]]:
    """Median wall time of ``sonde --help`` over seven calls after one to warm up."""
    sonde = str(Path(sys.executable).with_name("sonde"))
    times: list[float] = []
    for _ in range(8):
        begin = time.perf_counter()
        subprocess.run([sonde, "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return [{"name": "sonde --help", "value": statistics.median(times[1:]), "unit": "s", "target": "< 0.3"}]
