"""Checkpoints without a head: their body is read, and no number comes from weights that they do not hold."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
import torch
import transformers
from safetensors import safe_open
from transformers import AutoModel

from sonde.base.errors import InputError
from sonde.models import ModelSpec, derive_checkpoint, describe_model, load_model
from sonde.models.engine.family import check_head_available
from sonde.models.engine.lm_head import body_and_head
from sonde.models.engine.trial_batches import forward_rows

from .conftest import ALL, DECODERS, build

LACKS = {
    "encoder": "no masked-LM head",
    "decoder": "no language-model head",
    "encoder-decoder": "no language-model head",
}
BODY, WHOLE = "its own class", "the class with a head"
"""What the configuration of a checkpoint names that holds the body alone."""


def find_faults(folder, whole, named) -> list[str]:
    """What is wrong with how a checkpoint is read that holds the body of a model."""
    config = json.loads((folder / "config.json").read_text())
    if named == WHOLE:
        config["architectures"] = [type(whole).__name__]
        (folder / "config.json").write_text(json.dumps(config))
    spec = ModelSpec(name=str(folder), device="cpu")
    told, loaded = describe_model(spec), load_model(spec)
    found = loaded.capabilities
    wrong = [] if dataclasses.replace(told, context=0) == dataclasses.replace(found, context=0) else ["told"]
    output, embeddings = whole.get_output_embeddings(), whole.get_input_embeddings()
    tied = getattr(output, "weight", None) is getattr(embeddings, "weight", 0)
    if found.head:
        # The embeddings are a head of which nothing is missing; whoever did not ask for one is told.
        wrong += [] if tied and not _own(whole) else ["a head"]
        wrong += [] if bool(loaded.facts.get("head")) == (named == BODY) else ["not named"]
        return wrong
    wrong += [] if found.lacks == LACKS[found.kind] and not found.masks else [found.lacks]
    _, head = body_and_head(loaded)
    states = torch.zeros(1, found.d_model)
    for ask in (head, head.to_float32(), head.to_float32().restrict_to_ids(torch.arange(2))):
        try:
            ask(states)
            wrong.append("speaks")
        except InputError as error:
            wrong += [] if LACKS[found.kind] in str(error) else [str(error)]
    rows = [[5, 6, 7, 8]]
    first, again = (forward_rows(one, rows)[0].last_hidden_state for one in (loaded, load_model(spec)))
    return wrong if torch.equal(first, again) else [*wrong, "states change"]


def _own(whole) -> set[str]:
    """Weights outside the body that are not the body's."""
    body = {id(one) for one in whole.base_model.parameters()}
    return {name for name, one in whole.named_parameters() if id(one) not in body}


@pytest.mark.parametrize("named", [BODY, WHOLE])
@pytest.mark.parametrize("name", ALL)
def test_a_body_is_read_and_asked_for_no_subword(name, named, saved, tmp_path):
    shutil.copytree(saved(name), tmp_path / "body")
    AutoModel.from_pretrained(saved(name)).save_pretrained(tmp_path / "body")
    assert find_faults(tmp_path / "body", build(name), named) == []


CLASSIFIERS = ("bert", "roberta", "modernbert", "electra", "albert", "deberta", "llama", "gpt2", "mistral")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_has_no_head_but_its_tied_embeddings(name, saved, tmp_path):
    shutil.copytree(saved(name), tmp_path / "classifier")
    kind = transformers.AutoModelForSequenceClassification
    saved_as = kind.from_pretrained(saved(name))
    saved_as.save_pretrained(tmp_path / "classifier")
    loaded = load_model(ModelSpec(name=str(tmp_path / "classifier"), device="cpu"))
    tied = name in DECODERS and loaded.model.config.tie_word_embeddings
    assert loaded.capabilities.head == tied
    assert (type(saved_as).__name__ in loaded.facts.get("head", "")) == tied


def test_a_discriminator_is_a_body(saved, tmp_path):
    shutil.copytree(saved("electra"), tmp_path / "discriminator")
    kind = transformers.ElectraForPreTraining
    kind.from_pretrained(saved("electra")).save_pretrained(tmp_path / "discriminator")
    told = describe_model(ModelSpec(name=str(tmp_path / "discriminator")))
    assert told.lacks == "no masked-LM head"
    assert load_model(ModelSpec(name=str(tmp_path / "discriminator"), device="cpu")).capabilities == told


@pytest.mark.parametrize("name", ["bert", "llama", "t5, untied", "bart"])
def test_what_speaks_is_as_it_was(name, saved):
    loaded = load_model(ModelSpec(name=str(saved(name)), device="cpu"))
    check_head_available(loaded)
    assert loaded.capabilities.head and "head" not in loaded.facts


def test_a_body_that_is_written_again_stays_one(saved, tmp_path):
    """Weights that were drawn where the files held none are not saved as if they had been trained."""
    folder = tmp_path / "body"
    shutil.copytree(saved("bert"), folder)
    AutoModel.from_pretrained(saved("bert")).save_pretrained(folder)
    derive_checkpoint(str(folder), tmp_path / "rounded", "int8")
    with safe_open(tmp_path / "rounded" / "model.safetensors", "pt") as held:
        assert not [name for name in held.keys() if name.startswith("cls")]  # noqa: SIM118
    assert not describe_model(ModelSpec(name=str(tmp_path / "rounded"))).head


def test_pickled_bodies_are_known_before_they_are_loaded(saved, tmp_path):
    folder = tmp_path / "body"
    shutil.copytree(saved("bert"), folder)
    body = AutoModel.from_pretrained(saved("bert"))
    (folder / "model.safetensors").unlink()
    torch.save(body.state_dict(), folder / "pytorch_model.bin")
    assert describe_model(ModelSpec(name=str(folder))).lacks == "no masked-LM head"


def test_what_the_hub_says_of_a_body_is_taken(saved, tmp_path, monkeypatch):
    from huggingface_hub import HfApi
    from huggingface_hub.utils import SafetensorsFileMetadata, SafetensorsRepoMetadata, TensorInfo

    from sonde.models.engine import checks

    def told(*_, **__):
        with safe_open(saved("bert") / "model.safetensors", "pt") as held:
            tensors = {
                name: TensorInfo(dtype="F32", shape=held.get_slice(name).get_shape(), data_offsets=(0, 0))
                for name in held.keys()  # noqa: SIM118
                if not name.startswith("cls")
            }
        file = SafetensorsFileMetadata(metadata={}, tensors=tensors)
        return SafetensorsRepoMetadata(
            metadata=None, sharded=False, weight_map={}, files_metadata={"model.safetensors": file}
        )

    monkeypatch.setattr(HfApi, "get_safetensors_metadata", told)
    monkeypatch.setattr(checks, "resolve_commit", lambda _: "main")
    config = transformers.AutoConfig.from_pretrained(saved("bert"))
    found = checks.contents_by_headers(ModelSpec(name="some/encoder"), config, "encoder")
    assert found is not None and not found.head
