"""Every lens, with probes and a training, on a device that poses as an accelerator (`tests.posing`)."""

from __future__ import annotations

import html
import inspect
import json
import re
import textwrap
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.results.scores import read_scores
from tests.posing import posing
from tests.slices import with_slices

LENSES = ("surprisal", "probe", "attention", "cloze", "prompting", "finetune")


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of a few modules of the standard library."""
    root = tmp_path_factory.mktemp("posing") / "code"
    for module in (textwrap, inspect, json, html, re):
        folder = root / module.__name__
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(inspect.getsource(module), encoding="utf-8")
    return root


def measured(code: Path, output: Path, models: tuple[Path, ...], device: str) -> Path:
    experiment = Experiment(
        models=tuple(map(str, models)),
        lenses=LENSES,
        tasks=("len", "jft", "api_cloze", "wrong_operator"),
        corpora=(f"local:{code}",),
        selection=Selection(limit=12),
        include_seen=True,
        options={
            "cloze": {"candidates": 3, "scope": "all", "templates": "import,call"},
            "prompting": {"tokens": 4},
            "finetune": {"epochs": 1, "length": 64, "cut": "keep"},
        },
    )
    run(experiment, Execution(output=output, device=device))
    return output


@pytest.mark.slow
def test_every_lens_runs_on_the_device_and_measures_what_the_processor_does(
    code: Path, decoder: Path, encoder: Path, tmp_path: Path
) -> None:
    usual = measured(code, tmp_path / "cpu", (decoder, encoder), "cpu")
    with posing() as device:
        there = measured(code, tmp_path / "cuda", (decoder, encoder), "cuda:0")
    assert device.pinned > 0
    found = [scores_of(folder) for folder in (usual, there)]
    assert {*found[0]["lens"]} == {*LENSES}
    trained = pl.col("lens") == "finetune"
    # Trainings amplify rounding; of them the same rows are there.
    assert found[0].filter(trained).height == found[1].filter(trained).height
    assert_frame_equal(*(one.filter(~trained) for one in found), abs_tol=1e-4)


def scores_of(folder: Path) -> pl.DataFrame:
    """What is compared: all but names that the device is part of."""
    kept = ["model", "lens", "task", "metric", "slice", "layer", "head", "value", "n"]
    frame = with_slices(read_scores(folder / "scores.parquet"))
    return frame.select([name for name in kept if name in frame.columns]).sort(kept[:7])
