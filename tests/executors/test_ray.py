"""Ray behind the same map: everything here needs a cluster, which is started once and kept small."""

import math
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sonde
from sonde.base.errors import SondeError, StoreError, UnknownNameError, UsageError
from sonde.corpora import Item
from sonde.corpora.engine import parallel
from sonde.executors import EXECUTORS, JOBS_PER_WORKER, ClusterExecutor
from sonde.executors.ray import (
    _check_node,  # pyright: ignore[reportPrivateUsage]
    compute_accelerator_share,
    get_versions,
    start_cluster,
)
from sonde.languages import LANGUAGES
from sonde.tasks import LabelRequest, ParallelMap, label_items


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of two processors on this machine, however many of them this process may use."""
    ray = pytest.importorskip("ray")
    start_cluster(ray, 2)
    yield
    ray.shutdown()


@pytest.fixture
def cluster_of_one(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ray = pytest.importorskip("ray")
    ray.shutdown()
    monkeypatch.setattr("sonde.executors.ray.count_cores", lambda: 1)
    start_cluster(ray, 1)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
class TestOnACluster:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_every_job_has_its_result(self, workers: int) -> None:
        results = dict(EXECUTORS.load("ray").map(math.factorial, range(6), workers=workers))
        assert results == {n: math.factorial(n) for n in range(6)}

    def test_an_error_of_a_job_arrives_as_it_was(self) -> None:
        with pytest.raises(UnknownNameError, match="unknown language 'pyton'; did you mean 'python'"):
            list(EXECUTORS.load("ray").map(LANGUAGES.load, ["pyton", "pyton"], workers=2))

    def test_a_job_that_kills_its_actor_every_time_is_one_line(self) -> None:
        with pytest.raises(SondeError, match=r"died 3 times at job 1 "):
            list(EXECUTORS.load("ray").map(os._exit, [1], workers=1))

    def test_a_killed_actor_costs_the_job_that_it_had(self, tmp_path: Path) -> None:
        places = [str(tmp_path / f"{n}") for n in range(4)]
        answers = EXECUTORS.load("ray").map(die_once, places, workers=2)
        assert dict(answers) == dict.fromkeys(places, 2)

    def test_no_more_jobs_are_made_than_are_in_hand(self) -> None:
        made: list[int] = []
        ahead = [
            len(made) - taken
            for taken, _ in enumerate(EXECUTORS.load("ray").map(math.factorial, kept_in(made, 40), workers=2))
        ]
        assert len(made) == 40 and max(ahead) <= JOBS_PER_WORKER * 2

    def test_maps_within_share_their_actors_and_nothing_is_left_of_them(self) -> None:
        check_shared_actors()

    def test_an_actor_that_is_killed_while_it_labels_costs_its_job(self, tmp_path: Path) -> None:
        (tmp_path / "dying.py").write_text(DYING.format(mark=str(tmp_path / "mark")))
        items = [Item(f"{n}", f"item {n}", "text", "function") for n in range(40)]
        asked = LabelRequest(str(tmp_path / "dying.py"), 0, "corrected", frozenset(), {})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parallel, "_CHUNK", 5)
            there = list(label_items(asked, items, ParallelMap("ray", workers=2, worth=1)))
            times = (tmp_path / "mark").read_text().split()
            here = list(label_items(asked, items))
        assert [item for item, _ in there] == items
        assert all(one.equals(other) for (_, one), (_, other) in zip(here, there, strict=True))
        # The chunk of items 20 to 24 was begun twice, and nothing else was.
        assert sorted(times) == sorted([*(f"{5 * n}" for n in range(8)), "20"])


@pytest.mark.slow
@pytest.mark.usefixtures("cluster_of_one")
def test_actors_that_wait_for_the_only_processor_are_not_waited_for() -> None:
    check_shared_actors()


def check_shared_actors() -> None:
    """Maps in one context share two actors at most, whether both have a processor or one waits for it."""
    executor = EXECUTORS.load("ray")

    def where(workers: int = 2) -> set[str]:
        jobs = ["/proc/self"] * 8
        return {Path(path).name for _, path in executor.map(os.path.realpath, jobs, workers=workers)}

    with executor.keep_processes(2):
        seen = where() | where() | where(1)
        # One that dies meanwhile is not missed.
        os.kill(int(next(iter(seen))), signal.SIGKILL)
        assert len(seen) <= 2 and len(where() | where()) <= 2
    assert not seen & where()


DYING = """
\"\"\"DYING: kills the process that labels item 20, the first time.\"\"\"
import os
from pathlib import Path
from sonde.tasks.engine.task import ItemLabels

MARK = Path({mark!r})


class Dying(ItemLabels):
    name, version, target, labels, needs_repository = "dying", "1", "item", ("a",), False

    def label(self, items, repositories):
        items = list(items)
        begun = MARK.read_text().split() if MARK.exists() else []
        with MARK.open("a") as mark:
            mark.write(items[0].item_id + " ")
        if items[0].item_id == "20" and "20" not in begun:
            os._exit(1)
        return super().label(items, repositories)

    def label_rows(self, item, repositories):
        return [(0, len(item.text), "a", float(item.item_id))]


task = Dying()
"""


def kept_in(made: list[int], number: int) -> Iterator[int]:
    """Numbers, each told when it is made."""
    for one in range(number):
        made.append(one)
        yield one


def die_once(place: str) -> int:
    """Leave a mark and die, where there is none yet; else the number of marks with this one."""
    mark = Path(place)
    begun = int(mark.read_text()) if mark.exists() else 0
    mark.write_text(str(begun + 1))
    if not begun:
        os._exit(1)
    return begun + 1


def test_a_node_that_does_not_see_the_folder_is_refused() -> None:
    with pytest.raises(StoreError, match="the node 'there' does not see the folder '/runs/a'"):
        _check_node("there", get_versions(), ["/runs/a/.seen-1"])


def test_a_node_with_other_versions_is_refused_by_name() -> None:
    theirs = {**get_versions(), "torch": "0.1"}
    with pytest.raises(SondeError, match=r"the node 'there' has other versions: torch 0\.1 \(here "):
        _check_node("there", theirs, [])


def test_a_cluster_that_does_not_answer_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray").shutdown()
    monkeypatch.chdir(tmp_path)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    begin = time.monotonic()
    with pytest.raises(UsageError, match=rf"no Ray cluster answers at '{address}'; start one with"):
        sonde.run(executor="ray", address=address, limit=3)
    assert time.monotonic() - begin < 20
    assert not list(Path("runs").glob("*/*.parquet"))


@pytest.mark.slow
def test_something_else_than_ray_at_the_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray").shutdown()
    monkeypatch.chdir(tmp_path)
    begin = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(UsageError, match=rf"no Ray cluster answers at '{address}'; start one with"):
            sonde.run(executor="ray", address=address, limit=3)
    assert time.monotonic() - begin < 40
    assert not list(Path("runs").glob("*/*.parquet"))


def test_an_address_needs_an_executor_that_has_one() -> None:
    assert isinstance(EXECUTORS.load("ray"), ClusterExecutor)
    with pytest.raises(UsageError, match="executor 'local' runs on this machine and has no address"):
        sonde.run(address="head:6379", limit=3)


def test_actors_share_accelerators_where_there_are_too_few() -> None:
    assert [
        compute_accelerator_share(4, 2),
        compute_accelerator_share(4, 4),
        compute_accelerator_share(4, 5),
        compute_accelerator_share(1, 3),
    ] == [1.0, 1.0, 0.5, 0.3333]
    with pytest.raises(UsageError, match="the Ray cluster has no accelerator; use --device cpu"):
        compute_accelerator_share(0, 1)
