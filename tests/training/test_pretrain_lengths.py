"""Another length than the model was trained at, and models to start from."""

import pytest
import torch
from tests.training.recipes import change, silent
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, AutoTokenizer

from sonde.base.errors import InputError, UsageError
from sonde.models import ModelSpec, describe_model
from sonde.training.pretrain.initial_weights import (
    fill_positions,
    find_position_tables,
    init_model,
    tile_positions,
)
from sonde.training.pretrain.pretrain import pretrain
from sonde.training.pretrain.recipe import read_recipe

pytestmark = pytest.mark.usefixtures("one_thread")


def test_positions_are_repeated():
    table = torch.arange(7.0)[:, None]
    assert tile_positions(table, 5, 12).flatten().tolist() == [0, 1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 2, 3]
    assert tile_positions(table, 7, 3).flatten().tolist() == [0, 1, 2]


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "electra", "modernbert"])
def test_every_encoder_reads_the_context_that_its_recipe_says(recipe_path, architecture, tmp_path):
    change(recipe_path, ('"decoder"', '"encoder"'), ('"llama"', f'"{architecture}"'))
    if architecture == "distilbert":
        change(recipe_path, ("hidden_size = 32", "dim = 32\nhidden_dim = 48\nn_layers = 2\nn_heads = 2"))
    if architecture == "modernbert":
        layers = 'layer_types = ["full_attention", "full_attention"]\ndecoder_bias = false'
        change(recipe_path, ("tie_word_embeddings = true", layers))
    model = init_model(read_recipe(recipe_path)).eval()
    ids = torch.randint(5, 300, (1, 64))
    with torch.no_grad():
        assert model(input_ids=ids).logits.shape == (1, 64, 300)
    model.save_pretrained(tmp_path / "model")
    (table,) = find_position_tables(model) or (None,)
    assert (table is None) == (architecture == "modernbert")
    if table is None:
        return
    lead = table.num_embeddings - 64
    before = table.weight.detach().clone()
    fill_positions(model, 64, 24)
    assert torch.equal(table.weight[: lead + 24], before[: lead + 24])
    for place in range(24, 64):
        assert torch.equal(table.weight[lead + place], before[lead + place % 24])


@pytest.mark.slow
def test_one_length_goes_on_at_another(pairs_path, tmp_path):
    # Trained at 32, readable at 64; the positions behind 32 are copies.
    short = pretrain(change(pairs_path, ("steps = 12", "steps = 40")), report=silent)
    trained = AutoModelForPreTraining.from_pretrained(short, dtype=torch.float32)
    (table,) = find_position_tables(trained)
    assert table.num_embeddings == 64
    assert torch.equal(table.weight[32:], table.weight[:32])
    assert describe_model(ModelSpec(name=str(short))).context == 64

    longer = change(
        pairs_path,
        ('name = "tiny"', 'name = "longer"'),
        ("context = 64", f'context = 100\nstart = "{short}"'),
        ("block = 32", "block = 100"),
        ("steps = 40", "steps = 4"),
    )
    begun = init_model(read_recipe(longer))
    weights = dict(trained.named_parameters())
    for name, weight in begun.named_parameters():
        if weight is find_position_tables(begun)[0].weight:
            assert torch.equal(weight, tile_positions(weights[name], 64, 100))
        else:
            assert torch.equal(weight, weights[name]), name
    folder = pretrain(longer, report=silent)
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32)
    assert model.config.max_position_embeddings == 100
    assert AutoTokenizer.from_pretrained(folder).model_max_length == 100
    assert "Begun from" in (folder / "README.md").read_text()

    # A masked objective resumes from it too; the head for the next sentence is left behind.
    change(longer, ('"pairs"', '"masked"'))
    assert init_model(read_recipe(longer)).config.max_position_embeddings == 100
    for old, new, words in (
        ("hidden_size = 32", "hidden_size = 16", "another architecture"),
        (f'start = "{short}"', 'start = "nowhere/at-all"', "cannot be read; no such folder"),
    ):
        text = longer.read_text()
        with pytest.raises(InputError, match=words) as caught:
            init_model(read_recipe(change(longer, (old, new))))
        assert "\n" not in str(caught.value)
        longer.write_text(text)
    change(longer, ("size = 300", "size = 290"))
    with pytest.raises(InputError, match="another vocabulary"):
        pretrain(longer, report=silent)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('objective = "pairs"', 'objective = "causal"', "causal for a decoder"),
        ('objective = "pairs"', 'objective = "plm"', "known: auto, causal"),
        ('pieces = "program"', 'pieces = "words"', "known: code, program"),
        ("duplicates = 3", "duplicates = 0", "at least 1"),
        ("predictions = 4", "short = 1.5", "below 1"),
        ("block = 32", "block = 7", "at least 8 for pairs"),
        ("block = 32", "block = 32\nfsdp = true", "adamw with training.fsdp"),
        ("block = 32", "block = 32\nfsdp = true\ncompile = true", "false with training.fsdp"),
        ("log_every = 2", "log_every = 0", "at least 1"),
        ("log_every = 2", "workers = -1", "at least 0"),
    ],
)
def test_what_is_wrong_with_pairs_is_said(pairs_path, old, new, words):
    with pytest.raises(UsageError, match=words) as caught:
        read_recipe(change(pairs_path, (old, new)))
    assert "\n" not in str(caught.value)
