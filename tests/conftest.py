"""One thread a test: models here are tiny, and threads that wait for each other cost more than they give."""

import os
import tempfile
from collections.abc import Generator
from pathlib import PurePosixPath

import pytest
from hypothesis import settings

from tests.tiers import ROOT, TIERS, get_tier

os.environ.setdefault("OMP_NUM_THREADS", "1")

# What tests keep for later runs is nothing that a person did.
_cache = tempfile.TemporaryDirectory(prefix="sonde-cache-")
os.environ["SONDE_CACHE"] = _cache.name
# Tests count what is observed: each run observes by itself unless a test is about the cache.
os.environ["SONDE_CACHE_SIZE"] = "0"

# A shared machine may be slow for a moment, and speed belongs to the benchmarks.
settings.register_profile("sonde", deadline=None)
settings.load_profile("sonde")


def pytest_configure(config: pytest.Config) -> None:
    _keep_to_one_core()
    for tier, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {meaning}")


def _keep_to_one_core() -> None:
    """Give each of several testing processes a core of its own.

    A run with as many workers as there are cores would otherwise start processes that import torch, beside
    other tests that do so too. Tests of several workers say how many they want.
    """
    process = os.environ.get("PYTEST_XDIST_WORKER", "")
    if process and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(process.removeprefix("gw")) % len(cores)]})


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Mark every test with its tier; one that has none, or several, cannot be collected."""
    report = yield
    for item in report.result or ():
        if isinstance(item, pytest.Item):
            marked = [mark.name for mark in item.iter_markers() if mark.name in TIERS]
            try:
                tier = get_tier(PurePosixPath(item.path.relative_to(ROOT).as_posix()), marked)
            except ValueError as error:
                report.outcome, report.longrepr, report.result = "failed", str(error), []
                break
            if not marked:
                item.add_marker(tier)
    return report
