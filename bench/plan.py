"""Time that `sonde run --plan` predicts, compared with the time of runs, and what `--budget` keeps to.

Each run is a command of its own in an empty folder, as is its plan before it.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench._commands import took

SONDE = str(Path(sys.executable).with_name("sonde"))

KINDS = {
    "surprisal, decoder, 1,000 functions": ("-l", "surprisal", "--limit", "1000"),
    "attention, encoder, 400 functions": ("-l", "attention", "-m", "sonde/mini-encoder", "--limit", "400"),
    "probe, two tasks, encoder, 400 examples": (
        *("-l", "probe", "-t", "idn", "-t", "len", "-m", "sonde/mini-encoder", "--limit", "400"),
    ),
    "cloze, encoder, 200 names": ("-l", "cloze", "-m", "sonde/mini-encoder", "--limit", "200"),
}
"""Four runs of different kind."""

BUDGETS = {
    "surprisal, decoder": ("-l", "surprisal"),
    "attention, encoder": ("-l", "attention", "-m", "sonde/mini-encoder"),
    "surprisal, encoder": ("-l", "surprisal", "-m", "sonde/mini-encoder"),
}

BUDGET = os.environ.get("SONDE_BENCH_BUDGET", "5m")

Row = dict[str, object]


def planned(name: str, arguments: Sequence[str]) -> list[Row]:
    """Time a plan against the run that it is of."""
    told = took([SONDE, "run", *arguments, "--plan", "--json"])
    predicted = json.loads(told.output)["seconds"]["observe"]
    with tempfile.TemporaryDirectory() as folder:
        took([SONDE, "run", *arguments, "-o", f"{folder}/run"])
        measured = json.loads(Path(folder, "run", "run.json").read_text())["timing"]["observe"]
    return [
        _row(f"{name}: the plan's own time", told.wall, "s", "below 10"),
        _row(f"{name}: time of observing measured", measured, "s"),
        _row(f"{name}: time of observing predicted / measured", predicted / measured, "x", "0.67 to 1.5"),
    ]


def within(name: str, arguments: Sequence[str]) -> list[Row]:
    """Time a run within a budget, and the same command once more."""
    with tempfile.TemporaryDirectory() as folder:
        command = [SONDE, "run", *arguments, "--budget", BUDGET, "-o", f"{folder}/run"]
        run = took(command)
        first = json.loads(Path(folder, "run", "run.json").read_text())["budget"]
        again = took(command)
        second = json.loads(Path(folder, "run", "run.json").read_text())["budget"]
    budget = float(BUDGET.removesuffix("m")) * 60
    return [
        _row(f"{name}: read in {BUDGET}", first["inputs"], "inputs"),
        _row(f"{name}: time of the command over the budget", run.wall / budget, "x"),
        _row(f"{name}: read by the command once more", second["inputs"] - first["inputs"], "inputs"),
        _row(f"{name}: time of the command once more over the budget", again.wall / budget, "x"),
    ]


def _row(name: str, value: float, unit: str, target: str = "") -> Row:
    return {"name": name, "value": value, "unit": unit, "target": target}


def run() -> list[Row]:
    """Ratios of predicted to measured times, and times over budgets."""
    rows: list[Row] = []
    for name, arguments in KINDS.items():
        rows += _said(planned(name, arguments))
    for name, arguments in BUDGETS.items():
        rows += _said(within(name, arguments))
    return rows


def _said(rows: list[Row]) -> list[Row]:
    """Print rows as soon as they are there, and return them: all together take most of an hour."""
    for row in rows:
        print(f"  {row['name']}: {row['value']:.3g} {row['unit']}", file=sys.stderr, flush=True)
    return rows
