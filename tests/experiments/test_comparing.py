"""``sonde compare`` on real runs of small models."""

from __future__ import annotations

import argparse
import ast
import calendar
import csv
import dataclasses
import difflib
import inspect
import json
import pathlib
import re
import statistics
import textwrap
import typing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats
from transformers import LlamaForCausalLM

import sonde
from sonde.base.errors import InputError, UsageError
from sonde.comparison.compare import compare
from sonde.comparison.differences import differences_to_frame
from sonde.comparison.summary import add_text_columns
from sonde.lenses import LENSES

from .conftest import save_tokenizer


@pytest.fixture(scope="session")
def shaken(decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decoder with a little noise on its weights."""
    folder = tmp_path_factory.mktemp("models") / "shaken"
    save_tokenizer(folder)
    torch.manual_seed(1)
    model = LlamaForCausalLM.from_pretrained(decoder)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.02)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def both(decoder: Path, shaken: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> sonde.Run:
    return sonde.run(
        models=[str(decoder), str(shaken)],
        lenses=["surprisal"],
        corpora=f"local:{project}",
        limit=120,
        output=tmp_path_factory.mktemp("runs") / "both",
    )


@pytest.fixture(scope="session")
def fewer(shaken: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> sonde.Run:
    return sonde.run(
        models=str(shaken),
        lenses="surprisal",
        corpora=f"local:{project}",
        limit=60,
        output=tmp_path_factory.mktemp("runs") / "fewer",
    )


@pytest.mark.slow
def test_the_models_of_a_run_are_compared_as_their_observations_say(both: sonde.Run, tmp_path: Path) -> None:
    found = sonde.compare(both, output=tmp_path / "compared")
    row = found.differences.row(0, named=True)
    assert (row["metric"], row["dimensions"]) == ("bits", [])
    nats = [
        both.observations("surprisal", model)
        .group_by("cluster")
        .agg(pl.len(), pl.col("nats").cast(pl.Float64).sum())
        .sort("cluster")
        .collect()
        for model in both.models
    ]
    one, two = (side["nats"].to_numpy() / np.log(2) for side in nats)
    n = nats[0]["len"].to_numpy()
    value = (two.sum() - one.sum()) / n.sum()
    without = ((two - one).sum() - (two - one)) / (n.sum() - n)
    error = np.sqrt((len(n) - 1) / len(n) * np.square(without - value).sum())
    df = n.sum() ** 2 / np.square(n).sum() - 1
    assert row["difference"] == pytest.approx(value, rel=1e-6)
    assert row["ci_high"] - value == pytest.approx(stats.t.ppf(0.975, df) * error, rel=1e-5)
    assert row["n"] == n.sum()
    scores = both.scores.filter(pl.col("metric") == "bits", pl.col("dimensions").list.len() == 0)
    assert [row["base_value"], row["value"]] == pytest.approx(scores["value"].to_list())


@pytest.mark.slow
def test_the_page_needs_no_network_and_says_what_changed(both: sonde.Run, tmp_path: Path) -> None:
    found = sonde.compare(both, output=tmp_path)
    text = found.page.read_text(encoding="utf-8")
    assert "what got better and what got worse" in text
    assert not re.search(r"(src|href)=.?https?:", text.partition("<script>")[0])
    assert found.differences.height > 5
    assert "compared with" in text
    assert "surprisal" in found._repr_html_()
    facts = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    (one,) = facts["comparisons"]
    assert one["covered"] == [
        {"lens": "surprisal", "corpus": both.summary["corpus"][0]["name"], "language": "python"}
        | {"shared": 120, "base": 120, "model": 120}
    ]


def test_runs_over_other_selections_are_compared_on_the_items_of_both(
    both: sonde.Run, fewer: sonde.Run, shaken: Path
) -> None:
    (found,) = compare([both.directory, fewer.directory])
    (coverage,) = found.coverage
    assert (coverage["shared"], coverage["base"], coverage["model"]) == (60, 120, 60)
    # The model of one name in both runs: it is the same model, so nothing differs.
    assert {found.base.name, found.side.name} == {str(shaken)}
    assert found.base.label != found.side.label
    assert found.differences
    # Batches are others, so numbers agree as far as float32 does, and such a difference is never a finding.
    assert max(abs(one.value) for one in found.differences) < 1e-6
    assert {one.outcome for one in found.differences} == {"alike", "undecided"}
    # The same answers place by place differ by nothing, which needs no reason.
    assert all(bool(one.why) == (one.outcome == "undecided") for one in found.differences if one.value != 0)
    assert all(one.p_value == 1 for one in found.differences if one.value == 0 and not one.why)
    assert any("another batch" in one.why for one in found.differences)
    overall = found.differences[0]
    alone = fewer.scores.filter(pl.col("metric") == "bits", pl.col("dimensions").list.len() == 0)
    assert overall.base.value == pytest.approx(alone["value"].item())


def test_numbers_of_other_settings_are_refused_by_name(
    both: sonde.Run, shaken: Path, project: Path, tmp_path: Path
) -> None:
    other = sonde.run(
        models=str(shaken),
        lenses="surprisal",
        corpora=f"local:{project}",
        limit=60,
        options={"surprisal": {"min_count": 3}},
        output=tmp_path / "other",
    )
    (found,) = compare([both.directory, other.directory])
    assert not found.differences
    (alone,) = found.unpaired
    assert alone.reason == "option min_count differs: 10 against 3" or "min_count" in alone.reason


def test_observations_of_another_version_of_the_lens_are_not_scored_by_this_one(
    both: sonde.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(LENSES.load("surprisal")), "version", "999")
    (comparison,) = compare([both.directory])
    assert not comparison.differences
    (scores,) = comparison.unpaired
    assert re.fullmatch(
        r"version \d+ of the lens observed it, and sonde has version 999; run both again", scores.reason
    )


@pytest.mark.slow
def test_an_encoder_and_a_decoder_are_not_held_against_each_other_by_surprisal(
    encoder: Path, fewer: sonde.Run, project: Path, tmp_path: Path
) -> None:
    masked = sonde.run(
        models=str(encoder),
        lenses="surprisal",
        corpora=f"local:{project}",
        limit=60,
        output=tmp_path / "masked",
    )
    (found,) = compare([fewer.directory, masked.directory])
    assert not found.differences
    assert any("objective" in one.reason for one in found.unpaired)


def test_a_run_with_one_model_and_a_folder_without_a_run_are_refused(
    fewer: sonde.Run, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="only one model"):
        compare([fewer.directory])
    with pytest.raises(InputError, match="no run here"):
        compare([fewer.directory, tmp_path])


@pytest.mark.slow
def test_chosen_layers_of_probes_are_compared(encoder: Path, decoder: Path, tmp_path: Path) -> None:
    modules = (
        argparse,
        ast,
        calendar,
        csv,
        dataclasses,
        difflib,
        inspect,
        pathlib,
        statistics,
        textwrap,
        typing,
    )
    for module in modules:
        (tmp_path / "library" / module.__name__).mkdir(parents=True)
        text = inspect.getsource(module)
        (tmp_path / "library" / module.__name__ / "__init__.py").write_text(text, encoding="utf-8")
    run = sonde.run(
        models=[str(encoder), str(decoder)],
        lenses="probe",
        tasks="len",
        corpora=f"local:{tmp_path / 'library'}",
        limit=200,
        options=["probe.folds=3", "probe.controls=false", "probe.curves=false"],
        output=tmp_path / "probes",
    )
    (found,) = compare([run.directory])
    pooled = {(one.score.pooling, one.score.metric) for one in found.differences}
    assert ("mean", "accuracy") in pooled
    chosen = [one for one in found.differences if dict(one.score.dimensions).get("selection") == "best"]
    assert chosen
    scores = run.scores.filter(
        pl.col("metric") == "accuracy", pl.col("pooling") == "mean", pl.col("control").is_null()
    )
    values = scores.filter(pl.col("dimensions").list.len() == 1, pl.col("split") == "test")["value"].to_list()
    first = next(one for one in chosen if one.score.metric == "accuracy" and one.score.pooling == "mean")
    assert [first.base.value, first.score.value] == pytest.approx(values)
    assert dataclasses.replace(first.score, contributions=None) == first.score


@pytest.mark.slow
def test_a_series_of_checkpoints_shows_growth(decoder: Path, project: Path, tmp_path: Path) -> None:
    for step in (1, 2, 8):
        save_tokenizer(tmp_path / f"step{step}")
        torch.manual_seed(1)
        model = LlamaForCausalLM.from_pretrained(decoder)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) / step)
        model.save_pretrained(tmp_path / f"step{step}")
    run = sonde.run(
        models=[str(tmp_path / f"step{step}") for step in (8, 1, 2)],
        lenses="surprisal",
        corpora=f"local:{project}",
        limit=40,
        output=tmp_path / "run",
    )
    found = sonde.compare(run, series=r"step(\d+)$")
    series = pl.read_parquet(found.directory / "series.parquet")
    assert series["step"].unique().sort().to_list() == [1, 2, 8]
    overall = series.filter(pl.col("metric") == "bits", pl.col("dimensions").list.len() == 0)
    values = run.scores.filter(pl.col("metric") == "bits", pl.col("dimensions").list.len() == 0)
    by_model = dict(zip(values["model"], values["value"], strict=True))
    for row in overall.iter_rows(named=True):
        assert row["value"] == by_model[str(tmp_path / f"step{row['step']}")]
    # The last is compared with the first.
    assert found.differences["base"].unique().to_list() == ["step 1"]
    assert found.differences["model"].unique().to_list() == ["step 8"]
    text = found.page.read_text(encoding="utf-8")
    assert "growth over training" in text
    assert "When numbers cross their controls" in text
    with pytest.raises(UsageError, match=r"1 checkpoint found, 3 or more needed"):
        sonde.compare(run, series=r"step(8)$")


def test_differences_of_several_languages_say_which_and_of_one_do_not(both: sonde.Run) -> None:
    (comparison,) = compare([both.directory])
    rows = differences_to_frame(comparison.differences).head(3)
    assert not add_text_columns(rows)["about"].str.contains("Python").any()
    several = pl.concat([rows, rows.with_columns(language=pl.lit("php"))])
    labels = add_text_columns(several).select("about", "label")
    for column in labels.columns:
        for language in ("Python", "PHP"):
            assert labels[column].str.starts_with(language).sum() == 3
