"""Peak memory of a whole run of each lens, at sizes named in ``SONDE_BENCH_SIZES`` (default 1000,5000,50000).

A run selects, reads, scores and writes its page. Each is a process of its own; the ratios are of each size to
the smallest. ``SONDE_BENCH_LENSES`` names some lenses, by default all are measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from sonde.lenses import LENSES

SIZES = tuple(
    sorted({int(size) for size in os.environ.get("SONDE_BENCH_SIZES", "1000,5000,50000").split(",")})
)
"""Functions of a run."""

_STANDARD_LIBRARY_FUNCTIONS = 10_000
"""More functions than these are taken from the packages of the environment."""

RUNS: Mapping[str, Mapping[str, Any]] = {
    "attention": {"models": ["sonde/mini-encoder"]},
    "causal": {"tasks": ["idn"]},
    "cloze": {"models": ["sonde/mini-encoder"]},
    "fidelity": {"models": ["sonde/mini-decoder", "sonde/mini-decoder?quantise=8bit"]},
    "finetune": {
        "models": ["sonde/mini-encoder"],
        "tasks": ["swapped_operand"],
        "options": {"finetune": {"epochs": 1}},
    },
    "probe": {"models": ["sonde/mini-encoder"], "tasks": ["idn"]},
    "prompting": {"options": {"prompting": {"templates": "import", "tokens": 64}}},
}
"""What an experiment of a lens has besides; a lens that is not here reads the bundled decoder."""

_CODE = """
import json, sys
from pathlib import Path
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.corpora import Selection
from sonde.report import build_report
given, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
limit, options = given.pop("limit"), given.pop("options")
selection = Selection(limit=limit, languages=("python",), per_cluster=0, near_duplicates=False)
experiment = Experiment(
    **{name: tuple(values) for name, values in given.items()}, selection=selection, options=options
)
run(experiment, Execution(output=folder))
build_report(folder)
"""


def run() -> Iterator[dict[str, Any]]:
    """Measure each lens at all sizes in turn; a run that fails is left out with its last line."""
    names = list(filter(None, os.environ.get("SONDE_BENCH_LENSES", "").split(","))) or LENSES.names()
    for lens in names:
        smallest: float | None = None
        for size in SIZES:
            try:
                peak, items = _measure_peak(lens, size)
            except subprocess.CalledProcessError as error:
                reason = (error.stderr.strip().splitlines() or [f"exit {error.returncode}"])[-1]
                print(f"{lens}, {size:,} functions: left out: {reason}", file=sys.stderr)
                continue
            yield _row(f"{lens}: peak memory at {size:,} functions", peak, "MiB", None)
            if items < size:
                yield _row(f"{lens}: functions that there are of {size:,}", items, "", None)
            if smallest is not None:
                yield _row(
                    f"{lens}: that, of the peak at {SIZES[0]:,} functions", peak / smallest, "x", "<= 1.1"
                )
            elif size == SIZES[0]:
                smallest = peak


def describe_run(lens: str, size: int) -> dict[str, Any]:
    """Return the fields of the experiment of a lens, as JSON takes them, and its limit."""
    corpus = "stdlib" if size <= _STANDARD_LIBRARY_FUNCTIONS else "environment"
    fields = {"models": ["sonde/mini-decoder"], "lenses": [lens], "corpora": [corpus], "options": {}}
    return {**fields, **RUNS.get(lens, {}), "limit": size}


def _measure_peak(lens: str, size: int) -> tuple[float, int]:
    """Return the peak resident memory of a run in MiB, and its functions."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            _CODE,
            json.dumps(describe_run(lens, size)),
            str(Path(folder) / "run"),
        ]
        # A child of its own for each figure: the operating system keeps the largest of all children.
        wrapper = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
            "stdout=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", wrapper, *command], check=True, capture_output=True, text=True
        )
        items = pl.scan_parquet(Path(folder) / "run" / "items.parquet").select(pl.len()).collect().item()
    return int(done.stdout) / 1024, items


def _row(name: str, value: float, unit: str, target: str | None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target}
