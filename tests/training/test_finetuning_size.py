"""Larger models: LoRA against a plain loop of PEFT and Trainer, portions, recomputed states, processes."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from tests.training.test_finetuning import TINY, pattern, read_without_dropout, specs, split, texts
from torch._dynamo.utils import counters
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

from sonde.base.errors import UsageError
from sonde.models import ModelSpec, load_model
from sonde.training.finetune.batches import order_batches
from sonde.training.finetune.data import TaskData, build_text_encoder, encode_samples
from sonde.training.finetune.model import OwnHead, build_headed_model
from sonde.training.finetune.recipe import BFLOAT16
from sonde.training.finetune.tune import CHECKPOINT, rate_factor, tune

__all__ = ["pattern", "specs"]

RATE = 1e-2
LORA = dataclasses.replace(
    TINY, lora_rank=4, lora_alpha=8, epochs=2, rates=(RATE,), dropout=0.0, precision="float32"
)


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loss of each update as it is computed."""
    seen: list[float] = []
    usual = OwnHead.loss

    def loss(head: OwnHead, logits: torch.Tensor, batch: Any) -> torch.Tensor:
        found = usual(head, logits, batch)
        seen.append(float(found.detach()))
        return found

    monkeypatch.setattr(OwnHead, "loss", loss)
    return seen


@pytest.mark.slow
def test_lora_is_a_plain_loop_of_peft_and_trainer(
    specs: Callable[[str], ModelSpec], tmp_path: Path, losses: list[float]
) -> None:
    """Loss by loss and in what is learned: the same matrices, order and rates, without sonde's loop."""
    data = split(texts, 64, 16, 16)
    loaded = load_model(dataclasses.replace(specs("llama"), dtype="float32"))
    first = {
        name: one.detach().clone() for name, one in build_headed_model(loaded, data, LORA).named_parameters()
    }
    tuned = tune(specs("llama"), data, LORA, tmp_path / "ours")

    base = AutoModelForSequenceClassification.from_pretrained(
        specs("llama").name, num_labels=2, pad_token_id=loaded.special.pad, dtype=torch.float32
    )
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    plain = peft.get_peft_model(
        base, peft.LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=targets)
    )
    moved = [name for name, one in plain.named_parameters() if one.requires_grad]
    with torch.no_grad():
        for name in moved:
            own = name.removeprefix("base_model.model.").replace("modules_to_save.default.", "")
            plain.get_parameter(name).copy_(first[f"body.inner.{own}"])
    assert len(moved) == 2 * 7 * 2 + 1

    encoded = encode_samples(
        data.train, build_text_encoder(loaded.tokenizer, loaded.special, "decoder"), LORA.length
    )
    batches = [order_batches(encoded, LORA.batch, LORA.seed, epoch) for epoch in range(LORA.epochs)]
    rows = [encoded[row] for row in chain.from_iterable(chain.from_iterable(batches))]
    table = Dataset.from_list([{"input_ids": one.ids.tolist(), "labels": one.target} for one in rows])

    def collate(some: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        wide = max(len(one["input_ids"]) for one in some)
        ids = [one["input_ids"] + [loaded.special.pad] * (wide - len(one["input_ids"])) for one in some]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor([one["labels"] for one in some])}

    steps = len(rows) // LORA.batch
    optimiser = torch.optim.AdamW(
        [one for one in plain.parameters() if one.requires_grad], lr=RATE, weight_decay=LORA.decay
    )
    trainer = Trainer(
        model=plain,
        args=TrainingArguments(
            output_dir=str(tmp_path / "plain"), per_device_train_batch_size=LORA.batch, num_train_epochs=1,
            max_grad_norm=LORA.clip, logging_steps=1, use_cpu=True, report_to=[], save_strategy="no",
            train_sampling_strategy="sequential", disable_tqdm=True,
        ),
        train_dataset=table,
        data_collator=collate,
        optimizers=(optimiser, LambdaLR(optimiser, lambda step: rate_factor(step, steps, LORA.warmup))),
    )  # fmt: skip
    trainer.train()
    wanted = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(wanted) == steps == 16
    # Trainer rounds what it logs to four digits.
    np.testing.assert_allclose(losses, wanted, atol=2e-4)

    # The last epoch's weights, where it was the best: merged by sonde, and merged by PEFT.
    course = tuned.courses[tuned.setting]
    if tuned.epoch == len(course):
        merged = plain.merge_and_unload().state_dict()
        own = AutoModelForSequenceClassification.from_pretrained(tuned.folder).state_dict()
        assert merged.keys() == own.keys()
        for name, weight in merged.items():
            np.testing.assert_allclose(own[name].numpy(), weight.detach().numpy(), atol=2e-5, err_msg=name)
    assert tuned.epoch == len(course), "weights are compared where the last epoch is the best"


def test_what_stands_beside_lora_stays_and_only_little_is_kept(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """Embeddings do not move, linear layers do by a product of rank four, and checkpoints hold that alone."""
    tuned = tune(specs("bert"), pattern, LORA, tmp_path)
    before, after = (
        load_model(one).model.state_dict() for one in (specs("bert"), ModelSpec(name=str(tuned.folder)))
    )
    embeddings = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(before[embeddings], after[embeddings])
    changed = after["bert.encoder.layer.0.intermediate.dense.weight"].double()
    changed -= before["bert.encoder.layer.0.intermediate.dense.weight"].double()
    assert torch.linalg.matrix_rank(changed, atol=1e-6) == LORA.lora_rank
    best = next(tmp_path.glob("setting-*/best.safetensors"))
    assert best.stat().st_size < 0.5 * (tuned.folder / "model.safetensors").stat().st_size


@pytest.mark.parametrize("kind", ["bert", "llama"])
@pytest.mark.parametrize("change", [{"at_once": 3}, {"recompute": True}])
def test_memory_that_is_saved_changes_no_number(
    kind: str, change: dict[str, Any], specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    spec = read_without_dropout(specs(kind), tmp_path / "model")
    recipe = dataclasses.replace(TINY, dropout=0.0, precision="float32", epochs=2)
    usual = tune(spec, pattern, recipe, tmp_path / "usual")
    found = tune(spec, pattern, dataclasses.replace(recipe, **change), tmp_path / "other")
    for one, other in zip(found.courses[found.setting], usual.courses[usual.setting], strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
    np.testing.assert_allclose(found.test.probability, usual.test.probability, atol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(
    ("kind", "change"), [("modernbert", {"head": "max"}), ("llama", {}), ("bert", {"lora_rank": 4})]
)
def test_a_compiled_training_is_the_same_training(
    kind: str, change: dict[str, Any], specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """Up to rounding, and under the same names of weights."""
    spec = read_without_dropout(specs(kind), tmp_path / "model")
    recipe = dataclasses.replace(TINY, dropout=0.0, precision="float32", epochs=2, **change)
    usual = tune(spec, pattern, recipe, tmp_path / "usual")
    counters.clear()
    found = tune(spec, pattern, dataclasses.replace(recipe, compile=True), tmp_path / "compiled")
    assert counters["stats"]["unique_graphs"]
    for one, other in zip(found.courses[found.setting], usual.courses[usual.setting], strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-3)
    np.testing.assert_allclose(found.test.probability, usual.test.probability, atol=1e-2)
    states = [load_file(one.folder / "model.safetensors") for one in (found, usual)]
    assert states[0].keys() == states[1].keys()


def test_weights_that_do_not_move_may_be_half(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    tuned = tune(specs("llama"), pattern, dataclasses.replace(LORA, weights=BFLOAT16), tmp_path / "half")
    whole = tune(specs("llama"), pattern, LORA, tmp_path / "whole")
    for one, other in zip(tuned.courses[tuned.setting], whole.courses[whole.setting], strict=True):
        assert one.loss == pytest.approx(other.loss, abs=0.05)
    state = AutoModelForSequenceClassification.from_pretrained(tuned.folder, dtype="auto").state_dict()
    assert state["model.embed_tokens.weight"].dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": BFLOAT16}, "small steps vanish in half precision"),
        ({"lora_rank": 4, "frozen": True}, "leave out finetune.frozen"),
        ({"lora_rank": 4, "pointer_epochs": 1}, "leave out finetune.pointer_epochs"),
        ({"fsdp": True}, "give finetune.processes 2 or more"),
        ({"fsdp": True, "processes": 2, "compile": True}, "leave out either"),
    ],
)
def test_what_excludes_each_other_is_one_line(
    change: dict[str, Any], words: str, specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        tune(specs("bert"), pattern, dataclasses.replace(TINY, **change), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("fsdp", [False, True])
@pytest.mark.parametrize("lora", [0, 4])
def test_two_processes_give_the_curve_of_one(
    lora: int, fsdp: bool, specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """Batches of odd sizes among them, so that the two read different numbers of examples."""
    spec = read_without_dropout(specs("bert"), tmp_path / "model")
    recipe = dataclasses.replace(
        TINY, dropout=0.0, precision="float32", epochs=2, batch=7, lora_rank=lora, at_once=3, checkpoint=5
    )
    one = tune(spec, pattern, recipe, tmp_path / "one")
    two = tune(spec, pattern, dataclasses.replace(recipe, processes=2, fsdp=fsdp), tmp_path / "two")
    assert len(one.courses[one.setting]) == len(two.courses[two.setting]) == 2
    for own, other in zip(one.courses[one.setting], two.courses[two.setting], strict=True):
        assert own.loss == pytest.approx(other.loss, abs=1e-5)
        assert own.valid_loss == pytest.approx(other.valid_loss, abs=1e-4)
    np.testing.assert_allclose(one.test.probability, two.test.probability, atol=1e-4)
    assert (two.folder / "head.json").is_file()
    saved = [load_file(found.folder / "model.safetensors") for found in (one, two)]
    assert saved[0].keys() == saved[1].keys()
    for name, weight in saved[0].items():
        torch.testing.assert_close(weight, saved[1][name], atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_a_training_of_shared_weights_goes_on_with_another_number_of_processes(
    specs: Callable[[str], ModelSpec], pattern: TaskData, tmp_path: Path
) -> None:
    """What is written is whole: the first epoch is trained by two, the second by one."""
    spec = read_without_dropout(specs("bert"), tmp_path / "model")
    recipe = dataclasses.replace(TINY, dropout=0.0, precision="float32", epochs=2, batch=6, patience=9)
    whole = tune(spec, pattern, recipe, tmp_path / "whole")
    folder = tmp_path / "stopped"
    shared = dataclasses.replace(recipe, processes=2, fsdp=True)
    steps = -(-len(pattern.train) // 6)

    class StoppedError(Exception):
        pass

    def stop(step: int) -> None:
        if step == steps + 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        tune(spec, pattern, shared, folder, on_step=stop)
    assert (folder / "setting-0" / CHECKPOINT).is_file()
    on = tune(spec, pattern, recipe, folder)
    for own, other in zip(whole.courses[whole.setting], on.courses[on.setting], strict=True):
        assert own.loss == pytest.approx(other.loss, abs=1e-5)
