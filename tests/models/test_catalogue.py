"""What is known of published checkpoints: every cell has a source, and lenses take what they can read."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

import pytest

from sonde.experiments.catalogue import list_checkpoints
from sonde.lenses import LENSES
from sonde.models import (
    CELLS,
    Checkpoint,
    ModelSpec,
    bundled_names,
    describe_checkpoint,
    describe_model,
    known_checkpoints,
)
from sonde.models.engine.catalogue import ATTENTION_WEIGHTS, MASKED_HEAD
from sonde.models.engine.family import FAMILIES

PUBLISHED = [one for one in known_checkpoints() if not one.bundled]
PAPERS = r"(INSPECT|CodeSyntax|CuBERT|INK|PERPLEXED), (Table|Section|Appendix) [A-Z0-9][0-9.]*"
SOURCE = re.compile(rf"https://[\w.-]+/\S+|{PAPERS}")
DATE = re.compile(r"20\d\d-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")


def names_for(lens: str) -> set[str]:
    return {one.name for one in list_checkpoints(lens)}


def test_at_least_forty_are_known_and_all_that_the_papers_used() -> None:
    assert len(PUBLISHED) >= 40
    named = {place.partition(",")[0] for one in PUBLISHED for place in one.papers}
    assert named == {"INSPECT", "CodeSyntax", "CuBERT", "INK", "PERPLEXED"}


def test_the_file_says_nothing_that_is_not_read() -> None:
    table = tomllib.loads((files("sonde.models") / "catalogue.toml").read_text(encoding="utf-8"))
    assert {key for row in table.values() for key in row} == {"family", "summary", "lacks", "papers", *CELLS}


@pytest.mark.parametrize("checkpoint", PUBLISHED, ids=lambda one: one.name)
def test_a_cell_has_a_source(checkpoint: Checkpoint) -> None:
    assert checkpoint.family in FAMILIES.names()
    assert set(checkpoint.lacks) <= {MASKED_HEAD, ATTENTION_WEIGHTS}
    for cell in checkpoint.cells.values():
        assert cell.value and SOURCE.fullmatch(cell.source), cell
    assert all(re.fullmatch(PAPERS, place) for place in checkpoint.papers)
    if (cut_off := checkpoint.cells.get("cut_off")) is not None:
        assert DATE.fullmatch(str(cut_off.value))
    if (parameters := checkpoint.cells.get("parameters")) is not None:
        assert isinstance(parameters.value, int) and 10**7 < parameters.value < 10**12


def test_data_has_every_cell_and_the_sources_of_those_that_are_filled() -> None:
    for one in known_checkpoints():
        data = one.data()
        filled = {name for name in CELLS if data[name] is not None}
        assert data["sources"].keys() == filled
        assert data["summary"].startswith(f"{data['family']}: ")


def test_a_lens_is_offered_what_it_can_read() -> None:
    every = {one.name for one in known_checkpoints()}
    assert names_for("probe") == names_for("finetune") == every
    assert every - names_for("attention") == {"state-spaces/mamba-130m-hf"}
    headless = {"microsoft/codebert-base", "microsoft/unixcoder-base", "microsoft/unixcoder-base-unimodal"}
    assert every - names_for("cloze") == every - names_for("surprisal") == headless
    assert {"Qwen/Qwen2.5-Coder-0.5B", "state-spaces/mamba-130m-hf"} <= names_for("prompting")
    assert "answerdotai/ModernBERT-base" not in names_for("prompting")


@pytest.mark.parametrize("name", bundled_names())
def test_what_is_said_of_a_family_is_what_its_configuration_says(name: str) -> None:
    (bundled,) = (one for one in known_checkpoints() if one.name == name)
    real = describe_model(ModelSpec(name=name))
    published = next(one for one in PUBLISHED if one.family == bundled.family and not one.lacks)
    like = describe_checkpoint(published)
    assert (like.kind, like.masks, like.attention) == (real.kind, real.masks, real.attention)
    for lens in LENSES.names():
        refuses = LENSES.load(lens).unsupported_reason
        assert (refuses(like) is None) == (refuses(real) is None)


def test_the_size_of_a_bundled_model_is_counted() -> None:
    from sonde.models import load_model

    name = bundled_names()[0]
    (bundled,) = (one for one in known_checkpoints() if one.name == name)
    weights = {id(one): one.numel() for one in load_model(ModelSpec(name=name)).model.parameters()}
    assert bundled.cells["parameters"].value == sum(weights.values())
