"""Loading by path, the special-token policy, controls, and what is refused."""

import json
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.models import (
    ModelSpec,
    bundled_names,
    describe_model,
    describe_special,
    known_checkpoints,
    load_model,
    load_tokenizer,
    read_frequencies,
    resolve_revision,
    seen_items,
    split_revision,
)

from .conftest import tiny_tokenizer


def test_a_decoder_loads_ready_for_capture(saved):
    spec = ModelSpec(name=str(saved("llama")), device="cpu")
    loaded = load_model(spec)
    assert (loaded.family, loaded.capabilities.kind, loaded.capabilities.context) == ("llama", "decoder", 64)
    assert not loaded.model.training and loaded.model.dtype == torch.float32
    assert (loaded.special.bos, loaded.special.bos_source) == (0, "bos")
    assert loaded.capabilities == describe_model(spec) and loaded.special == describe_special(spec)
    assert loaded.revision == resolve_revision(spec)


def test_an_encoder_tells_what_stands_around_a_text(saved):
    loaded = load_model(ModelSpec(name=str(saved("roberta")), device="cpu"))
    assert (loaded.special.prefix, loaded.special.suffix, loaded.special.mask) == ((0,), (1,), 3)
    assert loaded.special.bos is None and loaded.capabilities.masks
    assert loaded.capabilities.context == 64, "67 positions, of which three lie at or before the padding id"


def test_an_encoder_saved_without_its_head_cannot_mask(saved, tmp_path):
    from transformers import AutoModel

    shutil.copytree(saved("bert"), tmp_path / "bare")
    AutoModel.from_pretrained(saved("bert")).save_pretrained(tmp_path / "bare")
    loaded = load_model(ModelSpec(name=str(tmp_path / "bare"), device="cpu"))
    assert not loaded.capabilities.masks


def test_an_encoder_decoder_loads(saved):
    loaded = load_model(ModelSpec(name=str(saved("t5, tied")), device="cpu"))
    assert (loaded.family, loaded.capabilities.kind, loaded.capabilities.layers) == (
        "t5",
        "encoder-decoder",
        4,
    )


def test_one_that_was_trained_on_no_gaps_is_asked_for_none(saved):
    loaded = load_model(ModelSpec(name=str(saved("pegasus")), device="cpu"))
    # Its tokenizer has a mask all the same.
    assert loaded.special.mask is not None
    assert loaded.special.gap is None and not loaded.capabilities.masks


def test_a_decoder_with_a_vocabulary_of_its_own_is_refused(saved, tmp_path):
    shutil.copytree(saved("marian"), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    own = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 280}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    with pytest.raises(InputError, match=r"model '.*model': its decoder has a vocabulary of its own"):
        describe_model(ModelSpec(name=str(tmp_path / "model")))


def describe(config, folder):
    """Describe a model of which there is a configuration alone."""
    config.save_pretrained(folder)
    return describe_model(ModelSpec(name=str(folder)))


def test_an_encoder_decoder_is_not_taken_for_the_decoder_in_it(tmp_path):
    from transformers import AutoConfig

    from sonde.models.engine.load import _find_family

    whole = AutoConfig.for_model("prophetnet", architectures=["ProphetNetForConditionalGeneration"])
    with pytest.raises(InputError, match="nor a known encoder-decoder"):
        describe(whole, tmp_path)
    part = AutoConfig.for_model("pegasus", is_encoder_decoder=False, architectures=["PegasusForCausalLM"])
    assert _find_family(ModelSpec(name="m"), part)[0] == "decoder"


@pytest.mark.parametrize("model_type", ["t5", "mt5", "umt5"])
def test_the_encoder_of_an_encoder_decoder_alone_is_refused_as_one_half(model_type, tmp_path):
    from transformers import AutoConfig

    half = AutoConfig.for_model(model_type, is_encoder_decoder=False, architectures=["T5EncoderModel"])
    with pytest.raises(InputError, match=f"one half of an encoder-decoder of type '{model_type}'"):
        describe(half, tmp_path)


def test_an_encoder_that_is_said_to_decode_is_no_half(tmp_path):
    from transformers import AutoConfig

    with pytest.raises(InputError, match="type 'mobilebert' is neither a causal"):
        describe(AutoConfig.for_model("mobilebert", is_decoder=True), tmp_path)


@pytest.mark.parametrize(
    ("special", "expected"),
    [
        ({"bos_token": "<s>", "eos_token": "</s>"}, (0, "bos")),
        ({"eos_token": "</s>"}, (1, "eos")),
        ({}, (None, "none")),
    ],
)
def test_the_policy_on_the_first_subword_is_explicit(special, expected, saved, tmp_path):
    shutil.copytree(saved("llama"), tmp_path / "model")
    (tmp_path / "model" / "tokenizer_config.json").unlink()
    tiny_tokenizer(**special).save_pretrained(tmp_path / "model")
    policy = describe_special(ModelSpec(name=str(tmp_path / "model")))
    assert (policy.bos, policy.bos_source) == expected


def test_a_control_has_fresh_weights_that_depend_on_the_seed_alone(saved):
    name = str(saved("llama"))
    first, again, other = (
        load_model(ModelSpec(name=name, device="cpu", reinitialise=seed)) for seed in (1, 1, 2)
    )
    trained = load_model(ModelSpec(name=name, device="cpu"))

    def matrix(loaded):
        return loaded.model.model.layers[0].mlp.up_proj.weight

    assert torch.equal(matrix(first), matrix(again))
    assert not torch.equal(matrix(first), matrix(other)) and not torch.equal(matrix(first), matrix(trained))
    assert len({first.revision, other.revision, trained.revision}) == 3


def test_building_a_control_leaves_other_randomness_alone(saved):
    # The first to ask for it has it drawn.
    llama = saved("llama")
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    load_model(ModelSpec(name=str(llama), device="cpu", reinitialise=1))
    assert torch.equal(torch.rand(1), expected)


def test_the_revision_of_a_folder_is_its_content(saved, tmp_path):
    for copy in ("a", "b"):
        shutil.copytree(saved("llama"), tmp_path / copy)
    hashes = [resolve_revision(ModelSpec(name=str(tmp_path / copy))) for copy in ("a", "b")]
    assert hashes[0] == hashes[1]
    weights = tmp_path / "b" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    assert resolve_revision(ModelSpec(name=str(tmp_path / "b"))) != hashes[0]


def test_precision_and_device_are_checked(saved):
    name = str(saved("llama"))
    half = load_model(ModelSpec(name=name, device="cpu", dtype="bfloat16"))
    assert half.model.dtype == torch.bfloat16
    with pytest.raises(UsageError, match="dtype 'float8'"):
        load_model(ModelSpec(name=name, dtype="float8"))
    with pytest.raises(UsageError, match="device 'abacus'"):
        load_model(ModelSpec(name=name, device="abacus"))


def test_incomplete_weights_are_refused(saved, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(saved("llama"), tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    weights = load_file(file)
    del weights["model.norm.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"model\.norm\.weight"):
        load_model(ModelSpec(name=str(tmp_path / "model"), device="cpu"))


def test_code_of_its_own_is_not_run(saved, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved("llama"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard", "auto_map": {"AutoConfig": "evil.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    with pytest.raises(InputError, match=r"code of its own|cannot be read"):
        describe_model(ModelSpec(name=str(folder)))


def test_old_special_tokens_without_a_type_are_read(saved, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved("llama"), folder)
    token = {"content": "<extra>", "lstrip": False, "rstrip": False, "normalized": True, "single_word": False}
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": [token]}))
    assert "<extra>" in load_tokenizer(ModelSpec(name=str(folder))).get_vocab()


def test_unknown_names_name_the_nearest(saved):
    folder = saved("llama")
    with pytest.raises(UnknownNameError, match=folder.name):
        describe_model(ModelSpec(name=str(folder) + "x"))
    with pytest.raises(UnknownNameError, match="bundled model"):
        describe_model(ModelSpec(name="sonde/mini-decodr"))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        describe_model(ModelSpec(name=str(tmp_path)))


def test_without_network_a_hub_name_gives_one_line():
    code = (
        "from sonde.models import ModelSpec, describe_model\n"
        "from sonde.base.errors import InputError\n"
        "try:\n    describe_model(ModelSpec(name='nobody/nothing'))\n"
        "except InputError as error:\n    print(error)\n"
    )
    environment = {"HF_HUB_OFFLINE": "1", "PATH": "", "HF_HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert "nobody/nothing" in done.stdout and done.stdout.count("\n") == 1


def test_revisions_are_split_off_names(tmp_path):
    assert split_revision("a/b@c") == ("a/b", "c")
    folder = tmp_path / "x@y"
    folder.mkdir()
    assert split_revision(str(folder)) == (str(folder), "")


def test_importing_the_package_imports_neither_torch_nor_transformers():
    code = "import sys, sonde.models; sys.exit(bool({'torch', 'transformers'} & sys.modules.keys()))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_catalogue_lists_a_family_for_each():
    listed = known_checkpoints()
    assert {header.name for header in listed} >= {
        "microsoft/codebert-base",
        "Salesforce/codet5-base",
        *bundled_names(),
    }
    assert all(header.summary for header in listed)


def test_what_a_model_was_trained_on(tmp_path):
    assert read_frequencies(str(tmp_path)) is None and seen_items(str(tmp_path), ["0" * 32]) == frozenset()
    ids = ["ffffffffffffffff" + "0" * 16, "0000000000000001" + "a" * 16, "0000000000000002" + "b" * 16]
    hashes = np.array([int(one[:16], 16) for one in ids[:2]], np.uint64)
    pl.DataFrame({"item_hash": np.sort(hashes)}).write_parquet(tmp_path / "seen.parquet")
    pl.DataFrame({"subword_id": [0], "count": [3]}).write_parquet(tmp_path / "frequencies.parquet")
    assert seen_items(str(tmp_path), ids) == frozenset(ids[:2])
    assert read_frequencies(str(tmp_path)).to_dicts() == [{"subword_id": 0, "count": 3}]
