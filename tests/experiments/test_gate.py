"""``sonde gate`` on real runs, and inside a training with transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, Trainer, TrainingArguments

import sonde
from sonde.base.errors import InputError, UsageError

from .conftest import CODE, save_tokenizer


def _run(model: Path, project: Path, output: Path) -> Path:
    sonde.run(str(model), f"local:{project}", lens="surprisal", limit=60, output=output, progress=False)
    return output


@pytest.fixture(scope="session")
def reference(decoder: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(decoder, project, tmp_path_factory.mktemp("runs") / "base")


@pytest.fixture(scope="session")
def damaged(decoder: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the decoder with so much noise on its weights that it is worse everywhere."""
    folder = tmp_path_factory.mktemp("models") / "damaged"
    save_tokenizer(folder)
    torch.manual_seed(1)
    model = LlamaForCausalLM.from_pretrained(decoder)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(folder)
    return _run(folder, project, tmp_path_factory.mktemp("runs") / "damaged")


@pytest.mark.slow
def test_looks_are_counted_in_the_state_and_a_checkpoint_once(
    reference: Path, damaged: Path, tmp_path: Path
) -> None:
    state = tmp_path / "gate.json"
    same = sonde.gate(reference, reference, looks=10, state=state)
    assert (same.verdict, len(same.state.looks)) == ("pass", 1)
    worse = sonde.gate(reference, damaged, state=state)
    assert worse.verdict == "fail" and "not accepted" in "\n".join(worse.lines())
    rows = worse.numbers
    numbers = sonde.compare(reference, damaged, output=tmp_path / "compared").differences
    assert rows["difference"][0] == pytest.approx(numbers["difference"][0])
    assert (rows["spent_low"] < rows["ci_low"]).all() and (rows["level"] == 0.05 / 10 / rows.height).all()
    # The same again is no new look, and nothing of it was accepted.
    again = sonde.gate(reference, damaged, state=state)
    assert again.looks == worse.looks and len(json.loads(state.read_text())["looks"]) == 2
    assert {number.checkpoint for number in again.state.accepted} == {"base"}
    accepted = sonde.gate(reference, damaged, state=state, accept=True)
    assert {number.checkpoint for number in accepted.state.accepted} == {"damaged"}
    with pytest.raises(UsageError, match="begun with 10 looks, not 20"):
        sonde.gate(reference, damaged, looks=20, state=state)
    with pytest.raises(UsageError, match="another reference"):
        sonde.gate(damaged, reference, state=state)
    state.write_text("{}")
    with pytest.raises(InputError, match="no state of a gate"):
        sonde.gate(reference, damaged, state=state)


@pytest.mark.slow
def test_the_command_ends_with_1_on_a_loss(reference: Path, damaged: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sonde", "gate", str(reference), str(damaged), "--json"]
    done = subprocess.run([*command, "--state", str(tmp_path / "s.json")], capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "fail"


class _Texts(Dataset[dict[str, list[int]]]):
    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.ids = tokenizer(CODE)["input_ids"][:48]

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self.ids, "labels": self.ids}


def _train(
    decoder: Path, output: Path, *callbacks: sonde.GateCallback, rate: float = 1e-3
) -> LlamaForCausalLM:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(decoder)
    model = LlamaForCausalLM.from_pretrained(decoder)
    arguments = TrainingArguments(
        str(output), max_steps=4, save_steps=2, per_device_train_batch_size=4, learning_rate=rate,
        report_to=[], use_cpu=True, seed=0, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=_Texts(tokenizer),
        processing_class=tokenizer,
        callbacks=[*callbacks],
    )
    trainer.train()
    return model


@pytest.mark.slow
def test_a_training_with_a_gate_is_the_same_training(
    decoder: Path, project: Path, reference: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    gate = sonde.GateCallback(reference, share=1e6, report=lines.append)
    gated = _train(decoder, tmp_path / "gated", gate)
    plain = _train(decoder, tmp_path / "plain")
    for first, second in zip(gated.parameters(), plain.parameters(), strict=True):
        assert torch.equal(first, second)
    assert [look.checkpoint for look in gate.looks] == ["step 2", "step 4"], lines
    # The numbers of the model in memory are those of a run of what was saved.
    run = _run(tmp_path / "gated" / "checkpoint-2", project, tmp_path / "step2")
    report = sonde.gate(reference, run, state=tmp_path / "alone.json")
    stored = json.loads((tmp_path / "gated" / "sonde-gate.json").read_text())
    verdicts = [(look["verdict"], look["tests"]) for look in stored["looks"]]
    assert verdicts[0] == (report.verdict, report.looks[0].tests)
    first, again = stored["looks"][0]["findings"], report.looks[0].findings
    assert [number["difference"] for number in first] == pytest.approx(
        [number.difference for number in again], abs=1e-5
    )


@pytest.mark.slow
def test_a_loss_stops_the_training_where_that_is_wanted(
    decoder: Path, reference: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    gate = sonde.GateCallback(reference, share=1e6, stop=True, report=lines.append)
    _train(decoder, tmp_path / "stopped", gate, rate=1.0)
    assert [look.verdict for look in gate.looks] == ["fail"], lines


@pytest.mark.slow
def test_without_time_a_look_is_skipped_and_says_so(decoder: Path, reference: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    gate = sonde.GateCallback(reference, report=lines.append)
    _train(decoder, tmp_path / "short", gate)
    assert (gate.looks, gate.skipped) == ([], 2)
    assert "look at step 2 skipped" in lines[0] and "0 looks, 2 skipped" in lines[-1]
