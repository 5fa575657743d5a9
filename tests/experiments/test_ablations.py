"""The experiment files of the ablations: each can be run as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from sonde.experiments import load_experiment
from sonde.experiments.experiment import get_lens_settings
from sonde.experiments.resolve import resolve_lenses
from sonde.lenses import load_training_lens
from sonde.lenses.finetune.options import variants
from sonde.models import ModelSpec, describe_model

FOLDER = Path(__file__).parents[2] / "recipes" / "ablations"
FILES = sorted(FOLDER.glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_can_be_run_as_it_stands(path: Path) -> None:
    experiment = load_experiment(path)
    (choice,) = resolve_lenses(experiment)
    settings = get_lens_settings(choice)
    methods = load_training_lens("finetune").methods(choice.tasks, settings)
    assert {method.task for method in methods} == set(experiment.tasks)
    swept = variants(settings)
    # Whatever is trained takes part in every value that it knows of.
    assert len(methods) >= len(choice.tasks) * len(swept)
    longest = max(int(one.options.get("length", settings.options.get("length", 128))) for one in swept)
    if any(method.name == "pretrained" for method in methods):
        assert longest <= min(describe_model(ModelSpec(name=name)).context for name in experiment.models)


def test_what_a_baseline_does_not_know_trains_it_once() -> None:
    (choice,) = resolve_lenses(load_experiment(FOLDER / "epochs.toml"))
    methods = load_training_lens("finetune").methods(choice.tasks, get_lens_settings(choice))
    mine = [method for method in methods if method.task == "variable_misuse"]
    assert [method.variant for method in mine if method.name == "pretrained"] == [
        "epochs=2",
        "epochs=10",
        "epochs=20",
    ]
    assert [method.variant for method in mine if method.name == "word2vec_cbow_ns"] == [""]
    assert [method.variant for method in mine if method.name == "bag_of_tokens"] == [""]


def test_every_file_is_in_the_readme() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(FILES) >= 6
    assert [path.name for path in FILES if f"`{path.name}`" not in text] == []
    assert (FOLDER.parent / "README.md").is_file()
