"""Whole runs of the lens `causal`: every kind of model through every method, again, and too small samples."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import polars as pl
import pytest

import sonde
from sonde.report import write_report
from sonde.results.scores import LEFT_OUT
from tests.denoisers import save_bart, save_t5
from tests.experiments.conftest import save_decoder
from tests.lenses.test_finetune import save_encoder

MODULES = 64
"""Modules of the standard library: a map is fitted to twenty effective clusters at least."""

METHODS = ("erase", "ablate", "patch", "logit_lens")
LIMIT = 130


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("code")
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py"))
    for path in [one for one in library if one.stat().st_size > 6_000][:MODULES]:
        (root / path.stem).mkdir()
        shutil.copy(path, root / path.stem)
    return root


def save(kind: str, folder: Path, code: Path) -> Path:
    texts = [path.read_text(encoding="utf-8") for path in sorted(code.rglob("*.py"))[:3]]
    if kind == "decoder":
        return save_decoder(folder, context=512)
    if kind == "encoder":
        return save_encoder(folder, texts, context=512)
    return save_t5(folder, texts) if kind == "t5" else save_bart(folder, texts)


def measured(model: Path, code: Path, output: Path, limit: int = LIMIT) -> sonde.Run:
    return sonde.run(
        models=model,
        lenses="causal",
        corpora=f"local:{code}",
        limit=limit,
        output=output,
        options={"causal": {"methods": METHODS, "draws": 1, "items": 30, "tuned": True}},
        include_seen=True,
        workers=1,
        context=512,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["decoder", "encoder", "t5", "bart"])
def test_every_kind_of_model_goes_through_every_method(kind: str, code: Path, tmp_path: Path) -> None:
    """What a method cannot ask of a kind of model is left out with a reason, and nothing fails."""
    ran = measured(save(kind, tmp_path / kind, code), code, tmp_path / "run")
    told = ran.scores.group_by("method").agg(pl.col("metric").unique())
    metrics = {row["method"]: set(row["metric"]) for row in told.iter_rows(named=True)}
    assert set(METHODS) <= set(metrics)
    assert {"bits", "excess", "accuracy"} <= metrics["erase"]
    for method in METHODS:
        assert metrics[method], method
    page = write_report(ran.directory).read_text(encoding="utf-8")
    assert "Interventions" in page
    again = measured(tmp_path / kind, code, tmp_path / "run")
    assert again.scores.equals(ran.scores)


def test_a_sample_that_is_too_small_says_so(code: Path, tmp_path: Path) -> None:
    ran = measured(save("decoder", tmp_path / "decoder", code), code, tmp_path / "run", limit=4)
    rows = ran.scores.filter((pl.col("method") == "erase") & (pl.col("metric") == LEFT_OUT))
    assert set(rows["task"]) >= {"idn", "block_depth"}
