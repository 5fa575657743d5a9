"""Nodes of a Ray cluster that go while they work, as a scheduler takes them back, and others that come."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sonde.base.errors import SondeError
from sonde.executors import ray as sondes
from sonde.executors.ray import MAXIMUM_ATTEMPTS, RayExecutor

NOTICED_SOON = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
"""Ray's own settings take a quarter of a minute to believe that a node is gone."""


@pytest.fixture
def node() -> Iterator[Callable[[], Any]]:
    """Replaces the only node of a cluster that can work by another one; the first call adds it."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    ray.shutdown()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000, "_system_config": NOTICED_SOON},
    )
    held: list[Any] = []

    def another() -> None:
        if held:
            cluster.remove_node(held.pop(), allow_graceful=False)
        held.append(cluster.add_node(num_cpus=1, object_store_memory=80_000_000))

    # Before there is another node: a process that joins a cluster may stand on any node of the machine, and
    # Ray takes none away on which it stands.
    RayExecutor().connect(cluster.address, 1)
    another()
    yield another
    ray.shutdown()
    cluster.shutdown()


def begun(place: str) -> int:
    """Leave a mark, and stay until there are as many as the name of the file says."""
    path = Path(place)
    with path.open("a") as marks:
        marks.write(f"{os.getpid()}\n")
    while (count := len(path.read_text().splitlines())) < int(path.name):
        time.sleep(0.05)
    return count


def outlived(node: Callable[[], Any], path: Path, times: int) -> dict[str, int]:
    """What a job gives whose node goes as often, each time when it has begun there."""
    # Ray starts nodes in a main thread only.
    with ThreadPoolExecutor(1) as beside:
        found = beside.submit(lambda: dict(RayExecutor().map(begun, [str(path)], workers=1)))
        for number in range(times):
            while not found.done() and (not path.exists() or len(path.read_text().splitlines()) <= number):
                time.sleep(0.05)
            node()
        return found.result()


@pytest.mark.slow
class TestNodesThatGo:
    def test_a_job_outlives_more_nodes_than_it_may_lose_actors(
        self, node: Callable[[], Any], tmp_path: Path
    ) -> None:
        path = tmp_path / f"{MAXIMUM_ATTEMPTS + 2}"
        assert outlived(node, path, MAXIMUM_ATTEMPTS + 1) == {str(path): MAXIMUM_ATTEMPTS + 2}

    def test_a_job_that_takes_each_node_down_ends_the_run(
        self, node: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sondes, "NODES_LOST", 2)
        with pytest.raises(SondeError, match="the node of a Ray actor was lost 2 times at job 1 "):
            outlived(node, tmp_path / "9", 2)
