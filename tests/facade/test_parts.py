"""Labels, token tables and models without a run: as the command line gives them, in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import sonde
from sonde.api.predictions import read_functions
from sonde.base.errors import InputError, UnknownNameError
from sonde.capture import HiddenStates, Pass, Plain, TokenScores
from sonde.corpora import Selection, select
from sonde.experiments.label_files import LabelOptions
from tests.label_files import write_label_file


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("def f(x):\n    if x:\n        return g(x) + 1\n    return 0\n")
    (folder / "b.py").write_text("def h(y):\n    return y.strip()\n")
    return folder


@pytest.mark.parametrize("task", ["cpx", "call_origin", "program_tokens"])
def test_labels_are_the_lines_of_the_file(task: str, code: Path, tmp_path: Path) -> None:
    corpus = f"local:{code}"
    frame = sonde.label(task, corpus, raw=True)
    write_label_file(LabelOptions(task=task, corpora=(corpus,), raw=True), tmp_path / "labels.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert lines
    assert frame.to_dicts() == lines


def test_a_data_set_has_its_splits_and_is_written_where_asked(library: Path, tmp_path: Path) -> None:
    output = tmp_path / "labels.jsonl"
    frame = sonde.label("jft", [f"local:{library}"], limit=40, output=output)
    assert {"id", "path", "name", "line", "label", "value", "split", "text"} <= set(frame.columns)
    assert {"train", "test"} <= set(frame["split"])
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == frame["id"].to_list()


def test_a_published_format_is_written_as_well(code: Path, tmp_path: Path) -> None:
    output = tmp_path / "cpx.tsv"
    frame = sonde.label("cpx", f"local:{code}", raw=True, output=output, format="inspect")
    assert len(output.read_text().splitlines()) == len(frame) == 2


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'call_origin'"):
        sonde.label("call_orign", "stdlib")


def test_a_text_and_its_file_have_one_token_table(code: Path, decoder: Path) -> None:
    file = code / "a.py"
    of_text = sonde.align(str(decoder), file.read_text(), language="python")
    assert of_text.equals(sonde.align(str(decoder), file))
    assert "if_statement" in set(of_text["parent"]) | set(of_text["node"])
    prose = sonde.align(str(decoder), file.read_text())
    assert "if_statement" not in set(prose["parent"]) | set(prose["node"])
    with pytest.raises(InputError, match="no such file"):
        sonde.align(str(decoder), code / "nowhere.py")


def test_a_loaded_model_is_observed_as_transformers_runs_it(code: Path, decoder: Path) -> None:
    model = sonde.load_model(str(decoder), device="cpu", dtype="float32")
    items = select(f"local:{code}", Selection()).items
    wanted = [Pass(Plain(), (HiddenStates(pooling=("mean",)), TokenScores()))]
    prepared = sonde.capture.prepare(model, items)
    for item, captured in zip(items, sonde.capture.observe(model, prepared, wanted), strict=True):
        ids = model.tokenizer(item.text, add_special_tokens=False)["input_ids"]
        read = torch.tensor([[model.special.bos, *ids]])
        with torch.no_grad():
            made = model.model(read, output_hidden_states=True)
        expected = torch.stack(made.hidden_states)[:, 0, 1:].mean(dim=1).numpy()
        assert captured.states["mean"] == pytest.approx(expected, abs=1e-5)
        losses = -made.logits[0, :-1].log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        assert captured.scores is not None
        assert captured.scores.nats == pytest.approx(losses.numpy(), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.py", "def f(a):\n    return a\n\ndef g(a:\n  return 1\n", 4),
        ("A.java", "class C {\n int f() { return 1; }\n int g( { return 2; }\n}\n", 3),
        ("a.go", "package p\n\nfunc f() {}\n\nfunc g( {}\n", 5),
        ("a.js", "function f() {}\nfunction g( { return }\n", 2),
        ("a.php", "<?php\nfunction f() {}\nfunction g( { return 1; }\n", 3),
        ("a.rb", "def f\n  1\nend\n\nx = [1, (]\n", 5),
    ],
)
def test_new_files_say_where_they_do_not_parse(tmp_path: Path, name: str, text: str, line: int) -> None:
    file, skipped = tmp_path / name, list[str]()
    file.write_text(text)
    found = read_functions([file], skipped)
    assert "f" in {function.item.name.rpartition(".")[2] for function in found}
    assert skipped == [f"{file}: line {line} does not parse; functions there may be missing"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_of_new_files_end_as_in_every_system(tmp_path: Path, end: str) -> None:
    file = tmp_path / "a.py"
    file.write_bytes("a = 1\n\ndef f(x):\n    y = x\n    return y\n".replace("\n", end).encode())
    (function,) = read_functions([file], [])
    at = function.item.text.index("return")
    place = function.spot(at, at + len("return"))
    assert (function.line, function.end_line, place.line, place.column) == (3, 5, 5, 5)
