import json
import shutil

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from sonde.base.errors import InputError
from sonde.base.fingerprint import hash_text
from sonde.corpora import item_id
from sonde.training.pretrain import loop
from sonde.training.pretrain import pretrain as module
from sonde.training.pretrain.data import pack_documents
from sonde.training.pretrain.initial_weights import init_model
from sonde.training.pretrain.loop import rate_factor, train
from sonde.training.pretrain.objectives import BlockDataset, block_start
from sonde.training.pretrain.pretrain import pretrain
from sonde.training.pretrain.recipe import TrainingConfig, read_recipe

pytestmark = pytest.mark.usefixtures("one_thread")


class StopError(Exception):
    pass


def test_rates_rise_stay_and_fall():
    wsd = TrainingConfig(steps=100, warmup_steps=10, schedule="wsd", decay=0.3)
    rates = [rate_factor(step, wsd) for step in range(100)]
    assert rates[:10] == pytest.approx([(n + 1) / 10 for n in range(10)])
    assert set(rates[10:71]) == {1.0}
    assert rates[99] == pytest.approx(1 / 30)
    for name in ("linear", "cosine"):
        config = TrainingConfig(steps=100, warmup_steps=10, schedule=name)
        falling = [rate_factor(step, config) for step in range(10, 100)]
        assert falling[0] == 1
        assert falling == sorted(falling, reverse=True)
        assert 0 < falling[-1] < 0.02


@pytest.mark.slow
def test_a_model_is_made(recipe_path, corpus):
    lines: list[str] = []
    folder = pretrain(recipe_path, keep_series=True, report=lines.append)
    steps = read_recipe(recipe_path).training.steps
    kept = {path.name: path for path in (folder.parent / "series").iterdir()}
    powers = [2**power for power in range(steps.bit_length()) if 2**power <= steps]
    assert set(kept) == {f"step{step}" for step in (0, *powers, steps)}
    held = {name: load_file(path / "model.safetensors") for name, path in kept.items()}
    last = load_file(folder / "model.safetensors")
    assert all(torch.equal(weight, last[name]) for name, weight in held[f"step{steps}"].items())
    assert not all(torch.equal(weight, last[name]) for name, weight in held["step1"].items())
    assert AutoTokenizer.from_pretrained(kept["step1"])("x")["input_ids"]
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "manifest.parquet",
        "seen.parquet",
        "frequencies.parquet",
        "README.md",
        "recipe.toml",
        "figures.json",
    }
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float16
    assert AutoTokenizer.from_pretrained(folder)("x")["input_ids"][0] == model.config.bos_token_id

    # What was seen, told by looking at every sample.
    recipe = read_recipe(recipe_path)
    packed = pack_documents(recipe, module.WORK, lambda _: None)
    dataset = BlockDataset(packed.tokens, recipe)
    touched = np.zeros(len(packed.tokens), int)
    for k in range(len(dataset)):
        start = block_start(dataset.course.block(k), len(packed.tokens), dataset.width)
        touched[start : start + dataset.width] += 1
    manifest = pl.read_parquet(folder / "manifest.parquet")
    assert set(manifest["hash"]) == {hash_text(path.read_text()) for path in corpus.rglob("*.py")}
    seen = pl.read_parquet(folder / "seen.parquet")["item_hash"]
    assert seen.is_sorted()
    sides = set()
    for row, document in zip(
        manifest.iter_rows(named=True), packed.documents.iter_rows(named=True), strict=True
    ):
        passes = touched[document["first"] : document["first"] + document["tokens"]]
        assert row["epochs"] == pytest.approx(passes.mean())
        assert row["seen_in_training"] == bool(passes.any())
        text = next(corpus.parent.rglob(row["path"].rpartition("/")[2])).read_text()
        assert (int(item_id(text, "python", "file")[:16], 16) in seen) == row["seen_in_training"]
        sides.add(row["seen_in_training"])
    assert sides == {True, False}
    counts = pl.read_parquet(folder / "frequencies.parquet")["count"].to_numpy()
    assert np.array_equal(counts, np.bincount(packed.tokens, weights=touched, minlength=300))

    card = (folder / "README.md").read_text()
    figures = json.loads((folder / "figures.json").read_text())["figures"]
    assert f"{figures['compression'][0]['model']:.3f}" in card
    assert 0 < figures["compression"][0]["model"] < 8
    assert any("step 12/12" in line or "tiny:" in line for line in lines)


@pytest.mark.slow
def test_loss_falls_and_an_encoder_is_made(recipe_path):
    text = recipe_path.read_text().replace('"decoder"', '"encoder"').replace('"llama"', '"modernbert"')
    text = text.replace(
        "tie_word_embeddings = true",
        'decoder_bias = false\nlayer_types = ["full_attention", "full_attention"]',
    )
    recipe_path.write_text(
        text.replace("steps = 12", "steps = 120").replace("minutes = 0.0", "minutes = 5.0")
    )
    lines: list[str] = []
    folder = pretrain(recipe_path, report=lines.append)
    losses = [float(line.split("loss ")[1].split()[0]) for line in lines if "loss " in line]
    assert losses[-1] < 0.75 * losses[0]
    figures = json.loads((folder / "figures.json").read_text())["figures"]
    assert figures["guesses"][0]["nats"] < figures["guesses"][0]["unigram_nats"]
    assert AutoModelForMaskedLM.from_pretrained(folder).config.model_type == "modernbert"
    assert "masked" in (folder / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 7])
def test_a_killed_run_ends_with_the_same_weights(recipe_path, tmp_path, stop):
    recipe = read_recipe(recipe_path)
    packed = pack_documents(recipe, tmp_path / "data", lambda _: None)

    class Dying(BlockDataset):
        def __getitem__(self, k):
            if k >= stop * recipe.training.blocks_per_step:
                raise StopError
            return super().__getitem__(k)

    def run(dataset, folder):
        return train(recipe, dataset, folder, resume=True, report=lambda _: None)

    whole = run(BlockDataset(packed.tokens, recipe), tmp_path / "whole")
    with pytest.raises(StopError):
        run(Dying(packed.tokens, recipe), tmp_path / "killed")
    again = run(BlockDataset(packed.tokens, recipe), tmp_path / "killed")
    for (name, one), (_, other) in zip(
        whole.model.named_parameters(), again.model.named_parameters(), strict=True
    ):
        assert torch.equal(one, other), name
    assert again.seconds > 0


@pytest.mark.slow
def test_blocks_at_once_change_no_weight(recipe_path, tmp_path):
    halves = read_recipe(recipe_path)
    recipe_path.write_text(recipe_path.read_text().replace("blocks_at_once = 2", "blocks_at_once = 4"))
    whole = read_recipe(recipe_path)
    packed = pack_documents(whole, tmp_path / "data", lambda _: None)
    models = [
        train(
            recipe, BlockDataset(packed.tokens, recipe), tmp_path / name, resume=True, report=lambda _: None
        )
        for name, recipe in (("halves", halves), ("whole", whole))
    ]
    for one, other in zip(models[0].model.parameters(), models[1].model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_finished_run_is_not_repeated(recipe_path, tmp_path):
    folder = pretrain(recipe_path, report=lambda _: None)
    before = load_file(folder / "model.safetensors")
    shutil.rmtree(folder)
    lines: list[str] = []
    pretrain(recipe_path, report=lines.append)
    assert any("checkpoint-12" in line for line in lines)
    assert not any(line.startswith("step") for line in lines)
    after = load_file(folder / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.slow
def test_a_checkpoint_of_another_architecture_is_refused(recipe_path):
    pretrain(recipe_path, report=lambda _: None)
    recipe_path.write_text(
        recipe_path.read_text()
        .replace("hidden_size = 32", "hidden_size = 16")
        .replace("steps = 12", "steps = 13")
    )
    with pytest.raises(InputError, match="another architecture"):
        pretrain(recipe_path, report=lambda _: None)


def test_fresh_models_come_from_the_seed(recipe_path):
    recipe = read_recipe(recipe_path)
    one, other = init_model(recipe), init_model(recipe)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert all(bool(torch.isfinite(p).all()) for p in one.parameters())
    recipe_path.write_text(recipe_path.read_text().replace('"llama"', '"alpaca9"'))
    with pytest.raises(InputError, match="alpaca9"):
        init_model(read_recipe(recipe_path))


@pytest.mark.slow
def test_blocks_that_do_not_fit_into_memory_are_read_in_more_parts(recipe_path, tmp_path, monkeypatch):
    usual = pretrain(recipe_path, output=tmp_path / "usual", report=lambda _: None)
    shutil.rmtree(module.WORK)
    compute = loop._Trainer.compute_loss
    updates: list[int] = []

    def scarce(trainer, model, inputs, *args, **kwargs):
        updates.append(trainer.state.global_step)
        # The first updates fit, as where something else on the device takes memory later.
        if len(inputs["input_ids"]) > 1 and trainer.state.global_step >= 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute(trainer, model, inputs, *args, **kwargs)

    monkeypatch.setattr(loop._Trainer, "compute_loss", scarce)
    lines: list[str] = []
    found = pretrain(recipe_path, output=tmp_path / "found", report=lines.append)
    assert [line for line in lines if "memory" in line] == [
        "2 blocks at once do not fit into memory; continuing with 1"
    ]
    assert updates.count(0) == 2
    one, other = (load_file(folder / "model.safetensors") for folder in (usual, found))
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_block_that_does_not_fit_alone_is_said_in_one_line(recipe_path, monkeypatch):
    def none_left(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(loop._Trainer, "compute_loss", none_left)
    with pytest.raises(InputError, match=r"1 blocks of .* subwords at once do not fit into memory; give a"):
        pretrain(recipe_path, report=lambda _: None)
