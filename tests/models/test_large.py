"""Checkpoints that are read otherwise than whole, in single precision, on one device: the numbers stay."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from jaxtyping import Float
from safetensors.torch import load_file, save_file

import sonde
from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.capture.attention_backend import describe_backend
from sonde.capture.forward import observe
from sonde.capture.requests import AttentionRows, HiddenStates, Masked, Pass, Plain, TokenScores, prepare
from sonde.capture.settings import CaptureSettings
from sonde.corpora import Item, item_id
from sonde.models import (
    LoadedModel,
    ModelSpec,
    describe_model,
    full_name,
    load_model,
    parse_spec,
    point_to_folder,
    resolve_revision,
)

from .conftest import HEADS, build

TEXTS = ("def f(a, b):\n    return a + b\n", "x = 1\n", "for i in range(3):\n    print(i)\n")
NEAR = 1e-5
Saved = Callable[..., Path]
Numbers = dict[str, Float[np.ndarray, " number"]]

ARCHITECTURES = ("llama", "gpt2", "opt", "gemma2, soft-capped", "bert", "modernbert", "t5, tied", "bart")


def numbers(loaded: LoadedModel, *, budget: int = 0) -> Numbers:
    """Losses, states of all layers and attention rows of some texts."""
    items = [
        Item(
            item_id=item_id(text, "text", "file"),
            text=text,
            language="text",
            unit="file",
            path="a",
            name="a",
            offset=0,
            cluster="",
            repository="",
        )
        for text in TEXTS
    ]
    prepared = prepare(loaded, items)
    every = {one.item.item_id: tuple(range(len(one.alignment.subwords))) for one in prepared}
    gaps = dict.fromkeys(every, ((1,), (3,)))
    losses = Plain() if loaded.capabilities.kind == "decoder" else Masked(gaps)
    fills = losses == Plain() or loaded.capabilities.masks
    asked = [
        *([Pass(losses, (TokenScores(1),))] if fills else []),
        Pass(Plain(), (HiddenStates(None, ("mean", "last")), AttentionRows(every))),
    ]
    found: dict[str, list[np.ndarray]] = {"losses": [], "states": [], "attention": []}
    for capture in observe(loaded, prepared, asked, settings=CaptureSettings(token_budget=budget)):
        if capture.scores is not None:
            found["losses"].append(capture.scores.nats[capture.scores.scored])
        found["states"] += [one.ravel() for one in capture.states.values()]
        found["attention"] += [] if capture.rows is None else [capture.rows.ravel()]
    assert found["states"] and found["attention"] and bool(found["losses"]) == fills
    return {name: np.concatenate(parts) for name, parts in found.items() if parts}


def apart(one: Numbers, other: Numbers) -> dict[str, float]:
    """Largest difference of each kind of number."""
    return {name: float(np.abs(one[name] - other[name]).max()) for name in one}


def assert_same(one: Numbers, other: Numbers, near: float = NEAR) -> None:
    differences = apart(one, other)
    assert max(differences.values()) <= near, differences


def linear_names(model: Any) -> list[str]:
    """Names of the linear layers of attention, as architectures call them."""
    wanted = ("q_proj", "v_proj", "c_attn", "query", "value", "Wqkv", "q", "v")
    return [name for name in wanted if any(one.endswith(f".{name}") for one, _ in model.named_modules())]


@pytest.fixture(scope="session")
def adapted(saved: Saved, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """An adapter over a saved model, and a folder of the model with the adapter merged."""
    made: dict[str, tuple[Path, Path]] = {}

    def get(name: str) -> tuple[Path, Path]:
        if name not in made:
            folder = tmp_path_factory.mktemp("adapter")
            base = getattr(transformers, HEADS[name]).from_pretrained(saved(name))
            torch.manual_seed(1)
            settings = peft.LoraConfig(r=4, target_modules=linear_names(base), init_lora_weights=False)
            wrapped = peft.get_peft_model(base, settings)
            wrapped.save_pretrained(folder / "lora")
            shutil.copytree(saved(name), folder / "merged")
            wrapped.merge_and_unload().save_pretrained(folder / "merged")
            made[name] = folder / "lora", folder / "merged"
        return made[name]

    return get


def half_on_disk(folder: Path, name: str, *, embeddings: str = "cpu") -> dict[str, str]:
    """Each block in turn on disk and in memory, and the embeddings where asked."""
    model = getattr(transformers, HEADS[name]).from_pretrained(folder)
    blocks = [
        one
        for one, child in model.named_modules()
        if type(child).__name__ in model._no_split_modules and "Embeddings" not in type(child).__name__
    ]
    table = next(one for one, child in model.named_modules() if child is model.get_input_embeddings())
    assert len(blocks) > 1
    return {one: ("disk", "cpu")[at % 2] for at, one in enumerate(blocks)} | {table: embeddings}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_half_on_disk_gives_the_numbers_of_the_whole(name: str, saved: Saved) -> None:
    whole = numbers(load_model(parse_spec(str(saved(name)))))
    for embeddings in ("cpu", "disk"):
        placed = half_on_disk(saved(name), name, embeddings=embeddings)
        loaded = sonde.load_model(str(saved(name)), device_map=placed)
        assert any(one.device.type == "meta" for one in loaded.model.parameters()), "something lies on disk"
        assert "on disk" in str(describe_backend(loaded)["placed"]) and loaded.device.type == "cpu"
        assert_same(numbers(loaded), whole)


def test_a_model_all_on_disk_and_one_placed_by_itself(saved: Saved) -> None:
    whole = numbers(load_model(parse_spec(str(saved("llama")))))
    for device_map in ({"": "disk"}, "auto"):
        assert_same(numbers(sonde.load_model(str(saved("llama")), device_map=device_map)), whole)


def test_an_adapter_over_a_model_half_on_disk(saved: Saved, adapted: Any) -> None:
    adapter, merged = adapted("llama")
    placed = half_on_disk(saved("llama"), "llama")
    loaded = sonde.load_model(str(saved("llama")), adapter=adapter, device_map=placed)
    assert any(one.device.type == "meta" for one in loaded.model.parameters())
    assert_same(numbers(loaded), numbers(load_model(parse_spec(str(merged)))))


def test_what_goes_to_disk_is_removed_with_the_model(
    saved: Saved, adapted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path))
    adapter, _ = adapted("llama")
    placed = half_on_disk(saved("llama"), "llama")
    loaded = sonde.load_model(str(saved("llama")), adapter=adapter, device_map=placed)
    assert [*(tmp_path / "offloaded").rglob("*.dat")]
    del loaded
    gc.collect()
    assert not [*(tmp_path / "offloaded").rglob("*.dat")]


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_shards_give_the_numbers_of_the_whole(name: str, saved: Saved, tmp_path: Path) -> None:
    shutil.copytree(saved(name), tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    build(name).save_pretrained(tmp_path / "model", max_shard_size="40KB")
    assert len([*(tmp_path / "model").glob("model-*.safetensors")]) > 2
    whole = numbers(load_model(parse_spec(str(saved(name)))))
    placed = half_on_disk(saved(name), name)
    assert_same(numbers(load_model(parse_spec(str(tmp_path / "model")))), whole)
    assert_same(numbers(sonde.load_model(str(tmp_path / "model"), device_map=placed)), whole)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5, tied"])
def test_four_bits_are_the_rounded_weights_and_nothing_else(name: str, saved: Saved, tmp_path: Path) -> None:
    import bitsandbytes.functional as bitwise

    loaded = sonde.load_model(str(saved(name)), quantise="4bit", device="cpu")
    held = {
        one: child
        for one, child in loaded.model.named_modules()
        if hasattr(getattr(child, "weight", None), "quant_state")
    }
    assert held, "some layers are quantised"
    assert loaded.model.get_output_embeddings() not in held.values()
    shutil.copytree(saved(name), tmp_path / "rounded")
    plain = getattr(transformers, HEADS[name]).from_pretrained(saved(name))
    with torch.no_grad():
        for one, child in plain.named_modules():
            if one in held:
                weight = child.weight if isinstance(child, torch.nn.Linear) else child.weight.T.contiguous()
                rounded = bitwise.dequantize_4bit(*bitwise.quantize_4bit(weight.data, quant_type="nf4"))
                child.weight.copy_(rounded if isinstance(child, torch.nn.Linear) else rounded.T)
    plain.save_pretrained(tmp_path / "rounded")
    assert_same(numbers(loaded), numbers(load_model(parse_spec(str(tmp_path / "rounded")))))


@pytest.mark.parametrize("name", ["llama", "bert", "bart"])
def test_eight_bits_do_not_depend_on_what_is_read_beside(name: str, saved: Saved) -> None:
    loaded = sonde.load_model(str(saved(name)), quantise="8bit", device="cpu")
    assert loaded.alone
    found = numbers(loaded)
    assert_same(found, numbers(loaded, budget=16))
    whole = numbers(load_model(parse_spec(str(saved(name)))))
    differences = apart(found, whole)
    assert 0 < differences["losses"] < 0.1 and differences["attention"] < 0.05, differences


def test_what_eight_bits_give_is_what_transformers_gives(saved: Saved) -> None:
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        saved("llama"),
        quantization_config=transformers.BitsAndBytesConfig(load_in_8bit=True),
        device_map={"": "cpu"},
        dtype=torch.float32,
    )
    ours = sonde.load_model(str(saved("llama")), quantise="8bit", device="cpu").model
    ids = torch.arange(5, 25)[None]
    with torch.inference_mode():
        assert torch.equal(ours(ids).logits, theirs(ids).logits)


def test_an_adapter_over_fewer_bits_stands_beside_the_weights(saved: Saved, adapted: Any) -> None:
    adapter, merged = adapted("llama")
    loaded = sonde.load_model(str(saved("llama")), adapter=adapter, quantise="4bit", device="cpu")
    assert describe_backend(loaded) | {"quantised": ""} == {
        "weights": "float32",
        "quantised": "",
        "adapter": "beside the weights",
        "device": "cpu",
        "tokenizer": "TokenizersBackend, as its tokenizer.json",
    }
    base = numbers(sonde.load_model(str(saved("llama")), quantise="4bit", device="cpu"))
    whole = numbers(load_model(parse_spec(str(merged))))
    assert apart(numbers(loaded), whole)["losses"] < apart(base, whole)["losses"] / 2


@pytest.mark.parametrize("kind", ["8bit", "4bit"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_random_weights_are_quantised_as_trained_ones_are(
    kind: str, name: str, saved: Saved, tmp_path: Path
) -> None:
    spec = parse_spec(full_name(str(saved(name)), quantise=kind), device="cpu")
    drawn = load_model(dataclasses.replace(spec, quantise="", reinitialise=3))
    shutil.copytree(saved(name), tmp_path / "drawn")
    drawn.model.save_pretrained(tmp_path / "drawn")
    control = load_model(dataclasses.replace(spec, reinitialise=3))
    assert control.facts["quantised"].startswith(kind)
    again = sonde.load_model(str(tmp_path / "drawn"), quantise=kind, device="cpu")
    assert_same(numbers(control), numbers(again))
    assert control.revision.endswith("+reinitialised-3") and kind in control.revision


def test_random_weights_have_no_adapter(saved: Saved, adapted: Any) -> None:
    adapter, _ = adapted("llama")
    spec = parse_spec(full_name(str(saved("llama")), adapter=str(adapter)), device="cpu")
    control = load_model(dataclasses.replace(spec, reinitialise=3))
    alone = load_model(dataclasses.replace(spec, adapter="", reinitialise=3))
    assert "adapter" not in control.facts
    assert_same(numbers(control), numbers(alone))


def test_a_wrong_base_is_refused_in_one_line(saved: Saved, adapted: Any, tmp_path: Path) -> None:
    adapter, _ = adapted("llama")

    def refusal(base: str, folder: Path) -> str:
        with pytest.raises(InputError) as caught:
            load_model(parse_spec(full_name(base, adapter=str(folder))))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "was trained over" in refusal(str(saved("qwen2")), adapter)
    # Nothing but the shapes tells where the adapter does not say what it was trained over.
    silent = tmp_path / "silent"
    shutil.copytree(adapter, silent)
    settings = json.loads((silent / "adapter_config.json").read_text())
    (silent / "adapter_config.json").write_text(json.dumps(settings | {"base_model_name_or_path": ""}))
    assert "another model's" in refusal("sonde/mini-decoder", silent)
    assert "does not fit it" in refusal(str(saved("bert")), silent)
    weights = load_file(silent / "adapter_model.safetensors")
    less = {name: weight for name, weight in weights.items() if ".layers.1." not in name}
    save_file(less, silent / "adapter_model.safetensors")
    assert "is only in one of the two" in refusal(str(saved("llama")), silent)
    named = {"base_model_name_or_path": "org/other", "peft_type": "LORA"}
    (silent / "adapter_config.json").write_text(json.dumps(settings | named))
    assert "was trained over 'org/other'" in refusal("sonde/mini-decoder", silent)


def test_what_is_no_adapter_of_weights_is_refused(saved: Saved, adapted: Any, tmp_path: Path) -> None:
    adapter, _ = adapted("llama")
    base = str(saved("llama"))
    for fault, change, words in (
        ("prompt", {"peft_type": "PROMPT_TUNING"}, "learned vectors before a text"),
        ("pickle", None, "as a pickle, adapter_model.bin"),
        ("nothing", None, "has no adapter_config.json"),
    ):
        folder = tmp_path / fault
        shutil.copytree(adapter, folder)
        if change is not None:
            settings = json.loads((folder / "adapter_config.json").read_text())
            (folder / "adapter_config.json").write_text(json.dumps(settings | change))
        elif fault == "pickle":
            (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
        else:
            (folder / "adapter_config.json").unlink()
        with pytest.raises(InputError, match=words):
            describe_model(parse_spec(full_name(base, adapter=str(folder))))
    with pytest.raises(InputError, match="no such folder"):
        describe_model(parse_spec(full_name(base, adapter="./nowhere")))
    with pytest.raises(InputError, match=r"has only an adapter; name its base"):
        describe_model(parse_spec(str(adapter)))


def test_a_checkpoint_with_an_adapter_in_its_folder_is_not_taken_for_another(
    saved: Saved, adapted: Any, tmp_path: Path
) -> None:
    shutil.copytree(saved("llama"), tmp_path / "both")
    shutil.copy(adapted("llama")[0] / "adapter_config.json", tmp_path / "both")
    with pytest.raises(InputError, match=r"there is an adapter_config\.json next to its config\.json"):
        describe_model(parse_spec(str(tmp_path / "both")))


def test_the_revision_knows_adapter_and_quantisation(saved: Saved, adapted: Any, tmp_path: Path) -> None:
    base, (adapter, _) = str(saved("llama")), adapted("llama")
    specs = [
        parse_spec(base),
        parse_spec(full_name(base, quantise="8bit")),
        parse_spec(full_name(base, quantise="4bit")),
        parse_spec(full_name(base, adapter=str(adapter))),
    ]
    other = tmp_path / "other"
    shutil.copytree(adapter, other)
    weights = load_file(other / "adapter_model.safetensors")
    save_file({name: weight + 1 for name, weight in weights.items()}, other / "adapter_model.safetensors")
    specs.append(parse_spec(full_name(base, adapter=str(other))))
    revisions = [resolve_revision(spec) for spec in specs]
    assert len(set(revisions)) == len(revisions)
    assert all(one.startswith(revisions[0]) for one in revisions)


def test_names_say_what_is_read() -> None:
    assert full_name("a/b@c?quantise=8bit&adapter=./d") == "a/b@c?adapter=./d&quantise=8bit"
    assert full_name("a", quantise="4bit") == "a?quantise=4bit"
    assert full_name("a?quantise=none", quantise="4bit") == "a"
    spec = parse_spec("a/b@c?adapter=./d&quantise=8bit")
    assert spec == ModelSpec(name="a/b", revision="c", adapter="./d", quantise="8bit")
    assert spec.full_name == "a/b@c?adapter=./d&quantise=8bit"
    with pytest.raises(UnknownNameError, match="did you mean 'quantise'"):
        parse_spec("a?quantize=8bit")
    with pytest.raises(UnknownNameError, match="did you mean '8bit'"):
        parse_spec("a?quantise=8bits")
    for wrong in ("a?quantise=", "a?quantise=8bit&quantise=4bit", "a?adapter"):
        with pytest.raises(UsageError, match="is not OPTION=VALUE"):
            parse_spec(wrong)
    with pytest.raises(UsageError, match="runs on a server"):
        full_name("openai:gpt", quantise="8bit")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("outo", "did you mean 'auto'"),
        ("{", "not valid JSON"),
        ('{"model": 1.5}', "not a JSON object of devices by module"),
        ({"modle": "cpu"}, "not a part of LlamaForCausalLM; did you mean 'model'"),
        ({"model": "cuda:7"}, "which this machine does not have"),
    ],
)
def test_a_device_map_that_cannot_be_is_refused_in_one_line(given: Any, words: str, saved: Saved) -> None:
    with pytest.raises((UsageError, InputError), match=words):
        sonde.load_model(str(saved("llama")), device_map=given)


def test_what_a_map_does_not_name_is_beside_what_it_names(saved: Saved) -> None:
    loaded = sonde.load_model(str(saved("bert")), device_map={"bert.encoder.layer.1": "disk"})
    on_disk = {name for name, one in loaded.model.named_parameters() if one.device.type == "meta"}
    assert on_disk and all(name.startswith("bert.encoder.layer.1.") for name in on_disk)
    # The output embeddings are those of the input, and lie where these do.
    loaded = sonde.load_model(str(saved("bert")), device_map={"bert.embeddings.word_embeddings": "disk"})
    assert loaded.model.get_output_embeddings().weight.device.type == "meta"


def test_a_device_map_may_lie_in_a_file(saved: Saved, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"": "disk"}))
    loaded = sonde.load_model(str(saved("llama")), device_map=path)
    assert loaded.facts["placed"] == "1 module on disk"


def test_few_bits_are_not_fetched_from_disk(saved: Saved) -> None:
    with pytest.raises(UsageError, match="bitsandbytes does not fetch"):
        sonde.load_model(str(saved("llama")), quantise="8bit", device_map={"": "disk"})


@pytest.mark.parametrize(("kept", "read"), [("bfloat16", "bfloat16"), ("float16", "float32")])
def test_weights_are_kept_in_the_type_that_they_were_saved_in(
    kept: str, read: str, saved: Saved, tmp_path: Path
) -> None:
    shutil.copytree(saved("llama"), tmp_path / "model")
    build("llama").to(getattr(torch, kept)).save_pretrained(tmp_path / "model")
    loaded = load_model(parse_spec(str(tmp_path / "model"), device="cpu"))
    assert {str(one.dtype) for one in loaded.model.parameters()} == {f"torch.{read}"}
    assert describe_backend(loaded)["weights"] == read
    # Where the configuration says nothing, the files do.
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config.pop("dtype")
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert describe_backend(load_model(parse_spec(str(tmp_path / "model"), device="cpu")))["weights"] == read
    wide = load_model(parse_spec(str(tmp_path / "model"), device="cpu", dtype="float32"))
    assert describe_backend(wide)["weights"] == "float32"


def test_accelerators_compute_in_what_was_saved(saved: Saved) -> None:
    from sonde.models.engine.weights import resolve_dtype

    config = transformers.AutoConfig.from_pretrained(saved("llama"))
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        config.dtype = dtype
        assert resolve_dtype(parse_spec(str(saved("llama"))), config, torch.device("cuda")) == dtype


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, r"saved as gptq.*optimum"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, "saved as awq.*gptqmodel"),
        ({"quant_method": "nonsense"}, "saved as nonsense"),
    ],
)
def test_quantised_checkpoints_that_need_more_are_refused_in_one_line(
    settings: dict[str, Any], words: str, saved: Saved, tmp_path: Path
) -> None:
    shutil.copytree(saved("llama"), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": settings}))
    for act in (describe_model, load_model):
        with pytest.raises(InputError, match=words) as caught:
            act(parse_spec(str(tmp_path / "model"), device="cpu"))
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="leave out --quantise 8bit"):
        describe_model(parse_spec(f"{tmp_path / 'model'}?quantise=8bit"))


@pytest.mark.parametrize("kind", ["8bit", "4bit"])
def test_a_checkpoint_saved_by_bitsandbytes_is_read(kind: str, saved: Saved, tmp_path: Path) -> None:
    loaded = sonde.load_model(str(saved("llama")), quantise=kind, device="cpu")
    shutil.copytree(saved("llama"), tmp_path / "model")
    loaded.model.save_pretrained(tmp_path / "model")
    again = load_model(parse_spec(str(tmp_path / "model"), device="cpu"))
    assert again.facts["quantised"] == loaded.facts["quantised"] and again.alone == loaded.alone
    assert_same(numbers(again), numbers(loaded))


def hub_cache(home: Path, folder: Path, name: str, commit: str) -> Path:
    """What the hub's client leaves of a repository: blobs, and links to them in a snapshot."""
    held = home / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = held / "snapshots" / commit
    for part in ("blobs", "refs"):
        (held / part).mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(folder.iterdir()):
        shutil.copy(file, held / "blobs" / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    (held / "refs" / "main").write_text(commit)
    return held


OFFLINE = """
import sys, sonde
from sonde.base.errors import SondeError
from sonde.models import parse_spec, resolve_revision
for name in sys.argv[1:]:
    try:
        print(resolve_revision(parse_spec(name)), sonde.load_model(name).capabilities.layers)
    except SondeError as error:
        print("refused:", error)
"""


@pytest.mark.slow
def test_without_a_network_the_hubs_cache_is_read(saved: Saved, adapted: Any, tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    hub_cache(tmp_path, saved("llama"), "org/base", commit)
    hub_cache(tmp_path, adapted("llama")[0], "org/lora", "f" * 40)
    adapter = tmp_path / "hub" / "models--org--lora" / "snapshots" / ("f" * 40) / "adapter_config.json"
    settings = json.loads(adapter.read_text())
    adapter.unlink()
    adapter.write_text(json.dumps(settings | {"base_model_name_or_path": "org/base"}))
    names = ["org/base", f"org/base@{commit}", "org/base?adapter=org/lora", "org/base@v9", "org/absent"]
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, *names],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"{commit} 2"] * 2
    assert lines[2].startswith(f"{commit}+adapter-") and lines[2].endswith(" 2")
    assert all(one.startswith("refused: ") for one in lines[3:]) and len(lines) == 5
    assert "does not have it at 'v9'" in lines[3] and "HF_HUB_OFFLINE is set" in lines[4]


def test_a_folder_of_the_hubs_cache_is_a_model(saved: Saved, tmp_path: Path) -> None:
    held = hub_cache(tmp_path, saved("llama"), "org/base", "a" * 40)
    hashed = resolve_revision(parse_spec(str(saved("llama"))))
    for name in (str(held), f"{held}@main", f"{held}@aaaa", str(held / "snapshots" / ("a" * 40))):
        assert resolve_revision(parse_spec(name)) == hashed
        assert load_model(parse_spec(name, device="cpu")).capabilities.layers == 2
    with pytest.raises(InputError, match="the hub cache has aaaa"):
        describe_model(parse_spec(f"{held}@bbbb"))


def test_another_machine_finds_base_and_adapter_by_what_they_hold(
    saved: Saved, adapted: Any, tmp_path: Path
) -> None:
    adapter, _ = adapted("llama")
    spec = parse_spec(full_name(str(saved("llama")), adapter=str(adapter), quantise="4bit"))
    there = point_to_folder(spec, tmp_path)
    assert Path(there.adapter).parent == tmp_path and Path(there.name).parent == tmp_path
    assert resolve_revision(there) == resolve_revision(spec)
    assert point_to_folder(spec, tmp_path) == there
    # A copy that was cut off is made again.
    (Path(there.adapter) / "adapter_model.safetensors").write_bytes(b"half")
    point_to_folder(spec, tmp_path)
    assert resolve_revision(there) == resolve_revision(spec)
