"""What ``import sonde`` offers, and that it costs nothing before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import sonde
from sonde.experiments import Experiment

HEAVY = {"torch", "transformers", "polars", "numpy", "scipy", "pydantic", "pyarrow", "altair", "typer"}


def test_the_names_are_these() -> None:
    names = [
        "Experiment",
        "FineTuned",
        "GateCallback",
        "Run",
        "align",
        "capture",
        "card",
        "compare",
        "gate",
        "label",
        "load_model",
        "read_scores",
        "run",
        "show",
    ]
    assert sorted(sonde.__all__) == names
    assert {*names, "__version__"} <= set(dir(sonde))


def test_every_name_is_there_and_stays_the_same() -> None:
    for name in sonde.__all__:
        assert getattr(sonde, name) is getattr(sonde, name)
    assert sonde.Experiment is Experiment
    assert sonde.capture is sys.modules["sonde.capture"]


@pytest.mark.parametrize("module", [sonde, sonde.capture])
def test_another_name_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'compar'"):
        _ = module.compar  # type: ignore[attr-defined]


def _modules_after(code: str) -> set[str]:
    code = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    made = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in json.loads(made.stdout.splitlines()[-1])}


def test_the_import_loads_no_library() -> None:
    found = _modules_after("import sonde\ndir(sonde)\nassert sonde.__version__")
    assert not HEAVY & found
    assert "sonde" in found


def test_scores_and_labels_are_had_without_torch() -> None:
    found = _modules_after("from sonde import Run, read_scores, label, align, capture")
    assert "polars" in found
    assert not {"torch", "transformers"} & found
