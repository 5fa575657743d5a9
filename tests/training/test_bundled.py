"""What travels with the package: held out as promised, small, and usable."""

import json
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import (
    AttentionInterface,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

from sonde.base.fingerprint import hash_text
from sonde.corpora import SkipCounter, is_holdout_package, item_id, read_files
from sonde.corpora.engine.read import extract_items
from sonde.training.pretrain.data import THRESHOLD, is_allowed_licence
from sonde.training.pretrain.recipe import read_recipe

BUNDLED = Path(str(files("sonde.models"))) / "bundled"
LARGEST = 16_000_000
"""Bytes of a bundled model's weights, which travel in the wheel."""

FOLDERS = sorted(path.parent for path in BUNDLED.glob("*/config.json"))
CODE = 'def f(xs):\n    """Sum."""\n    total = 0\n    for x in xs:\n        total += x\n    return total\n'


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def folder(request) -> Path:
    return request.param


@pytest.fixture
def manifest(folder) -> pl.DataFrame:
    return pl.read_parquet(folder / "manifest.parquet")


def test_both_are_there():
    assert [folder.name for folder in FOLDERS] == ["mini-decoder", "mini-encoder"]


def test_nothing_reserved_was_trained_on(manifest):
    assert not [name for name in manifest["distribution"].unique() if is_holdout_package(name)]
    assert manifest["seen_in_training"].any()


@pytest.mark.slow
def test_nothing_of_the_standard_library_was_trained_on(folder, manifest):
    intake = SkipCounter()
    library = list(read_files("stdlib", ("python",), intake))
    assert set(manifest["corpus"].unique()) <= {"environment", "jdk"}
    # Two files of setuptools with nothing but short declarations, trained on before whole files were held
    # against those of the library: the card names them, and their items are not scored.
    whole = [file for file in library if hash_text(file.text) in set(manifest["hash"])]
    assert {file.path for file in whole} <= {"importlib/metadata/_text.py", "tomllib/_types.py"}
    copies = json.loads((folder / "figures.json").read_text())["copies"]
    assert {file.path for file in whole} <= {one["source"] for one in copies if one["similarity"] == 1}
    seen = set(pl.read_parquet(folder / "seen.parquet")["item_hash"])
    ids = {int(item_id(file.text, "python", "file")[:16], 16): file.path for file in library}
    assert {ids[one] for one in seen & ids.keys()} == {file.path for file in whole}
    # Short functions that everyone writes alike do recur; the ids are there to flag them.
    functions = [item for file in library for item in extract_items(file, "function", intake)]
    repeated = [item for item in functions if int(item.item_id[:16], 16) in seen]
    assert len(repeated) < 0.012 * len(functions)
    assert max((len(item.text) for item in repeated), default=0) < 1_500


def test_licences_are_those_of_the_recipe(folder, manifest):
    recipe = read_recipe(folder / "recipe.toml")
    for corpus in recipe.data.corpora:
        licences = manifest.filter(pl.col("corpus") == corpus.name)["licence"].unique()
        assert all(is_allowed_licence(licence, corpus.licences) for licence in licences)


def test_the_account_agrees_with_itself(folder, manifest):
    recipe = read_recipe(folder / "recipe.toml")
    frequencies = pl.read_parquet(folder / "frequencies.parquet")
    assert frequencies["subword_id"].to_list() == list(range(recipe.vocabulary.size))
    read = (manifest["epochs"] * manifest["subwords"]).sum()
    assert frequencies["count"].sum() == pytest.approx(read)
    framing = 1 if recipe.model.role == "decoder" else 2
    blocks = recipe.training.steps * recipe.training.blocks_per_step
    assert read == pytest.approx(blocks * (recipe.training.block - framing), rel=0.001)
    seen = pl.read_parquet(folder / "seen.parquet")["item_hash"]
    assert seen.dtype == pl.UInt64
    assert seen.is_sorted()
    assert seen.n_unique() == len(seen)
    assert len(seen) >= manifest["seen_in_training"].sum()


def test_the_card_holds_the_figures(folder):
    figures = json.loads((folder / "figures.json").read_text())["figures"]
    card = (folder / "README.md").read_text()
    shown = [part[name] for part in figures["compression"] for name in ("model", "xz", "ngram")]
    shown += [part["nats"] for part in figures["guesses"]]
    # Code stands apart from the tables of character codes, whatever the model.
    parts = figures["compression"] or figures["guesses"]
    assert [part["of"] for part in parts] == ["all files", "code (files of at most a tenth digits)"]
    assert all(f"| {part['of']} |" in card for part in parts)
    assert shown
    assert all(f"{figure:.3f}" in card for figure in shown)
    assert figures["corpus"] == "stdlib"


def test_the_card_names_what_is_near_the_standard_library(folder, manifest):
    copies = json.loads((folder / "figures.json").read_text())["copies"]
    assert copies, "vendored and rewritten modules of the standard library are in the training data"
    rows = {row["path"]: row for row in manifest.iter_rows(named=True)}
    card = (folder / "README.md").read_text()
    for copy in copies:
        row = rows[copy["path"]]
        assert row["seen_in_training"] and row["version"] == copy["version"]
        assert copy["similarity"] > THRESHOLD
        assert (
            f"| `{copy['path']}` ({copy['distribution']} {copy['version']}) | {copy['functions']} |" in card
        )


def test_they_are_small(folder):
    assert (folder / "model.safetensors").stat().st_size <= LARGEST


def test_they_share_one_vocabulary():
    vocabularies = [json.loads((folder / "tokenizer.json").read_text())["model"] for folder in FOLDERS]
    assert vocabularies[0] == vocabularies[1]


def test_they_know_more_than_frequencies(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer(CODE)["input_ids"]])
    counts = torch.tensor(pl.read_parquet(folder / "frequencies.parquet")["count"].to_list()).float() + 1
    auto = AutoModelForCausalLM if folder.name == "mini-decoder" else AutoModelForMaskedLM
    model = auto.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        if folder.name == "mini-decoder":
            logits, gold = model(input_ids=ids).logits[0, :-1], ids[0, 1:]
        else:
            places = torch.arange(1, ids.shape[1] - 1)
            shown = ids.repeat(len(places), 1)
            shown[torch.arange(len(places)), places] = tokenizer.mask_token_id
            logits, gold = model(input_ids=shown).logits[torch.arange(len(places)), places], ids[0, places]
    own = torch.nn.functional.cross_entropy(logits, gold)
    unigram = -(counts / counts.sum()).log()[gold].mean()
    assert own < 0.8 * unigram


@torch.no_grad()
def test_a_registered_attention_function_sees_every_layer(folder):
    seen: list[torch.Tensor] = []

    def watching(module, query, key, value, attention_mask, scaling=None, **kwargs):
        scores = query @ key.repeat_interleave(query.shape[1] // key.shape[1], 1).mT * scaling
        if getattr(module, "is_causal", False):
            scores = scores + torch.full(scores.shape[-2:], float("-inf")).triu(1)
        seen.append(scores.softmax(-1))
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)

    AttentionInterface.register("watching", watching)
    AttentionMaskInterface.register("watching", ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    ids = torch.tensor([AutoTokenizer.from_pretrained(folder)(CODE)["input_ids"]])
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    model.set_attn_implementation("watching")
    states = model(input_ids=ids).last_hidden_state
    model.set_attn_implementation("eager")
    plain = model(input_ids=ids, output_attentions=True)
    assert len(seen) == model.config.num_hidden_layers
    torch.testing.assert_close(states, plain.last_hidden_state, rtol=1e-4, atol=1e-4)
    for own, expected in zip(seen, plain.attentions, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)
