"""Sweeps of fine-tuning in one run: each value is trained as it is alone, and keyed on its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.lenses.test_finetune import code, save_encoder
from tests.slices import with_slices

from sonde.base.errors import UnknownNameError, UsageError
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.lenses import LensSettings, load_training_lens
from sonde.lenses.finetune.options import variants
from sonde.report.headlines import describe_scores
from sonde.results.schema import dimension_value
from sonde.results.scores import read_scores

LENS = load_training_lens("finetune")
TASK = "variable_misuse"
OPTIONS = {"epochs": 1, "length": 48, "rates": "1e-3", "methods": "pretrained,bag_of_tokens", "cut": "keep"}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    root = tmp_path_factory.mktemp("swept")
    for package in range(10):
        folder = root / "code" / f"package{package}"
        folder.mkdir(parents=True)
        (folder / "module.py").write_text("\n\n".join(code(package, index) for index in range(10)))
    encoder = save_encoder(root / "encoder", [code(1, 1)], layers=1)
    return Experiment(
        models=(str(encoder),),
        lenses=("finetune",),
        tasks=(TASK,),
        corpora=(f"local:{root / 'code'}",),
        selection=Selection(limit=60, languages=("python",)),
        options={"finetune": OPTIONS},
    )


def with_options(experiment: Experiment, **options: Any) -> Experiment:
    return dataclasses.replace(experiment, options={"finetune": {**OPTIONS, **options}})


def told(folder: Path, **where: Any) -> pl.DataFrame:
    scores = with_slices(pl.read_parquet(folder / "scores.parquet")).filter(pl.col("split") == "test")
    for column, value in where.items():
        scores = scores.filter(pl.col(column).eq_missing(pl.lit(value)))
    return scores


def test_a_value_of_a_sweep_is_told_as_it_is_alone(asked: Experiment, tmp_path: Path) -> None:
    swept = with_options(asked, sweep="fraction: 0.5, 1")
    assert run(swept, Execution(output=tmp_path / "swept")).trained == 4
    for fraction in (0.5, 1):
        alone = tmp_path / f"alone{fraction}"
        run(with_options(asked, fraction=fraction), Execution(output=alone))
        for control in (None, "bag_of_tokens", "majority"):
            own = told(tmp_path / "swept", slice=f"fraction={fraction:g}", metric="accuracy", control=control)
            other = told(alone, slice="all", metric="accuracy", control=control)
            assert own.height == other.height == 1
            assert own.select("value", "ci_low", "n").row(0) == other.select("value", "ci_low", "n").row(0)
    own, whole = (
        told(tmp_path / "swept", slice=f"fraction={one}", metric="accuracy", control=None)["value"].item()
        for one in ("0.5", "1")
    )
    change = told(tmp_path / "swept", metric="change", control=None).row(0, named=True)
    assert change["slice"] == "fraction=0.5"
    assert change["compared_to"] == "fraction=1"
    assert change["value"] == pytest.approx(own - whole)


def test_another_value_trains_itself_alone(asked: Experiment, tmp_path: Path) -> None:
    """What a bag of tokens does not know makes no second one of it."""
    folder = tmp_path / "run"
    assert run(with_options(asked, sweep="length: 24, 32"), Execution(output=folder)).trained == 3
    assert run(with_options(asked, sweep="length: 24, 32, 40"), Execution(output=folder)).trained == 1
    assert run(with_options(asked, sweep="length: 24, 32, 40"), Execution(output=folder)).trained == 0
    more = with_options(asked, sweep="length: 24, 32, 40", seeds=2)
    assert run(more, Execution(output=folder)).trained == 3
    for name in ("24", "32", "40"):
        assert told(folder, slice=f"length={name}", metric="accuracy", control="bag_of_tokens").height == 1
    printed = describe_scores(read_scores(folder / "scores.parquet"))
    lines = [line for line in printed if "examples right" in line]
    assert len(lines) == 3
    assert "length=24: " in lines[0]


def test_frozen_against_fine_tuned_are_two_values(asked: Experiment, tmp_path: Path) -> None:
    options = {"methods": "pretrained", "sweep": "frozen: true, false", "rates": "1e-2,1e-3", "batch": "8,32"}
    run(with_options(asked, **options), Execution(output=tmp_path / "run"))
    scores = with_slices(pl.read_parquet(tmp_path / "run/scores.parquet"))
    tried = scores.filter(pl.col("slice") == "frozen=true;setting").with_columns(
        setting=dimension_value("setting")
    )
    names = tried["setting"].to_list()
    assert sorted(names) == [
        f"rate {rate}, batch {batch}, epochs 1" for rate in ("0.001", "0.01") for batch in (32, 8)
    ]
    chosen = {
        row["metric"]: row["value"]
        for row in scores.filter((pl.col("split") == "valid") & (pl.col("slice") == "frozen=true")).iter_rows(
            named=True
        )
    }
    best = tried.filter(pl.col("value") == tried["value"].max())["setting"].to_list()
    assert f"rate {chosen['learning_rate']:g}, batch {chosen['batch']:g}, epochs 1" in best
    assert chosen["epochs"] == 1


def test_values_are_combined_in_the_order_given() -> None:
    found = variants(LensSettings(options={"sweep": "epochs: 2, 10; fraction: 0.33, 1"}))
    assert [one.name for one in found] == [
        "epochs=2;fraction=0.33", "epochs=2;fraction=1", "epochs=10;fraction=0.33", "epochs=10;fraction=1",
    ]  # fmt: skip
    assert found[0].options == {"epochs": 2, "fraction": 0.33}
    assert [one.name for one in variants(LensSettings())] == [""]
    with pytest.raises(UsageError, match="option fraction = 2"):
        LENS.methods((TASK,), LensSettings(options={"sweep": "fraction: 0.5, 2"}))


@pytest.mark.parametrize(
    ("sweep", "error", "words"),
    [
        ("fraction", UsageError, "expected NAME: VALUE, VALUE"),
        ("fraction: 0.5,", UsageError, "expected NAME: VALUE, VALUE"),
        (0.5, UsageError, "expected NAME: VALUE, VALUE"),
        ("fration: 0.5, 1", UnknownNameError, "did you mean 'fraction'"),
        ("seeds: 1, 2", UnknownNameError, "option to sweep"),
        ("epochs: 2, 2", UsageError, "names an option or value twice"),
        ("epochs: 1, 2; epochs: 3", UsageError, "names an option or value twice"),
    ],
)
def test_sweeps_that_cannot_be_read_are_one_line(sweep: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        variants(LensSettings(options={"sweep": sweep}))
    assert "\n" not in str(caught.value)


def test_options_are_read_before_the_corpus_is(asked: Experiment, tmp_path: Path) -> None:
    nowhere = dataclasses.replace(with_options(asked, sweep="epoch: 1, 2"), corpora=("local:no/such/folder",))
    with pytest.raises(UnknownNameError, match="epochs"):
        run(nowhere, Execution(output=tmp_path / "run"))
