"""Peak memory is that of this process alone."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import subprocess, sys
from sonde.base.process import measure_peak_memory
held = bytearray(400_000_000)
held[::4096] = b"x" * len(held[::4096])
code = "from sonde.base.process import measure_peak_memory; print(measure_peak_memory())"
child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
print(measure_peak_memory(), child)
"""


def test_peak_memory_is_not_that_of_the_process_that_started_it() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    parent, child = map(int, done.stdout.split())
    assert 400_000_000 < parent < 600_000_000
    assert child < 100_000_000
