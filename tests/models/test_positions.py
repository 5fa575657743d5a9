"""The longest text that a model takes at once is what its tables of positions hold."""

from __future__ import annotations

import shutil

import pytest
import torch

from sonde.models import ModelSpec, load_model
from sonde.models.engine.silence import MODEL_CODE_ERRORS
from sonde.models.engine.trial_batches import forward_rows, table_positions

from .conftest import ALL

# Of 128 rows, those at and before the padding id 2 or before an offset are never used.
OFFSETS = {
    "mpnet:masked": 126,
    "data2vec-text:masked": 125,
    "data2vec-text:causal": 125,
    "camembert:causal": 125,
    "roberta:causal": 125,
    "roberta:masked": 125,
    "luke:masked": 125,
    "ibert:masked": 125,
    "longformer:masked": 125,
    "nystromformer:masked": 128,
    "opt:causal": 128,
    "bart:seq2seq": 128,
    "whisper:causal": 128,
}


def reads(loaded, length: int) -> bool:
    try:
        with torch.no_grad():
            forward_rows(loaded, [[7] * length])
    except MODEL_CODE_ERRORS:
        return False
    return True


@pytest.mark.parametrize("name", OFFSETS)
def test_positions_are_those_that_the_table_has(name, every_type, tmp_path):
    every_type.save(*name.split(":"), tmp_path)
    loaded = load_model(ModelSpec(name=str(tmp_path), device="cpu"))
    assert loaded.capabilities.context == OFFSETS[name]
    assert reads(loaded, OFFSETS[name]) and not reads(loaded, OFFSETS[name] + 1)


@pytest.mark.parametrize("name", ALL)
def test_no_table_is_taken_for_one_of_positions(name, saved):
    loaded = load_model(ModelSpec(name=str(saved(name)), device="cpu"))
    assert loaded.capabilities.context == (2048 if ALL[name][0] in ("bloom", "t5") else 64)
    assert "positions" not in loaded.facts
    assert reads(loaded, 64)


def test_relative_positions_do_not_run_out(saved):
    assert table_positions(load_model(ModelSpec(name=str(saved("t5, tied")), device="cpu"))) is None
    assert table_positions(load_model(ModelSpec(name=str(saved("llama")), device="cpu"))) is None


@pytest.mark.slow
def test_every_type_reads_as_many_as_it_says(every_type, tmp_path):
    """No table of a fixed size allows one more: nothing is cut shorter than need be."""
    grows = {"m2m_100", "xglm", "tapas"}
    wrong: dict[str, str] = {}
    seen = limited = 0
    for model_type, head in every_type.model_types():
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        try:
            every_type.save(model_type, head, tmp_path / "model")
            loaded = load_model(ModelSpec(name=str(tmp_path / "model"), device="cpu"))
        except Exception:
            # What transformers does not build, or sonde refuses: `docs/architectures.md`.
            continue
        context, table = loaded.capabilities.context, table_positions(loaded)
        seen += 1
        if context <= 128:
            if not reads(loaded, context):
                wrong[f"{model_type}:{head}"] = f"cannot read {context}"
            elif table is not None and model_type not in grows:
                limited += 1
                if reads(loaded, context + 1):
                    wrong[f"{model_type}:{head}"] = f"reads more than {context}"
    assert not wrong
    assert seen > 200 and limited > 50
