"""A checkpoint that is written again into its folder is read as it is now, everywhere and in one process."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

import sonde
from sonde.base.errors import InputError
from sonde.experiments import observe, resolve
from sonde.models import LoadedModel, ModelSpec, describe_model, load_model, load_tokenizer, pin_revision
from sonde.models.engine.family import ModelSpec as Spec

from .conftest import save_decoder

FUNCTION = "def area(shape, scale=1.0):\n    return scale * shape.width * shape.height\n"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save_decoder(tmp_path / "checkpoint")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "shapes.py").write_text(FUNCTION)
    return tmp_path / "code"


def change_weights(folder: Path, seed: int) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    model.save_pretrained(folder)


def mean_bits(folder: Path) -> float:
    """Bits per subword of the function, by transformers alone."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([[1, *tokenizer(FUNCTION.rstrip("\n"), add_special_tokens=False)["input_ids"]]])
    with torch.no_grad():
        return float(model(ids, labels=ids).loss) / math.log(2)


def run_bits(folder: Path | str, code: Path, output: Path) -> float:
    """Bits per subword of the function in a run."""
    run = sonde.run(models=str(folder), corpora=f"local:{code}", lenses=["surprisal"], output=str(output))
    return float(run.observations("surprisal").select(pl.col("nats").mean()).collect().item()) / math.log(2)


def test_each_step_of_a_training_has_its_own_numbers(checkpoint, code, tmp_path, monkeypatch):
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))
    expected, found = [], []
    for step in range(3):
        change_weights(checkpoint, step)
        expected.append(mean_bits(checkpoint))
        found.append(run_bits(checkpoint, code, tmp_path / f"run-{step}"))
    assert found == pytest.approx(expected, rel=1e-5) and len(set(found)) == 3
    again = run_bits(checkpoint, code, tmp_path / "again")
    assert again == found[-1], "what the cache was given is the last step's"


def test_an_adapter_that_is_trained_on_has_its_own_numbers(checkpoint, code, tmp_path, monkeypatch):
    from peft import LoraConfig, get_peft_model

    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))
    found = []
    for step in range(2):
        base = AutoModelForCausalLM.from_pretrained(checkpoint)
        torch.manual_seed(step)
        tuned = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
        tuned.save_pretrained(tmp_path / "adapter")
        merged = save_merged(tuned, checkpoint, tmp_path / f"merged-{step}")
        name = f"{checkpoint}?adapter={tmp_path / 'adapter'}"
        found.append((run_bits(name, code, tmp_path / f"run-{step}"), mean_bits(merged)))
    assert found[0][0] != found[1][0]
    for own, by_transformers in found:
        assert own == pytest.approx(by_transformers, rel=1e-5)


def save_merged(tuned: object, checkpoint: Path, folder: Path) -> Path:
    shutil.copytree(checkpoint, folder)
    tuned.merge_and_unload().save_pretrained(folder)
    return folder


def shorten(folder: Path) -> None:
    """Take a merge out of the vocabulary's table, so that texts have more subwords."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    bare = tokenizer.backend_tokenizer
    bare.pre_tokenizer = None
    PreTrainedTokenizerFast(tokenizer_object=bare, bos_token="<bos>", pad_token="<pad>").save_pretrained(
        folder
    )


READERS = {
    "align": lambda folder: sonde.align(str(folder), FUNCTION).height,
    "load_tokenizer": lambda folder: len(load_tokenizer(ModelSpec(name=str(folder)))(FUNCTION)["input_ids"]),
    "load_model": lambda folder: len(sonde.load_model(str(folder)).tokenizer(FUNCTION)["input_ids"]),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_tokenizer_that_is_written_again_is_read_again(reader, checkpoint):
    before = READERS[reader](checkpoint)
    shorten(checkpoint)
    assert READERS[reader](checkpoint) > before


def test_show_reads_what_is_there(checkpoint, tmp_path):
    path = tmp_path / "shapes.py"
    path.write_text(FUNCTION)
    before = len(sonde.show(path, str(checkpoint)).reads[0].tokens)
    shorten(checkpoint)
    assert len(sonde.show(path, str(checkpoint)).reads[0].tokens) > before


def test_a_configuration_that_is_written_again_is_read_again(checkpoint):
    assert describe_model(ModelSpec(name=str(checkpoint))).context == 64
    config = checkpoint / "config.json"
    config.write_text(
        config.read_text().replace('"max_position_embeddings": 64', '"max_position_embeddings": 32')
    )
    assert describe_model(ModelSpec(name=str(checkpoint))).context == 32


def test_weights_that_change_under_a_run_are_refused_and_leave_nothing(
    checkpoint, code, tmp_path, monkeypatch
):
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))
    planned = resolve.pin_revision

    def pin_then_train_on(spec: Spec) -> Spec:
        pinned = planned(spec)
        change_weights(checkpoint, 7)
        return pinned

    monkeypatch.setattr(resolve, "pin_revision", pin_then_train_on)
    with pytest.raises(InputError, match="written again after the run had begun"):
        run_bits(checkpoint, code, tmp_path / "run")
    monkeypatch.setattr(resolve, "pin_revision", planned)
    assert run_bits(checkpoint, code, tmp_path / "run") == pytest.approx(mean_bits(checkpoint), rel=1e-5)


def test_weights_that_change_while_they_are_loaded_are_refused(checkpoint, monkeypatch):
    pinned = pin_revision(ModelSpec(name=str(checkpoint)))
    assert isinstance(load_model(pinned), LoadedModel)
    change_weights(checkpoint, 3)
    with pytest.raises(InputError, match="written again"):
        load_model(pinned)
    monkeypatch.setattr(observe, "_model_cache", {})
