"""Peak memory of a whole run at 1,000 and at 10,000 functions."""

import subprocess
import sys
import tempfile
from pathlib import Path

_CODE = """
import sys
from pathlib import Path
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.corpora import Selection
from sonde.report import build_report
limit, folder = int(sys.argv[1]), Path(sys.argv[2])
selection = Selection(limit=limit, per_cluster=0, near_duplicates=False)
experiment = Experiment(corpora=("stdlib",), selection=selection)
outcome = run(experiment, Execution(output=folder))
build_report(folder)
print(outcome.observed)
"""


def _peak(limit: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _CODE, str(limit), str(Path(folder) / "run")]
        # A child of its own for each figure: the operating system keeps the largest of all children.
        wrapper = (
            "import resource, subprocess, sys; out = subprocess.run(sys.argv[1:], check=True, "
            "capture_output=True, text=True).stdout; "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, out)"
        )
        done = subprocess.run(
            [sys.executable, "-c", wrapper, *command], check=True, capture_output=True, text=True
        )
    kilobytes, items = done.stdout.split()
    return int(kilobytes) / 1024, int(items)


def run() -> list[dict[str, object]]:
    """Peak resident memory of selection, capture, scoring and report."""
    small, few = _peak(1_000)
    large, many = _peak(10_000)
    return [
        {"name": f"peak memory at {few:,} functions", "value": small, "unit": "MiB", "target": ""},
        {"name": f"peak memory at {many:,} functions", "value": large, "unit": "MiB", "target": ""},
        {"name": "ratio of the two", "value": large / small, "unit": "x", "target": "0.9 to 1.1"},
    ]
