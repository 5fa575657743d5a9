"""The methods `logit_lens` and `patch` of the lens `causal`, on models whose way is known."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

sys.path.insert(0, str(Path(__file__).parent))

from planted import BOS, Ran, labels_of, planted, run_lens, some_items

from sonde.capture.requests import Prepared, prepare_items
from sonde.corpora import Item, item_id
from sonde.lenses.causal.logit_lens import stays_on_top
from sonde.lenses.causal.patch import CELLS
from sonde.models import LoadedModel

BITS = 1 / np.log(2)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    items = some_items(80)
    options = {"methods": ("logit_lens",)}
    return run_lens(planted(), items, labels_of(items), options, tmp_path_factory.mktemp("run"))


@pytest.mark.slow
def test_layers_say_what_the_model_would_say(read: Ran) -> None:
    """Every subword of the short strings is asked for, so the last layer has the loss of a plain forward."""
    model = planted().model
    measured = set(read.rows["item_id"].unique().to_list())
    nats: list[torch.Tensor] = []
    embedded: list[torch.Tensor] = []
    with torch.no_grad():
        for one in some_items(80):
            if one.item.item_id in measured:
                ids = torch.tensor([[BOS, *one.item.text.encode()]])
                output = model(ids, output_hidden_states=True)
                gold = ids[0, 1:, None]
                nats.append(-output.logits[0, :-1].log_softmax(-1).gather(1, gold)[:, 0])
                early = model.lm_head(model.model.norm(output.hidden_states[0][0, :-1]))
                embedded.append(-early.log_softmax(-1).gather(1, gold)[:, 0])
    last = read.value(metric="bits", layer=2, control=None)
    assert last.value == pytest.approx(float(torch.cat(nats).mean()) * BITS, abs=1e-4)
    assert last.n == len(torch.cat(nats))
    first = read.value(metric="bits", layer=0, control=None)
    assert first.value == pytest.approx(float(torch.cat(embedded).mean()) * BITS, abs=1e-4)
    # A third of the subwords are answers, which no layer can say before the letter was fetched.
    early, late = (read.value(metric="settled", layer=layer) for layer in (0, 2))
    assert late.ci_low is not None and early.ci_high is not None
    assert late.ci_low > early.ci_high + 0.2


def test_the_first_layer_from_which_the_right_one_stays(read: Ran) -> None:
    ranks = np.array([[1, 2, 1, 1], [3, 1, 1, 2], [1, 1, 1, 1]])
    np.testing.assert_array_equal(
        stays_on_top(ranks),
        [[False, False, True, False], [False, True, True, False], [True, True, True, True]],
    )
    rows = read.rows.filter(pl.col("what") == "layer").group_by("layer").agg(pl.col("settled").sum())
    settled = dict(rows.iter_rows())
    found = read.value(metric="first_layer")
    # Those that settle at layer l are those that are settled there and were not before.
    fresh = [settled[0], settled[1] - settled[0], settled[2] - settled[1]]
    assert found.value == pytest.approx(sum(layer * new for layer, new in enumerate(fresh)) / settled[2])
    assert found.n == settled[2]


FUNCTION = "def f({a}, {b}):\n    {c} = {a}+{b}\n    return {c}-{a}\n"


def functions(count: int) -> list[Prepared]:
    """Functions whose names are single letters, so that every byte is a subword."""
    letters = "abcdeghijkmnopqstuvwxyz"
    rng = np.random.default_rng(0)
    made = sorted({FUNCTION.format(**dict(zip("abc", rng.choice(list(letters), 3, False), strict=True)))
                   for _ in range(count)})  # fmt: skip
    items = [
        Item(item_id(text, "python", "function"), text, "python", "function", "by hand", "f", 0,
             f"cluster {number % 24}", "")
        for number, text in enumerate(made)
    ]  # fmt: skip
    return prepare_items(byte_tokenizer(), items)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE(vocab={letter: at for at, letter in bytes_to_unicode().items()}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return PreTrainedTokenizerFast(tokenizer_object=made)


def one_layer_looks() -> LoadedModel:
    """Three layers, of which the second alone looks at other positions."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=260, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=259, bos_token_id=256,
        eos_token_id=257,
    )  # fmt: skip
    model: Any = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4.0)
        for layer in (0, 2):
            model.model.layers[layer].self_attn.o_proj.weight.zero_()
    loaded = planted()
    return dataclasses.replace(
        loaded,
        model=model,
        tokenizer=byte_tokenizer(),
        capabilities=dataclasses.replace(loaded.capabilities, layers=3, vocab=260, context=128),
        special=dataclasses.replace(loaded.special, bos=256, pad=259),
    )


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    items = functions(60)
    labels = labels_of([])
    options = {"methods": ("patch",), "drawn_cells": 4}
    return run_lens(one_layer_looks(), items, labels, options, tmp_path_factory.mktemp("run"))


def test_patching_finds_where_the_answer_moves(patched: Ran) -> None:
    for direction in ("denoising", "noising"):
        for cell, expected in (("names", [1, 1, 0]), ("place", [0, 0, 1]), ("other", [0, 0, 0])):
            of = (("direction", direction), ("cell", cell))
            found = [
                patched.value(method="patch", metric="recovered", layer=layer, dimensions=of)
                for layer in range(3)
            ]
            np.testing.assert_allclose([score.value for score in found], expected, atol=1e-3)
            assert {score.n for score in found} == {patched.value(metric="margin_change").n}


def test_pairs_are_counted_and_differ(patched: Ran) -> None:
    aligned = patched.value(metric="aligned")
    assert aligned.value == 1.0
    clean, corrupt = (
        patched.value(metric="margin", dimensions=(("text", text),)) for text in ("clean", "corrupt")
    )
    assert patched.value(metric="margin_change").value == pytest.approx(clean.value - corrupt.value)


def test_attribution_is_held_against_what_was_drawn(patched: Ran) -> None:
    drawn = patched.rows.filter((pl.col("what") == "cell") & (pl.col("group") == "drawn"))
    agreement = patched.value(method="attribution", metric="spearman")
    assert agreement.n == drawn.height > 30
    change, guess = (drawn["after"] - drawn["before"]).to_numpy(), drawn["guess"].to_numpy()
    ranks = [pl.Series(values).rank("average").to_numpy() for values in (change, guess)]
    assert agreement.value == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-6)
    assert set(CELLS) == set(patched.rows.filter(pl.col("what") == "cell")["subject"].unique())


def test_the_largest_cells_alone_are_patched(tmp_path: Path) -> None:
    items = functions(60)
    options = {"methods": ("patch",), "patched_cells": 3, "drawn_cells": 1}
    ran = run_lens(one_layer_looks(), items, labels_of([]), options, tmp_path)
    told = [score for score in ran.scores if score.method == "patch" and score.metric == "recovered"]
    assert len(told) == 3
    guessed = [score for score in ran.scores if score.method == "attribution" and score.metric == "recovered"]
    assert len(guessed) == 2 * 4 * len(CELLS)
