"""Accuracy of the time left that a run prints while it reads, for models x lenses.

Each run reads anew, in a process of its own. Once a tenth of the reading is over, and once ten seconds are,
the last estimate of the time left is compared with the time that was left. Other models than the bundled ones
are named in ``SONDE_BENCH_MODELS``, separated by commas.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import sonde
from bench._commands import took
from sonde.base.progress import Advance

LENSES: dict[str, dict[str, Any]] = {
    "surprisal": {"lens": "surprisal", "limit": 600},
    "attention": {"lens": "attention", "limit": 300},
    "probe": {"lens": "probe", "task": "len", "limit": 400},
    "cloze": {"lens": "cloze", "limit": 40},
}
"""Arguments of each run; large models read a tenth of the inputs."""

_BUNDLED = ("sonde/mini-decoder", "sonde/mini-encoder")
_SHARE, _SECONDS = 0.1, 10.0

Row = dict[str, Any]


class Recorder:
    """Keeps when the run said how long the reading still takes."""

    def __init__(self) -> None:
        self.begin = self.end = 0.0
        self.total = 0
        self.estimates: list[tuple[float, float]] = []
        self.advances: list[float] = []

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Generator[Advance]:
        """Record the stage that reads; any other one prints nothing."""
        done = 0

        def advance(count: int = 1, /, *, remaining: float | None = None, reused: bool = False) -> None:
            nonlocal done
            done += count
            if title != "observing":
                return
            now = time.monotonic() - self.begin
            if count:
                self.advances.append(now)
            if remaining is None and done and total:
                remaining = now * (total - done) / done
            if remaining is not None:
                self.estimates.append((now, remaining))

        if title != "observing" or self.end:
            yield advance
            return
        self.total, self.begin = total or 0, time.monotonic()
        yield advance
        self.end = time.monotonic() - self.begin

    def note(self, line: str) -> None:
        """Say it on standard error."""
        print(f"{time.monotonic() - self.begin:8.1f} {line}", file=sys.stderr)

    def error_after(self, seconds: float) -> float | None:
        """Return the relative error of the time left as it was last printed by then; None if none was."""
        said = [(when, remaining) for when, remaining in self.estimates if when <= seconds]
        if not said or self.end <= seconds:
            return None
        when, remaining = said[-1]
        return (when + remaining - self.end) / (self.end - seconds)


def measure(model: str, arguments: dict[str, Any]) -> dict[str, float | None]:
    """Run sonde in this process, and measure what it said of its time."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        sonde.run(model, "stdlib", output=f"{folder}/run", progress=recorder, **arguments)
    steps = [0.0, *recorder.advances, recorder.end]
    return {
        "seconds": recorder.end,
        "inputs": recorder.total,
        "silent": max(after - before for before, after in pairwise(steps)),
        "tenth": recorder.error_after(_SHARE * recorder.end),
        "ten_seconds": recorder.error_after(_SECONDS),
    }


def run() -> list[Row]:
    """Errors of estimates, the longest silence and the time of every run."""
    rows: list[Row] = []
    models = [*_BUNDLED, *filter(None, os.environ.get("SONDE_BENCH_MODELS", "").split(","))]
    for model in models:
        for name, arguments in LENSES.items():
            small = arguments if model in _BUNDLED else {**arguments, "limit": arguments["limit"] // 10}
            code = f"from bench.progress import measure; print(json.dumps(measure({model!r}, {small!r})))"
            found = json.loads(took([sys.executable, "-c", f"import json; {code}"]).output.splitlines()[-1])
            label = f"{model.rpartition('/')[2][:24]}, {name}"
            print(f"  {label}: {found}", file=sys.stderr, flush=True)
            rows += [
                {"name": f"{label}: reading", "value": found["seconds"], "unit": "s", "target": ""},
                {"name": f"{label}: longest silence", "value": found["silent"], "unit": "s", "target": ""},
                *(
                    {
                        "name": f"{label}: {title}",
                        "value": found[key],
                        "unit": "share",
                        "target": "-0.25 to 0.25",
                    }
                    for title, key in (
                        ("error of the time left after a tenth", "tenth"),
                        ("error of the time left after 10 s", "ten_seconds"),
                    )
                    if found[key] is not None
                ),
            ]
    return rows
