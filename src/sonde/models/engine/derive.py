"""Checkpoints derived from another to compare with it: 8-bit or random weights.

`save_model` saves as transformers does, but omits a head that the model's files never held.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, StoreError, UnknownNameError, UsageError
from sonde.models.engine.checks import head_weights
from sonde.models.engine.family import LoadedModel, ModelSpec
from sonde.models.engine.files import small_files
from sonde.models.engine.load import load_model
from sonde.models.engine.locate import locate_model
from sonde.models.engine.silence import silence_libraries


def save_model(loaded: LoadedModel, folder: Path) -> None:
    """Write the weights and configuration of a model; a head of random weights is left out.

    Raises:
        OSError: The folder cannot be written.
    """
    model = loaded.model
    kept = None
    if not loaded.capabilities.head:
        absent = head_weights(model, ())
        kept = {name: weight for name, weight in model.state_dict().items() if name not in absent}
    with silence_libraries():
        model.save_pretrained(folder, state_dict=kept)


WEIGHTS = ("int8", "random")
"""``int8``: every matrix rounded row by row to 255 steps (symmetric, by the row's largest weight), written as
float32, so that rounding is all that changes; ``random``: drawn anew, as the architecture begins."""


_STEPS = 127


def derive_checkpoint(name: str, target: Path, weights: str, *, seed: int = 0) -> Path:
    """Write a checkpoint with derived weights, its tokenizer and other files beside them.

    Args:
        name: A folder, a hub name or a bundled name.
        target: The new folder.
        weights: One of `WEIGHTS`.
        seed: Of random weights.

    Returns:
        ``target``.

    Raises:
        UnknownNameError: No such weights, or no model has this name.
        UsageError: The folder is not empty, or the model is no folder.
        InputError: The model cannot be read.
        StoreError: The folder cannot be written.
    """
    if weights not in WEIGHTS:
        raise UnknownNameError("weights", weights, WEIGHTS)
    place = locate_model(ModelSpec(name=name))
    if not place.local:
        raise UsageError(f"model {name!r}: only weights of a folder are derived; download it first")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"folder {str(target)!r} is not empty; name a new one")
    spec = ModelSpec(
        name=name, device="cpu", dtype="float32", reinitialise=seed if weights == "random" else None
    )
    loaded = load_model(spec)
    if weights == "int8":
        _round(loaded.model)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".deriving-") as temporary:
            made = Path(temporary) / "model"
            save_model(loaded, made)
            for path in small_files(Path(place.name)):
                if not (made / path.name).exists():
                    shutil.copyfile(path, made / path.name)
            with contextlib.suppress(OSError):
                target.rmdir()
            made.replace(target)
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error.strerror or error}; free space and run again"
        ) from error
    return target


def _round(model: Any) -> None:
    """Round every matrix in place, one that several layers share once."""
    import torch

    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim != 2:
                continue
            step = weight.abs().amax(dim=1, keepdim=True) / _STEPS
            if not torch.isfinite(step).all():
                raise InputError("weights are infinite or no numbers; they cannot be rounded")
            weight.copy_(torch.where(step > 0, (weight / step).round() * step, weight))
