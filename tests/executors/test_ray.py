"""Ray behind the same map: everything here needs a cluster, which is started once and kept small."""

import math
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sonde
from sonde.base.errors import SondeError, StoreError, UnknownNameError, UsageError
from sonde.executors import EXECUTORS, Cluster
from sonde.executors.ray import _check, share_of, versions  # pyright: ignore[reportPrivateUsage]
from sonde.languages import LANGUAGES


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster on this machine, started by the first map and ended with the last test."""
    ray = pytest.importorskip("ray")
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
        _check("there", versions(), ["/runs/a/.seen-1"])


def test_a_node_with_other_versions_is_refused_by_name() -> None:
    theirs = {**versions(), "torch": "0.1"}
    with pytest.raises(SondeError, match=r"the node 'there' has other versions: torch 0\.1 \(here "):
        _check("there", theirs, [])


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
    assert isinstance(EXECUTORS.load("ray"), Cluster)
    with pytest.raises(UsageError, match="executor 'local' runs on this machine and has no address"):
        sonde.run(address="head:6379", limit=3)


def test_actors_share_accelerators_where_there_are_too_few() -> None:
    assert [share_of(4, 2), share_of(4, 4), share_of(4, 5), share_of(1, 3)] == [1.0, 1.0, 0.5, 0.3333]
    with pytest.raises(UsageError, match="the Ray cluster has no accelerator; use --device cpu"):
        share_of(0, 1)
