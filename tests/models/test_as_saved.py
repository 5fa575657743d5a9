"""How a checkpoint was run elsewhere, or over which vocabulary it was adapted, misleads nobody."""

from __future__ import annotations

import json
import shutil

import peft
import pytest
import torch
import transformers

from sonde.base.errors import InputError
from sonde.models import ModelSpec, describe_model, load_model
from sonde.models.engine.trial_batches import forward_rows

from .conftest import ALL

ELSEWHERE = {
    "attn_implementation": "flash_attention_2",
    "return_dict": False,
    "output_hidden_states": True,
    "torchscript": True,
    "use_cache": False,
}
"""Settings of a run on another machine that a configuration may hold."""


@pytest.mark.parametrize("name", ALL)
def test_how_a_model_was_run_elsewhere_changes_nothing_here(name, saved, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved(name), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | ELSEWHERE))
    one, other = (load_model(ModelSpec(name=str(place), device="cpu")) for place in (saved(name), folder))
    assert one.capabilities == other.capabilities == describe_model(ModelSpec(name=str(folder)))
    with torch.no_grad():
        states, again = (forward_rows(each, [[5, 6, 7, 8]])[-1].last_hidden_state for each in (one, other))
    torch.testing.assert_close(again, states)


@pytest.mark.parametrize("implementation", ["flash_attention_2", "flash_attention_3", "own"])
def test_attention_of_another_machine_gives_way(implementation, saved, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved("llama"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"attn_implementation": implementation}))
    loaded = load_model(ModelSpec(name=str(folder), device="cpu"))
    assert loaded.model.config._attn_implementation in ("eager", "sdpa")


WAYS = {
    "whole embeddings": ({}, True),
    "modules to save": ({"modules_to_save": ["embed_tokens", "lm_head"]}, False),
    "rows": ({"trainable_token_indices": [299, 301]}, False),
    "rows by module": ({"trainable_token_indices": {"embed_tokens": [301]}}, False),
    "low rank": ({"target_modules": ["q_proj", "embed_tokens"]}, False),
}
"""How PEFT keeps a vocabulary that was resized."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
def test_an_adapter_over_more_words_says_so(way, saved, tmp_path):
    options, embeddings = WAYS[way]
    base = transformers.AutoModelForCausalLM.from_pretrained(saved("llama"))
    base.resize_token_embeddings(302)
    settings = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", **options}
    wrapped = peft.get_peft_model(base, peft.LoraConfig(**settings))
    wrapped.save_pretrained(tmp_path, **({"save_embedding_layers": True} if embeddings else {}))
    with pytest.raises(InputError, match="was trained over a vocabulary of 302, and the base has 300: its"):
        describe_model(ModelSpec(name=str(saved("llama")), adapter=str(tmp_path)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
def test_an_adapter_over_as_many_words_is_read(way, saved, tmp_path):
    options, embeddings = WAYS[way]
    if "trainable_token_indices" in options:
        rows = [298, 299]
        held = options["trainable_token_indices"]
        options = {"trainable_token_indices": dict.fromkeys(held, rows) if isinstance(held, dict) else rows}
    base = transformers.AutoModelForCausalLM.from_pretrained(saved("llama"))
    settings = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", **options}
    wrapped = peft.get_peft_model(base, peft.LoraConfig(**settings))
    wrapped.save_pretrained(tmp_path, **({"save_embedding_layers": True} if embeddings else {}))
    assert describe_model(ModelSpec(name=str(saved("llama")), adapter=str(tmp_path))).head


def test_code_of_its_own_names_the_command_that_runs_it(saved, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved("llama"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard", "auto_map": {"AutoConfig": "own.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text("raise SystemExit('ran')")
    with pytest.raises(InputError, match="allow it with `sonde run --trust-remote-code` or, in Python,"):
        describe_model(ModelSpec(name=str(folder)))
