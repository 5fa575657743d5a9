"""Every model type of the installed transformers: what is read of it is whole, and nothing of it goes unused.

One pass saves and loads a tiny model of each type once, for all that is asked of every type.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

from sonde.base.errors import InputError, SondeError
from sonde.models import ModelSpec, describe_model, load_model
from sonde.models.engine.trial_batches import table_positions

from .test_bodies import BODY, WHOLE, find_faults
from .test_positions import can_read

_OTHER_PURPOSES = (
    *("AutoModelForSequenceClassification", "AutoModelForTokenClassification", "AutoModelForMultipleChoice"),
    *("AutoModelForQuestionAnswering", "AutoModelForPreTraining"),
)
_GROWING = {"m2m_100", "xglm", "tapas"}
"""Types whose tables of positions grow with the text."""


@pytest.mark.slow
def test_every_type_is_read_whole(every_type: Any, tmp_path: Path) -> None:
    wrong: dict[str, list[str]] = {}
    counts = {"loaded": 0, "limited": 0, "bodies": 0, "purposes": 0}
    for model_type, head in every_type.model_types():
        folder = tmp_path / "whole"
        spec = ModelSpec(name=str(folder), device="cpu")
        # What transformers does not build, or sonde does not describe or load: `docs/architectures.md`.
        whole = _try(every_type.save, model_type, head, folder)
        faults: list[str] = []
        if whole is not None and _try(describe_model, spec) is not None:
            faults += _check_purposes(whole.config, folder, tmp_path / "other", counts)
            loaded = _try(load_model, spec)
            if loaded is not None:
                counts["loaded"] += 1
                faults += _check_positions(loaded, model_type, counts)
                tokenizer = every_type.tokenizer(template=head != "causal")
                faults += _check_body(whole, tokenizer, tmp_path / "body", counts)
        shutil.rmtree(folder, ignore_errors=True)
        if faults:
            wrong[f"{model_type}:{head}"] = faults
    assert not wrong
    least = {"loaded": 200, "limited": 50, "bodies": 300, "purposes": 400}
    assert all(counts[name] > least[name] for name in least), counts


def _try(build: Callable[..., Any], *arguments: Any) -> Any:
    """Return what is built, None if it cannot be."""
    try:
        return build(*arguments)
    except Exception:
        return None


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
