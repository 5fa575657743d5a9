"""A run on three Ray nodes whose worker, node and driver are killed in turn, and what was repeated.

    python -m tests.faults.nodes --limit 1000 --java JDK/lib/src.zip

The nodes are processes of this machine, each with a working folder and a home of its own, in which nothing of
the corpus lies. When a third of the tables is there a worker is killed, later a whole node (another one comes
in its place), then the command itself, which is restarted. The scores are compared with those of a run with
the executor ``local``, and no table that had a receipt may be written again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tests.faults.kills import actors_of, kill_group, same_scores, start, tables

COMMAND = (
    "run -m sonde/mini-decoder -l surprisal -l attention -l probe -t ktx -t len -c local:code "
    "--option probe.controls=false --option probe.probe=linear --option probe.folds=2 --no-report"
)
NODES = 3

_PACKAGES = (
    "java/util/",
    "java/text/",
    "java/time/",
    "java/math/",
    "java/net/",
    "java/nio/",
    "java/security/",
)
_MOST_FILES = 400
_GIVES_UP_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One thing that was killed.

    Attributes:
        what: What it was.
        there: Tables with a receipt at that moment.
        again: Of those, how many were written again until the next one, or the end.
    """

    what: str
    there: int
    again: int


def code_in(place: Path, java: Path | None) -> None:
    """Files of two languages, each package a folder and so a cluster of its own."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for source in sorted(library.glob("[a-z]*.py")):
        folder = place / "code" / source.stem
        folder.mkdir(parents=True)
        shutil.copy(source, folder / source.name)
    if java is None:
        return
    with zipfile.ZipFile(java) as archive:
        named = [name.partition("/") for name in archive.namelist() if name.endswith(".java")]
        chosen = [(module, inner) for module, _, inner in named if inner.startswith(_PACKAGES)]
        for module, inner in chosen[:: max(1, len(chosen) // _MOST_FILES)]:
            target = place / "code" / Path(inner).parent.as_posix().replace("/", "_") / Path(inner).name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(f"{module}/{inner}"))


@contextmanager
def three_nodes(place: Path) -> Generator[tuple[Any, Callable[[], Any]]]:
    """A cluster, and what adds a node to it; each node has a working folder and a home of its own."""
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    number = 0
    before = Path.cwd(), os.environ.get("HOME", "")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})

    def add() -> Any:
        nonlocal number
        number += 1
        home = place / f"node-{number}"
        home.mkdir()
        os.chdir(home)
        os.environ["HOME"] = str(home)
        try:
            return cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
        finally:
            os.chdir(before[0])
            os.environ["HOME"] = before[1]

    try:
        yield cluster, add
    finally:
        cluster.shutdown()


def wait_for(process: subprocess.Popen[str], folder: Path, number: int) -> bool:
    """Until so many tables have a receipt; False where the command ends before."""
    end = time.monotonic() + _GIVES_UP_S
    while time.monotonic() < end and process.poll() is None:
        if len(tables(folder)) >= number:
            return True
        time.sleep(0.2)
    return False


def killed_in_turn(place: Path, command: str, whole: Path) -> tuple[list[Struck], str, bool]:
    """Kill a worker, a node and the driver of a run on three nodes.

    Returns:
        What was killed, what the last call said, and whether its scores are those of the other run.

    Raises:
        RuntimeError: A call ended before its time, or not well.
    """
    folder, total = place / "ray", len(tables(whole))
    struck: list[Struck] = []
    with three_nodes(place) as (cluster, add):
        nodes = [add() for _ in range(NODES)]
        words = f"{command} --executor ray --address {cluster.address} --workers {NODES}"

        def a_node() -> None:
            cluster.remove_node(nodes[0], allow_graceful=False)
            add()

        process = start(place, folder, words)
        blows: list[tuple[str, Callable[[], None]]] = [
            ("a worker (SIGKILL)", lambda: os.kill(actors_of(os.getpid())[0], signal.SIGKILL)),
            ("a node with all its processes; another one comes", a_node),
            ("the driver (SIGKILL), called again", lambda: kill_group(process)),
        ]
        marks = tables(folder)
        for turn, (what, strike) in enumerate(blows):
            if not wait_for(process, folder, total * (turn + 1) // 4):
                raise RuntimeError(f"ended before its time: {process.communicate()[1][-2000:]}")
            marks = tables(folder)
            strike()
            if turn == len(blows) - 1:
                process.wait()
                process = start(place, folder, words)
                process.wait()
            elif not wait_for(process, folder, total * (turn + 2) // 4):
                raise RuntimeError(f"ended before its time: {process.communicate()[1][-2000:]}")
            now = tables(folder)
            again = sum(now.get(name) != mark for name, mark in marks.items())
            struck.append(Struck(what=what, there=len(marks), again=again))
        _, said = process.communicate()
        if process.returncode:
            raise RuntimeError(said[-2000:])
    return struck, said, same_scores(folder, whole)


def main() -> int:
    """Print the table as Markdown; exit code 1 where something was repeated or other scores came out."""
    parser = argparse.ArgumentParser(description="Kill parts of a Ray cluster and see what is repeated.")
    parser.add_argument("--limit", type=int, default=1000, help="functions a language")
    parser.add_argument("--java", type=Path, help="the archive of a JDK's sources")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        code_in(place, given.java)
        command = f"{COMMAND} --limit {given.limit}"
        begin, whole = time.monotonic(), place / "local"
        process = start(place, whole, f"{command} --workers 2")
        _, said = process.communicate()
        if process.returncode:
            raise RuntimeError(said[-2000:])
        local = time.monotonic() - begin
        begin = time.monotonic()
        struck, said, equal = killed_in_turn(place, command, whole)
        languages = pl.read_parquet(whole / "items.parquet", columns=["language"])["language"].value_counts()
        sys.stdout.write(
            f"{dict(languages.rows())} functions, {len(tables(whole))} tables; local {local:.0f} s, "
            f"Ray with all that happened {time.monotonic() - begin:.0f} s\n\n"
            "| killed | tables with a receipt then | of those written again |\n|---|---|---|\n"
        )
        for one in struck:
            sys.stdout.write(f"| {one.what} | {one.there} | {one.again} |\n")
        sys.stdout.write(f"\nscores {'equal' if equal else 'differ'}\n{said[-600:]}\n")
    return int(not equal or any(one.again for one in struck))


if __name__ == "__main__":
    sys.exit(main())
