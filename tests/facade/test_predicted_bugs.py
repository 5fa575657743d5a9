"""Planted bugs in a file of one's own: found by models fine-tuned here, with place and repair, as SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from jsonschema import Draft7Validator
from typer.testing import CliRunner

import sonde
from sonde.api.predict import predict_with_model
from sonde.api.predictions import FORMS, Predictions, SourceLocation
from sonde.base.errors import InputError
from sonde.cli.commands import app
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.lenses.finetune.data import find_difference
from sonde.models import ModelSpec
from sonde.tasks.engine.bugs import BugTask, RandomChoice, find_pointers
from sonde.tasks.engine.task import TASKS
from sonde.training.finetune.data import Sample, TaskData
from sonde.training.finetune.predict import FineTuned, Prediction
from sonde.training.finetune.recipe import MAX, POOLED, FinetuneRecipe
from sonde.training.finetune.tune import tune
from tests.lenses.test_finetune import save_encoder

NAMES = ("move", "keep")
OWN = '''"""A file of one's own."""


class Shelf:
    @staticmethod
    def move(source, target):
        for item in source:
            target.append(target)
        return target

    @staticmethod
    def keep(source, target):
        for item in source:
            target.append(item)
        return target
'''
SCHEMA = json.loads((Path(__file__).parent / "sarif.schema.json").read_text(encoding="utf-8"))


def function(number: int) -> str:
    # Methods keep the indentation of their class.
    method = number // len(NAMES) % 2
    blank = "    " * (1 + method)
    body = f"{blank}for item in source:\n    {blank}target.append(item)\n{blank}return target"
    return "@staticmethod\n" * method + f"def {NAMES[number % len(NAMES)]}(source, target):\n{body}"


def samples(task: str, size: int, first: int) -> list[Sample]:
    """Functions as written and with a variable of the wrong name, as the task makes them."""
    bugs = get_facet("python", "misuse", BugSites)
    made = TASKS.load(task)
    assert isinstance(made, BugTask)
    found: list[Sample] = []
    for number in range(first, first + size // 2):
        both = made.variants(function(number), bugs, RandomChoice(number))
        stretches = find_difference(both[0].text, both[1].text)
        for target, (one, evidence) in enumerate(zip(both, stretches, strict=True)):
            sample = Sample(f"{number}-{target}", one.text, target, evidence=evidence, group=str(number))
            if task == "misuse_repair":
                error = (one.start, one.end or 0)
                repair = None if one.other_start is None else (one.other_start, one.other_end or 0)
                where = find_pointers(one.text, "python", error, repair)
                sample = Sample(
                    sample.name, one.text, target, None, where.candidates, where.error, where.targets
                )
            found.append(sample)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The folder of a model that was fine-tuned on a task, by the head."""
    root = tmp_path_factory.mktemp("bugs")
    spec = ModelSpec(name=str(save_encoder(root / "encoder", [function(0)])), device="cpu")
    held: dict[tuple[str, str], Path] = {}

    def folder(task: str, head: str) -> Path:
        if (task, head) not in held:
            sizes = ((240, 0), (60, 1000), (60, 2000))
            data = TaskData(("Correct", "Variable misuse"), *(samples(task, *size) for size in sizes))
            recipe = FinetuneRecipe(length=96, epochs=30, batch=16, rates=(1e-3,), head=head, patience=30)
            about = {"task": task, "language": "python", "base": "encoder", "method": "pretrained", "seed": 0}
            tuned = tune(spec, data, recipe, root / f"{task}-{head}", metadata=about)
            assert tuned.test.share > 0.85
            held[task, head] = tuned.folder
        return held[task, head]

    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "shelf.py"
    path.write_text(OWN, encoding="utf-8")
    return path


WAYS = [("variable_misuse", POOLED), ("variable_misuse", MAX), ("misuse_repair", POOLED)]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "head"), WAYS)
def test_a_planted_misuse_is_found_with_its_place_and_repair(
    task: str, head: str, trained: Callable[[str, str], Path], own: Path
) -> None:
    found = predict_with_model(trained(task, head), [own])
    wrong, right = found.functions
    assert wrong.has_bug and wrong.chances[wrong.label] > 0.5
    # The argument, in the file and not in the function that was cut out of it.
    assert wrong.spot == SourceLocation(8, 27, 8, 33, "target")
    assert wrong.repair == "item"
    assert not right.has_bug and right.spot is None and right.repair is None


@pytest.mark.slow
@pytest.mark.parametrize(("task", "head"), WAYS)
def test_code_scanning_reads_it(task: str, head: str, trained: Callable[[str, str], Path], own: Path) -> None:
    log = json.loads(FORMS["sarif"](predict_with_model(trained(task, head), [own])))
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(log)] == []
    (run,) = log["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] == "warning"
    assert fixed(OWN, result) == OWN.replace("append(target)", "append(item)")


def test_the_end_of_a_long_function_is_skipped_and_not_the_function(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LongFunctionsCut:
        facts = SimpleNamespace(recipe=FinetuneRecipe(length=128))
        classes = ("a", "b")

        def tell(self, texts: list[str]) -> list[Prediction]:
            return [Prediction("a", {"a": 0.7, "b": 0.3}, None, None, cut=True) for _ in texts]

    facts = {"task": "own", "language": "python", "accuracy": None}
    monkeypatch.setattr("sonde.api.predict._describe_model", Mock(return_value=facts))
    monkeypatch.setattr(FineTuned, "from_pretrained", Mock(return_value=LongFunctionsCut()))
    found = predict_with_model(own.parent, [own])
    assert len(found.functions) == 2
    assert found.skipped == ("the end of 2 functions, after the first 128 subwords",)


def fixed(text: str, result: dict[str, Any]) -> str:
    """A file with the proposed edit, as SARIF says it: lines and columns from 1, the end exclusive."""
    ((change,),) = [fix["artifactChanges"] for fix in result["fixes"]]
    (edit,) = change["replacements"]
    lines = text.splitlines(keepends=True)
    region = edit["deletedRegion"]
    at, to = (
        sum(map(len, lines[: region[f"{end}Line"] - 1])) + region[f"{end}Column"] - 1
        for end in ("start", "end")
    )
    return text[:at] + edit["insertedContent"]["text"] + text[to:]


@pytest.mark.slow
def test_text_and_json_say_the_same(trained: Callable[[str, str], Path], own: Path) -> None:
    folder = trained("variable_misuse", MAX)
    found = predict_with_model(folder, [own])
    said = CliRunner().invoke(app, ["predict", str(folder), str(own)])
    assert said.exit_code == 0
    first, second, *_ = said.stdout.splitlines()
    assert first.endswith("8:27 `target` -> `item`") and "Variable misuse" in first
    assert "Correct" in second and "->" not in second
    held = json.loads(FORMS["json"](found))["functions"]
    assert [one["bug"] for one in held] == [True, False]
    assert held[0]["place"]["column"] == 27 and held[0]["repair"] == "item"
    assert (held[1]["place"], held[1]["repair"]) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "head"), WAYS)
def test_a_model_is_read_and_saved_with_its_head(
    task: str, head: str, trained: Callable[[str, str], Path], tmp_path: Path
) -> None:
    kinds = dict(zip(WAYS, ("ClassHead", "TokenHead", "PointerHead"), strict=True))
    model = sonde.FineTuned.from_pretrained(trained(task, head), "cpu")
    assert type(model.model.head).__name__ == model.facts.kind == kinds[task, head]
    texts = [function(7), function(8).replace("return target", "return source")]
    told = model.tell(texts)
    model.save_pretrained(tmp_path / "again")
    again = FineTuned.from_pretrained(tmp_path / "again", "cpu")
    assert again.tell(texts) == told


@pytest.mark.parametrize("text", ["f(a)\n", "def f(a, b):\n    return a is b and not a - b < a\n"])
@pytest.mark.parametrize("task", ["variable_misuse", "wrong_operator", "swapped_operand"])
def test_edits_undo_what_the_task_does(task: str, text: str) -> None:
    """Whatever bug a task puts in, one of the edits gives the function back, and all of them parse."""
    made = TASKS.load(task)
    assert isinstance(made, BugTask)
    bugs = get_facet("python", made.facet, BugSites)
    tried = 0
    for number in range(12):
        both = made.variants(text, bugs, RandomChoice(number))
        if not both:
            assert not list(made.repair_edits(text, bugs))
            continue
        edits = list(made.repair_edits(both[1].text, bugs))
        # Blanks that an operator of letters asked for stay.
        wanted = "".join(both[0].text.split())
        assert wanted in {"".join(edit.made_in(both[1].text).split()) for edit in edits}
        assert all(bugs.parses(edit.made_in(both[1].text)) for edit in edits)
        tried += 1
    assert tried == (12 if "def" in text else 0)


def test_places_in_a_method_are_those_of_its_file() -> None:
    (first, second) = LANGUAGES.load("python").functions(OWN)
    for one in (first, second):
        alone = one.slice_from(OWN)
        for place, character in enumerate(alone):
            assert OWN[one.to_file_position(place)] == character
            assert one.to_function_position(one.to_file_position(place)) == place


def test_no_bug_is_no_result() -> None:
    """A log without results is a log: code scanning closes what it had reported before."""
    from sonde.api.predictions import FunctionPrediction, ScoredProbe

    probe = ScoredProbe("m", "wrong_operator", "python", None, "auto", 1, None, None)
    clean = FunctionPrediction("a.py", 1, 2, "f", "Correct", {"Correct": 0.9, "Wrong": 0.1}, clean="Correct")
    log = json.loads(FORMS["sarif"](Predictions((probe,), (clean,), ())))
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(log)] == []
    assert log["runs"][0]["results"] == []
    assert np.isclose(clean.chances["Correct"], 0.9)


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its head cannot be read"):
        FineTuned.from_pretrained(tmp_path)
    (tmp_path / "baseline.json").write_text("{}")
    with pytest.raises(InputError, match="is a baseline"):
        FineTuned.from_pretrained(tmp_path)
