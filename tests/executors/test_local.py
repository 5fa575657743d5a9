"""Functions under test come from importable modules, since workers start afresh and import what they run."""

import math
import os
from pathlib import Path

import pytest

from sonde.base.errors import SondeError, UnknownNameError
from sonde.executors import EXECUTORS
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
    assert caught.value.nearest == "python"


def test_a_dead_worker_is_one_line() -> None:
    with pytest.raises(SondeError, match="worker process of 2 died"):
        list(EXECUTORS.load("local").map(os._exit, [1, 1], workers=2))
