"""Parts of a Ray cluster that go while a command uses it: one line, an exit code, nothing of Ray's own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.faults.kills import actors_of, code_in, same_scores, start, undisturbed

pytestmark = pytest.mark.slow

DRIVER = """
import sys, time
from pathlib import Path
from sonde.cli.output import run_command
from sonde.base.errors import set_log_folder
from sonde.executors import ray as ray_executor
from sonde.executors.ray import RayExecutor

def squared(number):
    time.sleep(0.5)
    return number * number

def command():
    set_log_folder(Path(sys.argv[1]))
    executor = RayExecutor()
    executor.connect(sys.argv[2], 2)
    import ray
    print(ray.get_runtime_context().get_node_id(), flush=True)
    for number, square in executor.map(squared, range(int(sys.argv[3])), workers=2):
        print(number, square, flush=True)

ray_executor.SILENCE_SECONDS = 8.0
sys.exit(run_command(command, ["run"]))
"""

GONE = r"sonde: the Ray cluster '[\w.:]+' does not answer: its head, or the node of this process, is gone; "
STOPPED = "sonde: stopped; finished parts are kept, this command resumes: sonde run"
JOBS = 40
WITHIN_SECONDS = 60.0


@dataclass(frozen=True)
class Driven:
    """A process that maps jobs over a cluster.

    Attributes:
        process: It.
        node: The node of the cluster that it belongs to.
    """

    process: subprocess.Popen[str]
    node: str


def children(process: int, name: str) -> list[int]:
    """The processes below one whose program has a name."""
    found: list[int] = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        program = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].decode()
        found += [int(child)] if program.endswith(name) else children(int(child), name)
    return found


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head without a place for an actor, and a node with two."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    ray.shutdown()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})
    made.add_node(num_cpus=2, object_store_memory=80_000_000)
    yield made
    made.shutdown()


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[[str], Driven]]:
    begun: list[subprocess.Popen[str]] = []

    def begin(address: str) -> Driven:
        script = tmp_path / "driver.py"
        script.write_text(DRIVER)
        with (tmp_path / "stderr").open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, str(script), str(tmp_path), address, str(JOBS)],
                # Actors import the function of the job from there.
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        begun.append(process)
        assert process.stdout is not None
        node = process.stdout.readline().strip()
        for _ in range(3):
            assert re.fullmatch(r"\d+ \d+\n", process.stdout.readline())
        return Driven(process, node)

    yield begin
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def kill_part(cluster: Any, driven: Driven, part: str) -> None:
    """Send a signal to a part of a cluster of several nodes, or to the command."""
    mine = next(node for node in cluster.list_all_nodes() if node.node_id == driven.node)
    other = next(node for node in cluster.list_all_nodes() if node is not mine)

    def process(node: Any, name: str) -> int:
        return node.all_processes[name][0].process.pid

    match part:
        case "node of the driver":
            os.kill(process(mine, "raylet"), signal.SIGKILL)
        case "head killed":
            os.kill(process(cluster.head_node, "gcs_server"), signal.SIGKILL)
        case "head that hangs":
            os.kill(process(cluster.head_node, "gcs_server"), signal.SIGSTOP)
        case "actor":
            os.kill(actors_of(os.getpid())[0], signal.SIGKILL)
        case "other node":
            os.kill(process(other, "raylet"), signal.SIGKILL)
            cluster.add_node(num_cpus=2, object_store_memory=80_000_000)
        case "SIGTERM" | "SIGINT":
            driven.process.send_signal(signal.Signals[part])
        case _:
            raise AssertionError(part)


PARTS = {
    "node of the driver": (1, GONE),
    "head killed": (1, GONE),
    "head that hangs": (1, GONE),
    "actor": (0, ""),
    "other node": (0, ""),
    "SIGTERM": (128 + signal.SIGTERM, STOPPED),
    "SIGINT": (128 + signal.SIGINT, STOPPED),
}


def ends(driven: Driven, code: int, said: str, folder: Path) -> None:
    """Hold the end of a command to an exit code and to one line, or none; all jobs are done where it is 0."""
    begin = time.monotonic()
    # `communicate` would leave out the lines that `readline` has read ahead.
    assert driven.process.stdout is not None
    timer = threading.Timer(WITHIN_SECONDS, driven.process.kill)
    timer.start()
    printed = driven.process.stdout.read()
    driven.process.wait()
    timer.cancel()
    lines = (folder / "stderr").read_text()
    assert driven.process.returncode == code, lines
    assert time.monotonic() - begin < WITHIN_SECONDS
    assert re.fullmatch(f"{said}[^\n]*\n" if said else "", lines) or lines == said
    squares = {int(number): int(square) for number, square in map(str.split, printed.splitlines())}
    assert all(square == number**2 for number, square in squares.items())
    assert (len(squares) == JOBS - 3) == (code == 0)
    assert (folder / "error.log").exists() <= (code != 0)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_cluster_that_goes(
    part: str, cluster: Any, drive: Callable[[str], Driven], tmp_path: Path
) -> None:
    driven = drive(cluster.address)
    kill_part(cluster, driven, part)
    ends(driven, *PARTS[part], tmp_path)
    if PARTS[part][1] == GONE:
        os.kill(cluster.head_node.all_processes["raylet"][0].process.pid, 0)


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_part_of_the_command_s_own_cluster_that_goes(
    name: str, drive: Callable[[str], Driven], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    driven = drive("")
    os.kill(children(driven.process.pid, name)[0], signal.SIGKILL)
    ends(driven, 1, GONE, tmp_path)


def test_a_node_without_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    # Ray ends actors where a node uses more than this part of its memory.
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "", "4"],
        env=environment, capture_output=True, text=True, timeout=2 * WITHIN_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    told = r"sonde: a Ray actor died 3 times .* \(its node ran low on memory\); finished parts are kept, "
    assert re.fullmatch(rf"{told}[^\n]*\n", done.stderr)


def test_what_a_lost_cluster_leaves_is_gone_on_with(cluster: Any, tmp_path: Path) -> None:
    code_in(tmp_path)
    command = "run -m sonde/mini-decoder -l surprisal -c local:code --limit 80 --no-report"
    folder = tmp_path / "run"
    process = start(tmp_path, folder, f"{command} --workers 2 --executor ray --address {cluster.address}")
    while process.poll() is None and not list(folder.glob("observations/**/*.parquet")):
        time.sleep(0.1)
    os.kill(cluster.head_node.all_processes["gcs_server"][0].process.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=2 * WITHIN_SECONDS)
    assert process.returncode == 1
    *progress, last = said.splitlines()
    assert re.match(GONE, last) and not any("ray" in line.lower() for line in progress)
    again = start(tmp_path, folder, command)
    _, said = again.communicate()
    assert again.returncode == 0, said
    whole, _ = undisturbed(tmp_path, command)
    assert same_scores(folder, whole)
