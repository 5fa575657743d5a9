"""Checkpoints derived from another: rounded to 8 bits, or with weights drawn anew."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from sonde.base.errors import UnknownNameError, UsageError
from sonde.models import ModelSpec, derive_checkpoint, load_model
from tests.experiments.conftest import encoder as encoder


def test_rounded_weights_are_those_of_eight_bits_a_row_and_little_else_changes(
    encoder: Path, tmp_path: Path
) -> None:
    made = derive_checkpoint(str(encoder), tmp_path / "int8", "int8")
    old = AutoModelForMaskedLM.from_pretrained(encoder).state_dict()
    new = AutoModelForMaskedLM.from_pretrained(made).state_dict()
    assert old.keys() == new.keys()
    changed = 0
    for name, weight in old.items():
        if weight.ndim != 2:
            assert torch.equal(weight, new[name])
            continue
        # PyTorch's own quantisation, channel by channel.
        scales = weight.abs().amax(dim=1) / 127
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        held = torch.quantize_per_channel(weight, scales.clamp_min(1e-30).double(), zeros, 0, torch.qint8)
        assert torch.allclose(new[name], held.dequantize(), atol=1e-7)
        changed += not torch.equal(weight, new[name])
    assert changed
    assert load_file(made / "model.safetensors")
    assert AutoTokenizer.from_pretrained(made)("a b")["input_ids"]
    assert load_model(ModelSpec(name=str(made))).capabilities.layers == 2


def test_random_weights_follow_their_seed_and_are_those_of_the_controls(
    encoder: Path, tmp_path: Path
) -> None:
    made = [
        load_file(
            derive_checkpoint(str(encoder), tmp_path / f"{place}", "random", seed=seed) / "model.safetensors"
        )
        for place, seed in enumerate((1, 1, 2))
    ]
    name = next(name for name, weight in made[0].items() if weight.ndim == 2)
    assert torch.equal(made[0][name], made[1][name])
    assert not torch.equal(made[0][name], made[2][name])
    control = load_model(ModelSpec(name=str(encoder), dtype="float32", reinitialise=1)).model
    assert torch.equal(control.state_dict()[name], made[0][name])


def test_what_cannot_be_derived_is_refused_in_one_line(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="not empty"):
        derive_checkpoint(str(encoder), tmp_path / "full", "int8")
    with pytest.raises(UnknownNameError, match="did you mean 'int8'"):
        derive_checkpoint(str(encoder), tmp_path / "new", "int9")
    with pytest.raises(UsageError, match="only weights of a folder"):
        derive_checkpoint("gpt2", tmp_path / "new", "int8")
