"""Benchmarks in some rounds, kept as data that docs/performance.md is made from.

    python -m bench._full [--rounds 3] [--into docs/measured/processor.json] [NAME ...]

A benchmark's figures are written as they come, in the place of what the file held of it, so that a command
that is stopped loses one figure at most.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from sonde.experiments.progress import describe_hardware

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("sonde", "torch", "transformers", "tokenizers", "polars", "numpy", "scikit-learn")

BENCHMARKS = (
    *("startup", "whole", "capture", "causal", "lens", "attention", "probe", "cloze", "alignment"),
    *(
        "architectures",
        "duplicates",
        "host",
        "cubert",
        "finetune",
        "pretrain",
        "memory",
        "large",
        "plan",
        "preparation",
        "scale",
        "peers",
    ),
)
"""All but that of docs/tasks.md and that of an accelerator."""


def machine() -> dict[str, Any]:
    """Return what figures depend on besides the code."""
    held = describe_hardware()
    return {
        "processor": held["processor"],
        "cores": held["cores"],
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "accelerator": _accelerator(),
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def _accelerator() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def measured(name: str, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a benchmark with the values of every round, as far as they go, after each figure.

    Raises:
        CalledProcessError: It failed.
    """
    rows: dict[str, dict[str, Any]] = {}
    command = [sys.executable, "-m", "bench", "--json", name]
    for number in range(1, rounds + 1):
        with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, encoding="utf-8") as running:
            assert running.stdout is not None
            for line in running.stdout:
                told = json.loads(line)
                row = rows.setdefault(told["name"], {key: told[key] for key in ("name", "unit", "target")})
                # The lowest and the highest of one turn are its figure itself.
                apart = {*(told.get("spread") or ())} - {told["value"]}
                row.setdefault("values", []).extend(told["spread"] if apart else [])
                row["values"].append(told["value"])
                yield _entry(name, number, rows)
        if running.returncode:
            raise subprocess.CalledProcessError(running.returncode, command)


def _entry(name: str, rounds: int, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "benchmark": name,
        "command": f"python -m bench {name}",
        "rounds": rounds,
        "load": round(os.getloadavg()[2], 1),
        "when": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "rows": list(rows.values()),
    }


def main(arguments: Sequence[str]) -> int:
    """Measure, and write what comes of it into the file."""
    parser = argparse.ArgumentParser(description="Measure benchmarks for docs/performance.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=Path, default=_ROOT / "docs" / "measured" / "processor.json")
    given = parser.parse_args(arguments)
    failed: list[str] = []
    for name in given.names or BENCHMARKS:
        try:
            for found in measured(name, given.rounds):
                keep_entry(found, given.into)
        except subprocess.CalledProcessError:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def keep_entry(found: dict[str, Any], into: Path) -> None:
    """Put a benchmark's figures in the place of those that a file held of it."""
    held = json.loads(into.read_text(encoding="utf-8")) if into.exists() else []
    kept = [one for one in held if one["benchmark"] != found["benchmark"]]
    into.parent.mkdir(parents=True, exist_ok=True)
    written = into.with_suffix(".part")
    written.write_text(json.dumps([*kept, found], indent=1) + "\n", encoding="utf-8")
    written.replace(into)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
