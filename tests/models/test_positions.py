"""The longest text that a model takes at once is what its tables of positions hold."""

from __future__ import annotations

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


def can_read(loaded, length: int) -> bool:
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
    assert can_read(loaded, OFFSETS[name]) and not can_read(loaded, OFFSETS[name] + 1)


@pytest.mark.parametrize("name", ALL)
def test_no_table_is_taken_for_one_of_positions(name, saved):
    loaded = load_model(ModelSpec(name=str(saved(name)), device="cpu"))
    assert loaded.capabilities.context == (2048 if ALL[name][0] in ("bloom", "t5") else 64)
    assert "positions" not in loaded.facts
    assert can_read(loaded, 64)


def test_relative_positions_do_not_run_out(saved):
    assert table_positions(load_model(ModelSpec(name=str(saved("t5, tied")), device="cpu"))) is None
    assert table_positions(load_model(ModelSpec(name=str(saved("llama")), device="cpu"))) is None
