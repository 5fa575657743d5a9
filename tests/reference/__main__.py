"""``make reference``: run the fixed set with the tree at ``before-house`` and with this tree, and compare.

The sources of the earlier tree, an environment and what its commands gave are kept below ``.reference``, or
the folder that ``SONDE_REFERENCE_PLACE`` names, which several worktrees may share: only this tree runs again.
``python -m tests.reference 'run-causal*'`` compares some commands, ``--quick`` a few that take minutes.
"""

from __future__ import annotations

import argparse
import fcntl
import filecmp
import hashlib
import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.reference.collect import Tree, collect
from tests.reference.commands import QUICK, Command, chosen, commands
from tests.reference.compare import DIFFERS, Intended, differences, told
from tests.reference.corpora import freeze_labels, freeze_languages, freeze_repository

TAG = "before-house"
COMMIT = "5792273ebe519ef2334b5caab1bd40c4c5a9857c"
"""The commit of the tag."""

ROOT = Path(__file__).parents[2]
OWN = ROOT / ".reference"
PLACE = Path(os.environ.get("SONDE_REFERENCE_PLACE") or OWN).absolute()
INTENDED: dict[tuple[str, str], Intended] = {
    ("*", "*.parquet"): Intended("the text of `dimensions`, which say the same", columns=("slice",)),
    ("run-prompting-served", "run/trained/*/replies.jsonl"): Intended(
        "replies are kept in the order in which a server that answers several at once gives them", maximum=30
    ),
}
"""Files that differ by intention, each with the reason; `compare.Intentions` says by which names."""

_DECIDING = ("pyproject.toml", "constraints.txt", "tests/reference/server.py")
"""Files besides the sources that decide what a command gives."""

_WORKERS = 2


def main(arguments: list[str]) -> int:
    """Run both, print what differs and what was added; 1 where anything differs that is not intended."""
    parser = argparse.ArgumentParser(prog="python -m tests.reference", description=__doc__)
    parser.add_argument("names", nargs="*", help="commands, with * for any letters")
    parser.add_argument("--quick", action="store_true", help="a few commands, for every change")
    parser.add_argument("--list", action="store_true", help="name the commands, and run none")
    parser.add_argument("--before", action="store_true", help="run the earlier tree alone")
    given = parser.parse_args(arguments)
    commit = _resolve_commit()
    if commit is None:
        print(
            f"reference: neither the tag {TAG} nor its commit is in this repository; fetch its whole history"
        )
        return 2
    earlier = _build(PLACE / commit[:12], commit)
    every = list(
        commands(freeze_languages(PLACE), _tasks(earlier), freeze_repository(PLACE), freeze_labels(PLACE))
    )
    names = [*given.names, *(QUICK if given.quick else ())] or ["*"]
    wanted, named = chosen(every, names)
    if given.list:
        print(*named, sep="\n")
        return 0
    before, after = PLACE / commit[:12] / "before", OWN / "now"
    with _alone(before):
        wrong = _timed(earlier, wanted, before)
    if not given.before:
        _forget_other_sources(after)
        wrong += _timed(Tree(ROOT, Path(sys.executable), OWN / "declared"), wanted, after)
    print(*dict.fromkeys(f"reference: {line}" for line in wrong), sep="\n", end="\n" if wrong else "")
    if given.before:
        return 1 if wrong else 0
    found = list(differences(before, after, INTENDED, named))
    print(*told(found), sep="\n")
    differing = sum(finding.kind == DIFFERS for finding in found)
    rest = f"{len(found) - differing} additions and intended differences"
    print(f"reference: {differing or 'no'} differences to {TAG} in {len(named)} commands; {rest}")
    return 1 if differing or wrong else 0


def _forget_other_sources(folder: Path) -> None:
    """Remove what other sources gave; what those at hand gave before an interruption is kept."""
    hashed = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*"), *(ROOT / name for name in _DECIDING)]):
        if path.is_file() and path.suffix != ".pyc":
            hashed.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    stamp = folder.with_suffix(".sources")
    if not stamp.exists() or stamp.read_text() != hashed.hexdigest():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(hashed.hexdigest())


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Wait until no other worktree writes into a shared folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"reference: waits for another process that writes into {folder}", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _timed(tree: Tree, wanted: list[Command], output: Path) -> list[str]:
    started = time.monotonic(), _processor_seconds()
    wrong = collect(tree, wanted, output, _WORKERS)
    wall, processor = (time.monotonic() - started[0]) / 60, (_processor_seconds() - started[1]) / 60
    print(f"reference: {len(wanted)} commands in {wall:.1f} min, {processor:.1f} of CPU time", flush=True)
    return wrong


def _processor_seconds() -> float:
    """CPU time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _resolve_commit() -> str | None:
    """The commit to compare with: that of the tag, which a clone may lack."""
    for name in (TAG, COMMIT):
        asked = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
        found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        if found:
            return found
    return None


def _build(folder: Path, commit: str) -> Tree:
    """Write the sources of the earlier tree, and find an interpreter with its dependencies."""
    source = folder / "source"
    if not source.exists():
        partial = folder / f".source-{os.getpid()}"
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(partial, filter="data")
        partial.replace(source)
    return Tree(source, _interpreter(source, folder / "venv"), folder / "declared")


def _interpreter(source: Path, environment: Path) -> Path:
    """The interpreter at hand where its dependencies are constrained alike, else one of a new environment."""
    if filecmp.cmp(source / "constraints.txt", ROOT / "constraints.txt", shallow=False):
        return Path(sys.executable)
    python = environment / "bin" / "python"
    if not (environment / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "-c", source / "constraints.txt"]
        subprocess.run([*install, "torch"], check=True)
        subprocess.run([*install, "-e", f"{source}[baselines,minhash]"], check=True)
        (environment / "installed").touch()
    return python


def _tasks(tree: Tree) -> list[str]:
    """The tasks of the earlier tree, by the names that its command line gives."""
    tree.declare()
    listed = subprocess.run(
        tree.call("list", "tasks"), env=tree.environment(), capture_output=True, text=True, check=True
    ).stdout
    return [line.split()[0] for line in listed.splitlines() if line and not line.startswith(" ")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
