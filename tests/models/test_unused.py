"""Every tensor of a checkpoint is used, is known to be needless, or is named in a refusal."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sonde.base.errors import InputError
from sonde.models import ModelSpec, describe_model, load_model

from .conftest import ALL


def _with(folder: Path, **more: torch.Tensor) -> ModelSpec:
    file = folder / "model.safetensors"
    save_file(load_file(file) | more, file, {"format": "pt"})
    return ModelSpec(name=str(folder), device="cpu")


def _foreign(weights: dict[str, torch.Tensor]) -> dict[str, str]:
    """Names of weights that a checkpoint does not have, by what they are a sign of."""
    layers = [name for name in weights if re.search(r"\.\d+\.", name) and name.endswith(".weight")]
    bare = next((name for name in layers if name.removesuffix("weight") + "bias" not in weights), None)
    last = layers[-1].removesuffix("weight")
    place = re.match(r"(.*?)[^.]+\.\d+\.", layers[0])
    assert place is not None
    return {
        **({"a bias that is not asked for": bare.removesuffix("weight") + "bias"} if bare else {}),
        "scales of a quantisation": f"{last}weight_scale_inv",
        "an adapter that was not merged": f"{last}lora_A.default.weight",
        "an adapter in a file of its own": f"base_model.model.{last}lora_A.weight",
        "a table of distances": f"{last}distance_embedding.weight",
        "a table of positions": f"{place[1]}embed_distances.weight",
        "a norm that is gone": f"{place[1]}norm_of_old.weight",
    }


@pytest.mark.parametrize("name", ALL)
def test_a_weight_without_a_place_is_named(name, saved, tmp_path):
    weights = load_file(saved(name) / "model.safetensors")
    for number, (what, foreign) in enumerate(_foreign(weights).items()):
        folder = tmp_path / str(number)
        shutil.copytree(saved(name), folder)
        spec = _with(folder, **{foreign: torch.ones(4)})
        with pytest.raises(InputError, match=r"has no place in|of layers that|more weights") as refused:
            describe_model(spec)
        # Under the name that the model has for it.
        assert ".".join(foreign.split(".")[-2:]) in str(refused.value), what


@pytest.mark.parametrize("name", ALL)
def test_masks_angles_and_heads_of_other_purposes_are_needless(name, saved, tmp_path):
    weights = load_file(saved(name) / "model.safetensors")
    layer = next(name for name in weights if re.search(r"\.\d+\.", name))
    place = re.match(r".*?\.\d+\.", layer)
    assert place is not None
    shutil.copytree(saved(name), tmp_path / "model")
    more = {
        f"{place[0]}attn.masked_bias": torch.ones(1),
        f"{place[0]}self_attn.rotary_emb.inv_freq": torch.ones(4),
        "classifier.weight": torch.ones(3, 32),
        "score.weight": torch.ones(3, 32),
        "v_head.summary.weight": torch.ones(1, 32),
    }
    described = describe_model(ModelSpec(name=str(saved(name)), device="cpu"))
    assert describe_model(_with(tmp_path / "model", **more)) == described


def test_what_is_needless_changes_no_logit(saved, tmp_path):
    shutil.copytree(saved("llama"), tmp_path / "model")
    spec = _with(tmp_path / "model", **{"score.weight": torch.ones(3, 32)})
    ids = torch.arange(12)[None]
    usual = load_model(ModelSpec(name=str(saved("llama")), device="cpu")).model(ids).logits
    assert torch.equal(load_model(spec).model(ids).logits, usual)
