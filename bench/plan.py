"""What `sonde run --plan` foretells against what runs take, and what `--budget` keeps to.

Each run is a command of its own in an empty folder, as is its plan before it. On a machine that does other
work, processor time says more than the time that passes: both are given.
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
    plan = json.loads(told.output)["cost"]
    with tempfile.TemporaryDirectory() as folder:
        run = took([SONDE, "run", *arguments, "-o", f"{folder}/run"])
        forwards = json.loads(Path(folder, "run", "run.json").read_text())["forwards"].get("run", 0)
    pairs = {
        "processor time": (plan["processor_seconds"], run.processor, "s", "0.67 to 1.5"),
        "time": (plan["seconds"], run.wall, "s", "0.67 to 1.5 where the machine is as busy"),
        "forwards": (plan["forwards"], forwards, "inputs", ""),
    }
    rows = [_row(f"{name}: the plan's own time", told.wall, "s")]
    for what, (foretold, measured, unit, target) in pairs.items():
        rows.append(_row(f"{name}: {what} measured", measured, unit))
        rows.append(_row(f"{name}: {what} foretold over it", foretold / measured, "x", target))
    return rows


def within(name: str, arguments: Sequence[str]) -> list[Row]:
    """Time a run within a budget, and the same command once more."""
    with tempfile.TemporaryDirectory() as folder:
        command = [SONDE, "run", *arguments, "--budget", BUDGET, "-o", f"{folder}/run"]
        run = took(command)
        chosen = json.loads(Path(folder, "run", "run.json").read_text())["budget"]
        again = took(command)
        same = json.loads(Path(folder, "run", "run.json").read_text())["budget"] == chosen
    budget = float(BUDGET.removesuffix("m")) * 60
    alone = run.wall - chosen["warm_up_seconds"]
    return [
        _row(f"{name}: taken in {BUDGET}", chosen["limit"], chosen["unit"]),
        _row(f"{name}: time over the budget", run.wall / budget, "x", "0.8 to 1.2"),
        _row(f"{name}: the run alone over what was expected", alone / chosen["expected_seconds"], "x"),
        _row(f"{name}: the command once more", again.wall, "s"),
        _row(f"{name}: the same sample then", float(same), "", "1"),
    ]


def _row(name: str, value: float, unit: str, target: str = "") -> Row:
    return {"name": name, "value": value, "unit": unit, "target": target}


def run() -> list[Row]:
    """Ratios of what was foretold to what was measured, and times over budgets."""
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
