"""Training with fused operations: the same run, sooner."""

import shutil

import numpy as np
import pytest
from tests.training.recipes import change, silent
from torch._inductor import config

from sonde.base.errors import InputError
from sonde.training.pretrain.data import pack_documents
from sonde.training.pretrain.loop import train
from sonde.training.pretrain.pretrain import build_dataset, pretrain
from sonde.training.pretrain.recipe import read_recipe

pytestmark = pytest.mark.usefixtures("one_thread")

_ENCODER = (
    ('"decoder"', '"encoder"'),
    ('"llama"', '"modernbert"'),
    ("tie_word_embeddings = true", "sparse_prediction = true"),
)
_COMPILED = ("block = 32", "block = 32\ncompile = true")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("changes", [(), _ENCODER], ids=["causal", "masked"])
def test_compiled_training_is_the_same_training_and_goes_on_where_it_stopped(recipe_path, tmp_path, changes):
    recipe = read_recipe(change(recipe_path, *changes))
    packed = pack_documents(recipe, tmp_path / "data", silent)
    plain = train(recipe, build_dataset(packed, recipe), tmp_path / "plain", resume=False, report=silent)

    compiled = read_recipe(change(recipe_path, _COMPILED))
    home, said = tmp_path / "compiled", []
    whole = train(compiled, build_dataset(packed, compiled), home, resume=False, report=silent)
    np.testing.assert_allclose(np.array(whole.curve), np.array(plain.curve), rtol=1e-3)

    shutil.rmtree(home / "checkpoint-12")
    (home / "clock.json").write_text('{"step": 10, "seconds": 1.0}')
    again = train(compiled, build_dataset(packed, compiled), home, resume=True, report=said.append)
    assert "resuming from" in said[0]
    np.testing.assert_allclose(np.array(again.curve), np.array(whole.curve), rtol=1e-3)
    assert {name for name, _ in again.model.named_parameters()} == {
        name for name, _ in plain.model.named_parameters()
    }


def test_without_a_compiler_it_is_said_at_once(recipe_path, tmp_path, monkeypatch):
    monkeypatch.setattr(config.cpp, "cxx", ("no-such-compiler",))
    recipe = read_recipe(change(recipe_path, _COMPILED))
    packed = pack_documents(recipe, tmp_path / "data", silent)
    with pytest.raises(InputError, match=r"training\.compile needs a C\+\+ compiler") as caught:
        train(recipe, build_dataset(packed, recipe), tmp_path / "run", resume=False, report=silent)
    assert "\n" not in str(caught.value)
    said: list[str] = []
    with pytest.raises(InputError, match=r"training\.compile needs a C\+\+ compiler"):
        pretrain(tmp_path / "tiny.toml", report=said.append)
    assert not said
