"""Functions under test come from importable modules, since workers start afresh and import what they run."""

import errno
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sonde.base.errors import SondeError, UnknownNameError
from sonde.executors import EXECUTORS, JOBS_PER_WORKER
from sonde.languages import LANGUAGES


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_has_its_result(workers: int) -> None:
    results = dict(EXECUTORS.load("local").map(math.factorial, range(6), workers=workers))
    assert results == {n: math.factorial(n) for n in range(6)}


def test_one_worker_is_this_process_and_two_are_others() -> None:
    executor = EXECUTORS.load("local")
    (_, here), _ = executor.map(os.path.realpath, ["/proc/self", "/proc/self"], workers=1)
    assert Path(here).name == str(os.getpid())
    there = {Path(path).name for _, path in executor.map(os.path.realpath, ["/proc/self"] * 2, workers=2)}
    assert str(os.getpid()) not in there


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_job_arrives_as_it_was(workers: int) -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'pyton'; did you mean 'python'") as caught:
        list(EXECUTORS.load("local").map(LANGUAGES.load, ["pyton", "pyton"], workers=workers))
    assert caught.value.suggestion == "python"


PARENT = """
import time
from sonde.executors import EXECUTORS

if __name__ == "__main__":
    for job, _ in EXECUTORS.load("local").map(time.sleep, [0.0, 0.0, 0.0, 600.0], workers=2):
        print(job, flush=True)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    line = [sys.executable, str(script)]
    parent = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert parent.stdout is not None
    # One worker is at its long job then, the other one waits for a job that never comes.
    assert [parent.stdout.readline() for _ in range(3)] == ["0.0\n"] * 3
    parent.kill()
    parent.communicate()
    end = time.monotonic() + 60
    while group_is_there(parent.pid) and time.monotonic() < end:
        time.sleep(0.1)
    left = group_is_there(parent.pid)
    if left:
        os.killpg(parent.pid, signal.SIGKILL)
    assert not left


def group_is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_jobs_are_made_than_are_in_hand(workers: int) -> None:
    made: list[int] = []

    def jobs() -> Iterator[int]:
        for one in range(40):
            made.append(one)
            yield one

    results = EXECUTORS.load("local").map(math.factorial, jobs(), workers=workers)
    ahead = [len(made) - taken for taken, _ in enumerate(results)]
    assert len(made) == 40 and max(ahead) <= JOBS_PER_WORKER * workers


def test_a_dead_worker_is_one_line() -> None:
    with pytest.raises(SondeError, match="worker process of 2 died"):
        list(EXECUTORS.load("local").map(os._exit, [1, 1], workers=2))


DIES_WITHIN_ITS_RESULT = """
import os, signal
from multiprocessing.connection import Connection
from sonde.base.errors import SondeError
from sonde.executors import EXECUTORS

def half(self, buffer, write=os.write):
    write(self.fileno(), bytes(buffer)[: len(buffer) // 2])
    os.kill(os.getpid(), signal.SIGKILL)

def work(dies):
    if dies:
        Connection._send = half
    return bytes(100_000)

if __name__ == "__main__":
    executor = EXECUTORS.load("local")
    with executor.keep_processes(KEPT):
        try:
            list(executor.map(work, [True, False, False, False, True], workers=2))
        except SondeError as error:
            print(error)
"""


@pytest.mark.parametrize("kept", [1, 2])
def test_a_worker_that_dies_while_it_sends_its_result_is_one_line_and_no_wait(
    kept: int, tmp_path: Path
) -> None:
    """The pool would read the rest of the result for ever."""
    script = tmp_path / "script.py"
    script.write_text(DIES_WITHIN_ITS_RESULT.replace("KEPT", str(kept)))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("a worker process of 2 died (out of memory?); finished parts are kept")


@pytest.mark.parametrize(
    "place", ["multiprocessing.popen_spawn_posix.Popen", "multiprocessing.queues.SimpleQueue"]
)
def test_processes_that_cannot_start_are_one_line(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{place}.__init__", refuses(OSError(errno.EMFILE, "Too many open files")))
    told = "cannot start 2 worker processes: Too many open files; .* with fewer --workers"
    with pytest.raises(SondeError, match=told):
        list(EXECUTORS.load("local").map(math.factorial, [1, 2], workers=2))


def test_a_worker_that_dies_while_another_starts_is_a_dead_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool closes its pipes when a worker dies, even while it hands them to the next."""
    monkeypatch.setattr(
        "multiprocessing.popen_spawn_posix.Popen.__init__", refuses(OSError("handle is closed"))
    )
    with pytest.raises(SondeError, match="worker process of 2 died"):
        list(EXECUTORS.load("local").map(math.factorial, [1, 2], workers=2))


def refuses(error: OSError) -> Callable[..., None]:
    def fails(*_arguments: object, **_named: object) -> None:
        raise error

    return fails


def test_maps_within_share_their_processes_and_nothing_is_left_of_them() -> None:
    executor = EXECUTORS.load("local")

    def where() -> set[str]:
        return {Path(path).name for _, path in executor.map(os.path.realpath, ["/proc/self"] * 8, workers=2)}

    with executor.keep_processes(2):
        seen = where() | where() | where()
    assert len(seen) <= 2 and not seen & where()
    assert not any(Path("/proc", one).exists() for one in seen)
    with executor.keep_processes(1):
        assert str(os.getpid()) not in where()


def test_a_map_that_is_left_early_leaves_the_shared_processes_at_work() -> None:
    executor = EXECUTORS.load("local")
    with executor.keep_processes(2):
        next(iter(executor.map(math.factorial, range(40), workers=2)))
        assert dict(executor.map(math.factorial, range(3), workers=2)) == {0: 1, 1: 1, 2: 2}
