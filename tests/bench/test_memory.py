"""The runs whose memory is measured: every lens has one, and each is an experiment."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Iterator

import pytest

from bench import memory
from sonde.corpora import Selection
from sonde.experiments import Experiment
from sonde.lenses import LENSES


@pytest.fixture(autouse=True)
def _as_imported_before() -> Iterator[None]:
    yield
    importlib.reload(memory)


@pytest.mark.parametrize("lens", LENSES.names())
def test_every_lens_has_a_run(lens: str) -> None:
    given = memory.describe_run(lens, 100)
    assert given.pop("limit") == 100
    options = given.pop("options")
    fields = {name: tuple(values) for name, values in given.items()}
    experiment = Experiment(**fields, selection=Selection(limit=100), options=options)
    assert experiment.lenses == (lens,)
    assert set(options) <= {lens}


def test_nothing_is_said_of_lenses_that_there_are_not() -> None:
    assert set(memory.RUNS) <= set(LENSES.names())


def test_sizes_and_lenses_are_those_asked_for_and_a_run_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SONDE_BENCH_SIZES", "100,50")
    monkeypatch.setenv("SONDE_BENCH_LENSES", "probe,surprisal")
    importlib.reload(memory)

    def measure(lens: str, size: int) -> tuple[float, int]:
        if (lens, size) == ("probe", 50):
            raise subprocess.CalledProcessError(1, "run", stderr="a line\ntoo few functions\n")
        return 2.0 * size, min(size, 80)

    monkeypatch.setattr(memory, "_measure_peak", measure)
    rows = [(row["name"], row["value"]) for row in memory.run()]
    assert rows == [
        ("probe: peak memory at 100 functions", 200.0),
        ("probe: functions that there are of 100", 80),
        ("surprisal: peak memory at 50 functions", 100.0),
        ("surprisal: peak memory at 100 functions", 200.0),
        ("surprisal: functions that there are of 100", 80),
        ("surprisal: that, of the peak at 50 functions", 2.0),
    ]
    assert capsys.readouterr().err == "probe, 50 functions: left out: too few functions\n"
