"""Functions per second with one and two workers, here and under Ray, and estimates for a million functions.

A run of one lens over the same functions is given to each executor in turn, in rounds, each a command of its
own. The whole command is compared and, apart from it, the time in which the model was read: corpus,
labels, scores and page are the work of the machine that gives the command.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

FUNCTIONS = 1_500
ROUNDS = 3
_RUN = f"run -m sonde/mini-decoder -l surprisal -c stdlib --limit {FUNCTIONS} --no-report"
_SIZED = {
    "attention": "run -m sonde/mini-encoder -l attention -c stdlib --limit 200 --no-report",
    "probe": "run -m sonde/mini-encoder -l probe -t len -c stdlib --limit 400 --no-report",
}
"""Runs of other lenses whose observations are measured, with the bundled encoder of four layers of 256."""

SIZES = {"125M": 125e6, "1B": 1e9, "7B": 7e9, "70B": 70e9}
"""Parameters that a subword passes through."""

_OPERATIONS_A_SECOND = 0.4 * 989e12
"""Of an H100 in bfloat16: two fifths of what its maker states, which is an assumption and not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An executor with a number of workers."""

    executor: str
    workers: int

    @property
    def name(self) -> str:
        """As a reader sees it."""
        where = "on a Ray cluster" if self.executor == "ray" else "here"
        return f"{self.workers} worker{'s' if self.workers > 1 else ''} {where}"


WAYS = tuple(Way(executor=one, workers=count) for one in ("local", "ray") for count in (1, 2))


def run() -> Iterator[dict[str, Any]]:
    """Rows of throughput, then of what grows with the number of functions."""
    ways = [way for way in WAYS if way.executor == "local" or importlib.util.find_spec("ray")]
    whole: dict[Way, list[float]] = {way: [] for way in ways}
    reading: dict[Way, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as made:
        _command(Path(made) / "first", ways[0])
        for number in range(ROUNDS):
            for way in ways:
                folder = Path(made) / f"{way.executor}-{way.workers}-{number}"
                seconds = _command(folder, way)
                whole[way].append(seconds)
                reading[way].append(json.loads((folder / "run.json").read_text())["timing"]["observe"])
        for way in ways:
            yield _row(
                f"functions per second, {way.name}", FUNCTIONS / statistics.median(reading[way]), "1/s"
            )
        for way in ways:
            beside = [one - other for one, other in zip(whole[way], reading[way], strict=True)]
            yield _row(f"seconds beside reading, {way.name}", statistics.median(beside), "s")
        for what, times in (("reading", reading), ("whole command", whole)):
            for way in ways[1:]:
                ratios = [one / other for one, other in zip(times[ways[0]], times[way], strict=True)]
                yield _row(f"{what}: {way.name} / 1 worker here", statistics.median(ratios), "x")
        yield from _growth(Path(made) / "first")
        for lens, command in _SIZED.items():
            _command(Path(made) / lens, ways[0], command)
            size, inputs = _observed(Path(made) / lens)
            yield _row(f"observations of a million inputs, {lens}", size / inputs * 1e6 / 1e9, "GB")


def _command(folder: Path, way: Way, command: str = _RUN) -> float:
    """Seconds of a run."""
    words = [*command.split(), "--executor", way.executor, "--workers", str(way.workers), "-o", str(folder)]
    # Ray would have its workers give way to everything else on the machine.
    environment = {**os.environ, "SONDE_CACHE_SIZE": "0", "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "from sonde.cli.commands import main; main()", *words],
        check=True,
        capture_output=True,
        env=environment,
    )
    return time.perf_counter() - begin


def _growth(folder: Path) -> Iterator[dict[str, Any]]:
    """Estimate what a million functions come to, from the sizes of a run."""
    rows = pl.scan_parquet(folder / "observations" / "**" / "*.parquet")
    subwords = rows.select(pl.len()).collect().item()
    size, _ = _observed(folder)
    yield _row("subwords per function", subwords / FUNCTIONS, "")
    yield _row("bytes of observations per subword", size / subwords, "B")
    yield _row("observations of a million functions", size / FUNCTIONS * 1e6 / 1e9, "GB")
    yield _row("subwords of a million functions", subwords / FUNCTIONS, "million")
    for name, parameters in SIZES.items():
        operations = 2 * parameters * subwords / FUNCTIONS * 1e6
        yield _row(
            f"a million functions, {name}, by arithmetic", operations / _OPERATIONS_A_SECOND / 3600, "GPU h"
        )


def _observed(folder: Path) -> tuple[int, int]:
    """Bytes of a run's observations, and the inputs that they are of."""
    tables = [*(folder / "observations").rglob("*.parquet")]
    inputs = pl.concat([pl.read_parquet(one, columns=["item_id"]) for one in tables])["item_id"].n_unique()
    return sum(one.stat().st_size for one in tables), inputs


def _row(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": ""}
