"""Runs of models that fill in what is left out: decoders with tokens for it beside encoder-decoders."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import sonde
from sonde.base.errors import UsageError
from sonde.report import write_report
from tests.denoisers import save_bart, save_infilling, save_t5
from tests.experiments.test_causal_runs import code as code

MODELS = ("decoder", "t5", "bart")
FEW = {"masked_items": 4, "masked_characters": 300}
"""What is read by filling in: each token takes a forward pass of its own."""


@pytest.fixture(scope="module")
def models(code: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("filling")
    texts = [path.read_text(encoding="utf-8") for path in sorted(code.rglob("*.py"))]
    made = {
        "decoder": save_infilling(folder / "decoder", texts, context=128),
        "t5": save_t5(folder / "t5", texts),
        "bart": save_bart(folder / "bart", texts),
    }
    return {name: str(path) for name, path in made.items()}


def ran(models: dict[str, str], code: Path, output: Path, *names: str, **options: str | int) -> sonde.Run:
    return sonde.run(
        models=[models[name] for name in names],
        lenses="surprisal",
        corpora=f"local:{code}",
        limit=24,
        output=output,
        options={"surprisal": options},
        workers=1,
    )


@pytest.mark.slow
def test_models_of_two_kinds_fill_in_the_same_code(
    models: dict[str, str], code: Path, tmp_path: Path
) -> None:
    run = ran(models, code, tmp_path, *MODELS, objective="infill", min_count=5, **FEW)
    whole = run.scores.filter((pl.col("metric") == "bits_per_byte") & (pl.col("dimensions").list.len() == 0))
    assert set(whole["model"]) == set(models.values())
    assert set(run.scores.filter(pl.col("lens") == "surprisal")["objective"]) == {"infill"}
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Models that see both sides: what is scored" in page
    assert re.search(r"subwords of python, each code token left out in a forward pass of its own", page)


@pytest.mark.slow
def test_encoder_decoders_fill_in_where_nothing_is_said(
    models: dict[str, str], code: Path, tmp_path: Path
) -> None:
    run = ran(models, code, tmp_path, "t5", min_count=5, **FEW)
    assert set(run.scores["objective"].drop_nulls()) == {"infill"}


def test_beside_a_decoder_that_reads_on_they_are_left_out_with_what_to_do(
    models: dict[str, str], code: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"scores this encoder-decoder by infill and the others by causal"):
        ran(models, code, tmp_path, "t5", objective="causal")


@pytest.mark.slow
def test_pairs_are_read_by_filling_in_the_place(models: dict[str, str], code: Path, tmp_path: Path) -> None:
    run = ran(models, code, tmp_path, *MODELS, objective="infill", pairs="variable_misuse")
    told = run.scores.filter((pl.col("metric") == "preferred") & pl.col("control").is_null())
    assert set(told["model"]) == set(models.values())
    assert told["value"].is_between(0, 1).all() and (told["n"] > 0).all()
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "only the place, left out whole and predicted from both sides" in page


def test_a_function_is_shown_as_an_encoder_decoder_fills_it_in(
    models: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "shown.py"
    file.write_text("def zebraquux(kiwi):\n    return kiwi + 12345\n", encoding="utf-8")
    for name in ("t5", "bart"):
        (read,) = sonde.show(file, models=models[name]).reads
        assert read.objective == "infill"
        assert read.tokens["bits"].is_not_nan().all()
