"""Runs of every lens that are stopped in each of their stages: one line, an exit code, and the scores of one
that nobody disturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest

from sonde.lenses import LENSES
from tests.faults.kills import code_in, same_scores, start, undisturbed

pytestmark = pytest.mark.slow

STOPPED = "sonde: stopped; finished parts are kept, this command resumes: sonde run "
WORKER_DIED = "sonde: a worker process of 2 died (out of memory?); finished parts are kept, run the same"

SMALL = {
    "attention": "",
    "causal": "--option causal.draws=2 --option causal.items=8 --option causal.patched_cells=4 "
    "--option causal.drawn_cells=2",
    "cloze": "--option cloze.candidates=4 --option cloze.frames=0 --option cloze.per_library=2",
    "fidelity": "-m sonde/mini-decoder?quantise=4bit",
    "finetune": "--option finetune.epochs=1 --option finetune.batch=8 --option finetune.methods=pretrained "
    "--option finetune.checkpoint=2",
    "probe": "-t len --option probe.controls=false --option probe.probe=linear --option probe.folds=2",
    "prompting": "--option prompting.tokens=6",
    "surprisal": "",
}
"""Options by which a lens takes seconds."""


STRUCK = ("observing", "training", "scoring")
"""Stages that belong to a lens; those before are the same for all and are struck for one."""


def begins(process: subprocess.Popen[str], passed: set[str], *, all_stages: bool) -> str:
    """The next stage that a run begins and that is not among those passed, with its number among those of its
    name; empty where the run ends before."""
    assert process.stderr is not None
    seen = Counter[str]()
    for line in process.stderr:
        title, _, what = line.strip().rpartition(": ")
        if what != "begins":
            continue
        seen[title] += 1
        stage = f"{title} {seen[title]}"
        if stage not in passed and (all_stages or title in STRUCK):
            return stage
    return ""


def stopped_in_each_stage(
    place: Path,
    command: str,
    strike: Callable[[subprocess.Popen[str]], Iterator[tuple[int, str]]],
    *,
    all_stages: bool = False,
) -> tuple[Path, list[str]]:
    """Start a run again and again, and stop it once in each of its stages.

    Args:
        place: Where the code lies.
        command: What is run.
        strike: Hurts a process, and gives the exit code and the beginning of the line that may come of it.
        all_stages: Whether those before any lens are struck, too.

    Returns:
        The folder of the run, which ends well at last, and the stages in which it was stopped.
    """
    folder, passed, stages = place / "run", set[str](), list[str]()
    while True:
        process = start(place, folder, command)
        stage = begins(process, passed, all_stages=all_stages)
        expected = list(strike(process)) if stage else []
        _, said = process.communicate()
        if process.returncode == 0 and not stage:
            return folder, stages
        passed.add(stage)
        if process.returncode:
            assert any(
                process.returncode == code and said.splitlines(keepends=True)[-1].startswith(line)
                for code, line in expected
            ), (stage, process.returncode, said)
            assert "Traceback" not in said
            stages.append(stage)


@pytest.mark.parametrize("lens", LENSES.names())
def test_signals_in_each_stage_lose_nothing(lens: str, tmp_path: Path) -> None:
    code_in(tmp_path)
    command = f"run -m sonde/mini-decoder -l {lens} -c local:code --limit 70 --no-report {SMALL[lens]}"
    signals, draw = cycle([signal.SIGTERM, signal.SIGINT]), random.Random(lens)

    def strike(process: subprocess.Popen[str]) -> Iterator[tuple[int, str]]:
        # A server that answers at once is done within a second.
        time.sleep(draw.uniform(0.0, 0.2 if lens == "prompting" else 2.0))
        number = next(signals)
        process.send_signal(number)
        yield 128 + number, STOPPED
        # Where it arrives when the work is done, the interpreter may be ending already.
        yield -number, "scoring: done"

    folder, stages = stopped_in_each_stage(tmp_path, command, strike, all_stages=lens == "surprisal")
    assert stages
    whole, _ = undisturbed(tmp_path, command)
    assert same_scores(folder, whole)


@pytest.mark.parametrize("lens", ("cloze", "surprisal"))
def test_a_worker_that_is_killed_loses_nothing(lens: str, tmp_path: Path) -> None:
    code_in(tmp_path)
    command = (
        f"run -m sonde/mini-decoder -l {lens} -c local:code --limit 140 --workers 2 --no-report {SMALL[lens]}"
    )
    killed = 0

    def strike(process: subprocess.Popen[str]) -> Iterator[tuple[int, str]]:
        nonlocal killed
        end = time.monotonic() + 3
        while time.monotonic() < end and process.poll() is None:
            if workers := workers_of(process.pid):
                os.kill(workers[-1], signal.SIGKILL)
                killed += 1
                yield 1, WORKER_DIED
                return
            time.sleep(0.02)

    folder, stages = stopped_in_each_stage(tmp_path, command, strike)
    assert killed >= len(stages) >= 1
    whole, _ = undisturbed(tmp_path, command)
    assert same_scores(folder, whole)


def workers_of(process: int) -> list[int]:
    """The worker processes of a command at this moment."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [
            int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    except OSError:
        return []
