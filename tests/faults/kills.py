"""Runs of all lenses that are killed again and again, and what each call had to do anew.

    python -m tests.faults.kills --kills 40

A run of six lenses with two worker processes is killed at moments drawn from a seed, called again with the
same command, killed again, and so on until a call ends by itself. Its scores are compared with those of an
undisturbed run, and before each call every table that has a receipt is marked: one that is written
again was repeated in vain.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sonde.training.finetune.tune import CHECKPOINT

SOURCES = ("argparse", "configparser", "csv", "difflib", "shlex", "textwrap", "tokenize", "zipfile")
COMMAND = (
    "run -m sonde/mini-decoder -l surprisal -l attention -l probe -l cloze -l prompting -l finetune "
    "-c local:code --limit 120 --workers 2 --option probe.controls=false --option probe.probe=linear "
    "--option probe.folds=2 --option prompting.tokens=6 --option cloze.candidates=4 --option cloze.frames=0 "
    "--option cloze.per_library=2 --option finetune.epochs=1 --option finetune.batch=8 "
    "--option finetune.methods=pretrained --option finetune.checkpoint=2 --no-report"
)
"""Every lens on a few files of the standard library, trainings with a checkpoint every second update."""

QUICK = (
    "run -m sonde/mini-decoder -l surprisal -l prompting -c local:code --limit 300 --workers 2 "
    "--option prompting.tokens=6 --no-report"
)
"""What a test has the time for."""

_GONE_S = 20.0
"""Seconds in which the processes of a run have to be gone when their parent is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to disturb a run.

    Attributes:
        name: What happens, for the table.
        strike: Takes the process of the command, a leader of its own group, and hurts it.
        code: The exit code that it has to end with; None for any.
        before: Done to the folder of the run before it is called again; gives the folder that it then has.
        around: What stands before the command from the second call on.
        more: What the command says beyond the usual.
    """

    name: str
    strike: Callable[[subprocess.Popen[str]], None]
    code: int | None = None
    before: Callable[[Path], Path] = lambda folder: folder
    around: Sequence[str] = ()
    more: str = ""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of a fault.

    Attributes:
        strikes: How often the run was hurt; a call that ended before its moment is none.
        moments: What the run did at those moments, with how often.
        written: Tables written, over all calls.
        repeated: Tables that had a receipt and were written again.
        parts: Tables of a run that nobody disturbed.
        equal: Whether the scores are those of that run.
        faults: What was not as it has to be.
    """

    strikes: int = 0
    moments: Counter[str] = dataclasses.field(default_factory=Counter[str])
    written: int = 0
    repeated: int = 0
    parts: int = 0
    equal: bool = False
    faults: list[str] = dataclasses.field(default_factory=list[str])


def kill_group(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the command and all its processes."""
    os.killpg(process.pid, signal.SIGKILL)


def kill_parent(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the command alone: its workers have to notice."""
    process.kill()


def terminate(process: subprocess.Popen[str]) -> None:
    """SIGTERM, as a scheduler sends it."""
    process.terminate()


def kill_worker(process: subprocess.Popen[str]) -> None:
    """SIGKILL to one of the processes that work for the command, if there is one at that moment."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    if children:
        os.kill(int(random.Random(process.pid).choice(children)), signal.SIGKILL)


def actors_of(process: int) -> list[int]:
    """The actors of a run at this moment that a process started, or one that it started did."""
    names: dict[int, bytes] = {}
    parents: dict[int, int] = {}
    for about in Path("/proc").glob("[0-9]*"):
        try:
            names[int(about.name)] = (about / "cmdline").read_bytes()
            parents[int(about.name)] = int((about / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue

    def below(one: int) -> bool:
        return one == process or (one in parents and below(parents[one]))

    return sorted(one for one, name in names.items() if name.startswith(b"ray::Worker") and below(one))


def kill_actor(process: subprocess.Popen[str]) -> None:
    """SIGKILL to one of the actors that work for the command, if there is one at that moment."""
    if actors := actors_of(process.pid):
        os.kill(random.Random(process.pid).choice(actors), signal.SIGKILL)


def move(folder: Path) -> Path:
    """The folder of the run gets another name."""
    target = folder.with_name(f"{folder.name}x")
    return folder.rename(target)


FAULTS = (
    Fault(name="SIGKILL to the command and its workers", strike=kill_group),
    Fault(name="SIGKILL to the command alone", strike=kill_parent),
    Fault(name="SIGKILL to one worker", strike=kill_worker),
    Fault(name="SIGTERM", strike=terminate, code=128 + signal.SIGTERM),
    Fault(name="SIGKILL, and the folder moved", strike=kill_group, before=move),
    Fault(
        name="SIGKILL, and the clock set back by a year",
        strike=kill_group,
        around=("faketime", "-f", "-365d"),
    ),
    Fault(name="under Ray, SIGKILL to an actor", strike=kill_actor, more="--executor ray"),
    Fault(name="under Ray, SIGKILL to the command", strike=kill_group, more="--executor ray"),
)


def code_in(place: Path) -> None:
    """Copy the files that runs read, each a folder and so a cluster of its own."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for name in SOURCES:
        (place / "code" / name).mkdir(parents=True)
        source = (
            library / f"{name}.py" if (library / f"{name}.py").is_file() else library / name / "__init__.py"
        )
        shutil.copy(source, place / "code" / name / f"{name}.py")


def start(place: Path, folder: Path, command: str, around: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Call the command in a process group of its own."""
    line = [
        *around,
        sys.executable,
        "-c",
        "from sonde.cli.commands import main; main()",
        *command.split(),
        "-o",
        str(folder),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SONDE_CACHE_SIZE": "0"}
    return subprocess.Popen(
        line,
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def undisturbed(place: Path, command: str) -> tuple[Path, float]:
    """A run that nobody disturbs, and its seconds.

    Raises:
        RuntimeError: It does not end well.
    """
    begin, folder = time.monotonic(), place / "whole"
    process = start(place, folder, command)
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(said[-2000:])
    return folder, time.monotonic() - begin


def disturbed(
    place: Path, command: str, fault: Fault, strikes: int, *, whole: Path, seconds: float, seed: int
) -> Outcome:
    """Hurt runs at moments drawn from a seed until they were hurt often enough, and each until it is done."""
    draw, outcome, number = random.Random(f"{seed} {fault.name}"), Outcome(parts=len(tables(whole))), 0
    folder, calls = place / f"run-{seed}-{FAULTS.index(fault)}-0", 0
    while True:
        # Each call resumes the last one, so later moments hit later stages of the run.
        moment = draw.uniform(0.08, 0.45) * seconds
        left = outcome.strikes < strikes
        before = tables(folder)
        process = start(place, folder, f"{command} {fault.more}", fault.around if calls else ())
        calls += 1
        struck = left and not _ends_before(process, moment)
        if struck:
            outcome.moments[_doing(folder, outcome.parts)] += 1
            fault.strike(process)
            outcome.strikes += 1
        process.wait()
        if struck and not _group_gone(process.pid):
            outcome.faults.append("processes of the run were left over")
            os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate()
        if struck and fault.code is not None and process.returncode not in (fault.code, 0):
            outcome.faults.append(f"ended with {process.returncode}: {said[-200:]}")
        after = tables(folder)
        outcome.repeated += sum(name in after and after[name] != mark for name, mark in before.items())
        outcome.written += sum(before.get(name) != mark for name, mark in after.items())
        if process.returncode == 0:
            outcome.equal = same_scores(folder, whole)
            if not outcome.equal:
                outcome.faults.append(f"other scores in {folder}")
            if not left or outcome.strikes >= strikes:
                return outcome
            number, calls = number + 1, 0
            folder = place / f"run-{seed}-{FAULTS.index(fault)}-{number}"
        elif not struck:
            outcome.faults.append(f"ended by itself with {process.returncode}: {said[-300:]}")
            return outcome
        else:
            folder = fault.before(folder) if folder.exists() else folder


def tables(folder: Path) -> Mapping[str, tuple[int, int]]:
    """Every table with a receipt, and a mark that changes when it is written."""
    found: dict[str, tuple[int, int]] = {}
    for receipt in sorted((folder / "receipts").rglob("*")) if folder.exists() else ():
        name = receipt.relative_to(folder / "receipts").with_suffix("")
        table = next(iter(folder.glob(f"{name}*")), None) if receipt.is_file() else None
        if table is not None and str(name).startswith("observations"):
            about = table.stat()
            found[str(name)] = (about.st_ino, about.st_mtime_ns)
    return found


def _doing(folder: Path, parts: int) -> str:
    """What a run does at this moment, by what lies in its folder."""
    if any((folder / "trained").rglob(CHECKPOINT)):
        return "within a training"
    if not (folder / "labels").exists():
        return "before any label"
    return "between tables" if len(tables(folder)) == parts else "within a table"


def _ends_before(process: subprocess.Popen[str], moment: float) -> bool:
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        return False
    return True


def _group_gone(group: int) -> bool:
    end = time.monotonic() + _GONE_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def same_scores(folder: Path, whole: Path) -> bool:
    mine, theirs = (pl.read_parquet(one / "scores.parquet") for one in (folder, whole))
    return mine.equals(theirs)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Print the table as Markdown; exit code 1 where something was not as it has to be."""
    parser = argparse.ArgumentParser(description="Kill runs and see what is repeated.")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fault", type=int, nargs="*", default=range(len(FAULTS)), help="which of the faults"
    )
    given = parser.parse_args()
    faults = [FAULTS[place] for place in given.fault]
    wrong = 0
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        code_in(place)
        whole, seconds = undisturbed(place, COMMAND)
        count = len(tables(whole))
        _say(f"{seconds:.0f} s undisturbed, {count} tables of observations\n")
        _say(
            "| fault | times | moments | tables with a receipt written again | scores | what was not right |"
        )
        _say("|---|---|---|---|---|---|")
        shares = [given.kills // len(faults) + (at < given.kills % len(faults)) for at in range(len(faults))]
        for fault, times in zip(faults, shares, strict=True):
            found = disturbed(place, COMMAND, fault, times, whole=whole, seconds=seconds, seed=given.seed)
            wrong += len(found.faults) + found.repeated + (not found.equal)
            _say(
                f"| {fault.name} | {found.strikes} "
                f"| {', '.join(f'{times} {what}' for what, times in found.moments.most_common())} "
                f"| {found.repeated} of {found.written} "
                f"| {'equal' if found.equal else 'other'} | {'; '.join(found.faults) or 'nothing'} |",
            )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
