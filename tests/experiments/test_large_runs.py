"""Runs over adapters, few bits and device maps: named, keyed, recorded, and compared in one run."""

import json
import shutil
from pathlib import Path

import peft
import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

import sonde
from sonde.base.errors import UsageError
from sonde.cli.commands import app
from sonde.experiments import Execution, Experiment
from sonde.experiments.arguments import from_arguments
from sonde.experiments.resolve import check_compatibility, resolve_lenses, resolve_model_specs
from tests.slices import with_slices


@pytest.fixture(scope="module")
def adapter(decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(decoder)
    settings = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    folder = tmp_path_factory.mktemp("adapters") / "lora"
    peft.get_peft_model(base, settings).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def finished(decoder: Path, adapter: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run: a base, the base in 8 bits, and the base with an adapter."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    names = [str(decoder), f"{decoder}?quantise=8bit", f"{decoder}?adapter={adapter}"]
    models = [part for name in names for part in ("-m", name)]
    done = CliRunner().invoke(
        app, ["run", "-c", f"local:{project}", "-l", "surprisal", *models, "-o", str(folder)]
    )
    assert done.exit_code == 0, done.output
    return folder


def bits(folder: Path) -> dict[str, float]:
    scores = with_slices(pl.read_parquet(folder / "scores.parquet"))
    whole = scores.filter((pl.col("metric") == "bits") & (pl.col("slice") == "all"))
    return dict(zip(whole["model"], whole["value"], strict=True))


@pytest.mark.slow
def test_base_adapter_and_few_bits_stand_beside_each_other(
    finished: Path, decoder: Path, adapter: Path
) -> None:
    found = bits(finished)
    base, eight, adapted = (
        found[name] for name in (str(decoder), f"{decoder}?quantise=8bit", f"{decoder}?adapter={adapter}")
    )
    assert 0 < abs(eight - base) < 0.05
    assert abs(adapted - base) > 1e-3
    models = json.loads((finished / "run.json").read_text())["models"]
    assert len({one["revision"] for one in models}) == 3
    assert all(one["revision"].startswith(models[0]["revision"]) for one in models)
    assert [one["reading"].get("quantised", "")[:4] for one in models] == ["", "8bit", ""]
    assert [one["reading"].get("adapter") for one in models] == [None, None, "merged"]
    assert {(one["device"], one["dtype"], one["reading"]["weights"]) for one in models} == {
        ("cpu", "float32", "float32")
    }
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert "decoder?adapter=lora" in page and "decoder?quantise=8bit" in page


@pytest.mark.slow
def test_compare_says_where_few_bits_differ(finished: Path, decoder: Path) -> None:
    done = CliRunner().invoke(app, ["compare", str(finished), "--json"])
    assert done.exit_code == 0, done.output
    text = done.output
    assert f"{decoder}?quantise=8bit" in text and "adapter=" in text
    told = json.loads((finished / "comparison" / "comparison.json").read_text())
    assert json.dumps(told).count("quantise=8bit") > 0


@pytest.mark.slow
def test_an_option_holds_for_every_model_and_is_the_name(
    decoder: Path, adapter: Path, project: Path, tmp_path: Path, finished: Path
) -> None:
    run = sonde.run(
        models=decoder, lenses="surprisal", corpora=f"local:{project}", quantise="8bit", output=tmp_path / "a"
    )
    name = f"{decoder}?quantise=8bit"
    assert bits(run.directory)[name] == bits(finished)[name]
    wanted, _ = from_arguments(models=[str(decoder), f"{decoder}?quantise=none"], adapter=adapter)
    assert wanted.models == (f"{decoder}?adapter={adapter}", f"{decoder}?adapter={adapter}")
    with pytest.raises(UsageError, match="is named twice"):
        resolve_model_specs(wanted, Execution(output=tmp_path))


def test_an_experiment_file_says_the_same(decoder: Path, adapter: Path, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(f'models = ["{decoder}"]\nquantise = "4bit"\nadapter = "{adapter}"\n')
    wanted, _ = from_arguments(file=path)
    assert wanted.models == (f"{decoder}?adapter={adapter}&quantise=4bit",)
    path.write_text('quantise = "3bit"\n')
    with pytest.raises(UsageError, match="unknown quantise '3bit'"):
        from_arguments(file=path)


@pytest.mark.slow
def test_a_device_map_leaves_the_scores_and_is_recorded(
    decoder: Path, project: Path, tmp_path: Path, finished: Path
) -> None:
    placed = json.dumps({"model.layers.0": "disk", "model.embed_tokens": "disk"})
    arguments = ["-c", f"local:{project}", "-l", "surprisal", "-m", str(decoder), "--device-map", placed]
    done = CliRunner().invoke(app, ["run", *arguments, "-o", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert bits(tmp_path / "run")[str(decoder)] == pytest.approx(bits(finished)[str(decoder)], abs=1e-5)
    summary = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "on disk" in summary["models"][0]["reading"]["placed"]
    assert json.loads(summary["execution"]["device_map"]) == json.loads(placed)


@pytest.mark.slow
def test_probes_of_an_adapter_and_of_a_device_map_are_those_of_the_merged_model(
    decoder: Path, adapter: Path, project: Path, tmp_path: Path
) -> None:
    merged = tmp_path / "merged"
    base = AutoModelForCausalLM.from_pretrained(decoder)
    shutil.copytree(decoder, merged)
    peft.PeftModel.from_pretrained(base, adapter).merge_and_unload().save_pretrained(merged)
    run = sonde.run(
        models=[merged, f"{decoder}?adapter={adapter}"],
        lenses=["probe", "attention"],
        options={"probe": {"folds": 3}},
        corpora=f"local:{project}",
        output=tmp_path / "run",
        device_map={"model.layers.1": "disk"},
    )
    scores = with_slices(pl.read_parquet(run.directory / "scores.parquet")).filter(
        pl.col("control").is_null()
    )
    left, right = (
        scores.filter(pl.col("model") == name).drop("model", "revision", "fingerprint")
        for name in (str(merged), f"{decoder}?adapter={adapter}")
    )
    assert len(left) == len(right) > 10
    apart = (left["value"] - right["value"]).abs().max()
    assert isinstance(apart, float) and apart < 1e-5


def test_what_trains_refuses_few_bits(decoder: Path, project: Path, tmp_path: Path) -> None:
    experiment = Experiment(
        models=(f"{decoder}?quantise=4bit",), lenses=("finetune",), corpora=(f"local:{project}",)
    )
    with pytest.raises(UsageError, match="neither weights of fewer bits"):
        check_compatibility(resolve_lenses(experiment), experiment, Execution(output=tmp_path))


def test_a_device_and_a_map_are_not_both_given(decoder: Path, project: Path, tmp_path: Path) -> None:
    arguments = ["run", "-c", f"local:{project}", "-m", str(decoder), "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*arguments, "--device", "cpu", "--device-map", "auto"])
    assert isinstance(done.exception, UsageError) and "leave out one" in str(done.exception)


def test_keys_of_runs_without_these_options_stay(tmp_path: Path) -> None:
    from sonde.base.fingerprint import fingerprint
    from sonde.models import ModelSpec

    # As they were before there were adapters, quantisations and device maps.
    before = {
        "__kind__": "ModelSpec",
        "name": "a",
        "revision": "",
        "device": "cpu",
        "dtype": "float32",
        "trust_remote_code": False,
        "reinitialise": None,
    }
    assert fingerprint(ModelSpec(name="a", device="cpu", dtype="float32")) == fingerprint(before)
    others = (
        ModelSpec(name="a", device="cpu", dtype="float32", **{field: value})
        for field, value in (("quantise", "8bit"), ("adapter", "b"), ("device_map", "auto"))
    )
    assert len({fingerprint(spec) for spec in others} | {fingerprint(before)}) == 4


def test_a_checkpoint_in_bfloat16_stays_so_and_says_so(decoder: Path, project: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    shutil.copytree(decoder, half)
    AutoModelForCausalLM.from_pretrained(decoder).to(torch.bfloat16).save_pretrained(half)
    run = sonde.run(
        models=[half, decoder],
        lenses="surprisal",
        corpora=f"local:{project}",
        limit=40,
        output=tmp_path / "run",
    )
    models = json.loads((run.directory / "run.json").read_text())["models"]
    assert [(one["dtype"], one["reading"]["weights"]) for one in models] == [
        ("bfloat16", "bfloat16"),
        ("float32", "float32"),
    ]
    found = bits(run.directory)
    assert 0 < abs(found[str(half)] - found[str(decoder)]) < 0.05
