"""How long a person waits for ``sonde --help``, and for ``import sonde``."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

_IMPORT = "import time; begin = time.perf_counter(); import sonde; print(time.perf_counter() - begin)"


def run() -> list[dict[str, object]]:
    """Median times over seven calls after one to warm up; of the import without the start of Python."""
    sonde = str(Path(sys.executable).with_name("sonde"))
    commands: list[float] = []
    imports: list[float] = []
    for _ in range(8):
        begin = time.perf_counter()
        subprocess.run([sonde, "--help"], check=True, capture_output=True)
        commands.append(time.perf_counter() - begin)
        told = subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True)
        imports.append(float(told.stdout))
    return [
        {"name": name, "value": statistics.median(times[1:]), "unit": "s", "target": target}
        for name, times, target in (
            ("sonde --help", commands, "< 0.3"),
            ("import sonde", imports, "< 0.1"),
        )
    ]
