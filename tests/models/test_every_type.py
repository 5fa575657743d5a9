"""Every model type of the installed transformers: what is read of it is whole, and nothing of it goes unused.

One pass saves and loads a tiny model of each type once, for all that is asked of every type.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers

from sonde.base.errors import InputError, SondeError
from sonde.models import ModelSpec, describe_model, load_model
from sonde.models.engine.trial_batches import table_positions

from .test_bodies import BODY, WHOLE, find_faults
from .test_positions import can_read

_PARTS = 4
"""The types are divided, so that several processes share them."""

_OTHER_PURPOSES = (
    *("AutoModelForSequenceClassification", "AutoModelForTokenClassification", "AutoModelForMultipleChoice"),
    *("AutoModelForQuestionAnswering", "AutoModelForPreTraining"),
)
_GROWING = {"m2m_100", "xglm", "tapas"}
"""Types whose tables of positions grow with the text."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_type_is_read_whole(part: int, every_type: Any, tmp_path: Path) -> None:
    wrong: dict[str, list[str]] = {}
    counts = {"loaded": 0, "limited": 0, "bodies": 0, "purposes": 0}
    for model_type, head in every_type.model_types()[part::_PARTS]:
        folder = tmp_path / "whole"
        try:
            whole = every_type.save(model_type, head, folder)
            loaded = load_model(ModelSpec(name=str(folder), device="cpu"))
        except Exception:
            # What transformers does not build, or sonde refuses: `docs/architectures.md`.
            shutil.rmtree(folder, ignore_errors=True)
            continue
        counts["loaded"] += 1
        faults = [
            *_check_positions(loaded, model_type, counts),
            *_check_body(whole, every_type.tokenizer(template=head != "causal"), tmp_path / "body", counts),
            *_check_purposes(whole.config, folder, tmp_path / "other", counts),
        ]
        shutil.rmtree(folder)
        if faults:
            wrong[f"{model_type}:{head}"] = faults
    assert not wrong
    least = {"loaded": 200, "limited": 50, "bodies": 300, "purposes": 400}
    # A quarter of the types has nearly a quarter of what all have.
    assert all(counts[name] > 0.8 * least[name] / _PARTS for name in least), counts


def _check_positions(loaded: Any, model_type: str, counts: dict[str, int]) -> list[str]:
    """No table of a fixed size allows one more: nothing is cut shorter than need be."""
    context, table = loaded.capabilities.context, table_positions(loaded)
    if context > 128:
        return []
    if not can_read(loaded, context):
        return [f"cannot read {context}"]
    if table is None or model_type in _GROWING:
        return []
    counts["limited"] += 1
    return [f"reads more than {context}"] if can_read(loaded, context + 1) else []


def _check_body(whole: Any, tokenizer: Any, folder: Path, counts: dict[str, int]) -> list[str]:
    """A checkpoint of the body alone is read and asked for no subword."""
    if whole.base_model is whole:
        return []
    found: list[str] = []
    for named in (BODY, WHOLE):
        whole.base_model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        try:
            faults = find_faults(folder, whole, named)
        except SondeError as error:
            faults = [str(error)]
        shutil.rmtree(folder)
        counts["bodies"] += 1
        found += [f"{named}: {fault}" for fault in faults]
    return found


def _check_purposes(config: Any, saved: Path, folder: Path, counts: dict[str, int]) -> list[str]:
    """A checkpoint of another purpose has no weight without a place."""
    found: list[str] = []
    for purpose in _OTHER_PURPOSES:
        try:
            made = getattr(transformers, purpose).from_config(config)
            shutil.copytree(saved, folder, ignore=shutil.ignore_patterns("*.safetensors"))
            made.save_pretrained(folder)
        except Exception:
            # A class that the type does not have.
            shutil.rmtree(folder, ignore_errors=True)
            continue
        try:
            describe_model(ModelSpec(name=str(folder), device="cpu"))
        except InputError as error:
            if "has no place" in str(error):
                found.append(f"{purpose}: {error}")
        counts["purposes"] += 1
        shutil.rmtree(folder)
    return found
