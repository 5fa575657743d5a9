"""Checkpoints of pre-training: which of them is whole, what they belong to, what happens on a full disk."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from sonde.base.errors import InputError, StoreError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint
from sonde.training.pretrain.recipe import Recipe

_CLOCK, _BELONGS = "clock.json", "belongs.json"


_UNWRITABLE = frozenset((errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM))


_FULL = ("PytorchStreamWriter", "iostream error", "No space left", "File too large", "Disk quota")


def mark_complete(folder: Path, step: int, seconds: float) -> None:
    """Say that the checkpoint of an update is whole; until then it does not count.

    Args:
        folder: Where checkpoints go.
        step: The update.
        seconds: Time spent in the loop so far.
    """
    write_atomic(folder / _CLOCK, json.dumps({"step": step, "seconds": seconds}))


def find_last_checkpoint(folder: Path) -> tuple[Path, float] | None:
    """The last checkpoint that was written to its end, and the seconds in the loop until then."""
    try:
        clock = json.loads((folder / _CLOCK).read_text())
    except FileNotFoundError:
        return None
    found = folder / f"{PREFIX_CHECKPOINT_DIR}-{int(clock['step'])}"
    return (found, float(clock["seconds"])) if found.is_dir() else None


def clear_checkpoints(folder: Path, *, but: Path | None) -> None:
    """Delete checkpoints that a kill left unfinished, or that a fresh start does away with.

    Args:
        folder: Where checkpoints go.
        but: The one that training goes on from; those before it stay too.
    """
    keep = -1 if but is None else _step_number(but)
    for found in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if but is None or _step_number(found) > keep:
            shutil.rmtree(found)
    if but is None:
        (folder / _CLOCK).unlink(missing_ok=True)


def _step_number(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def claim_folder(folder: Path, recipe: Recipe, last: Path | None) -> None:
    """Note what the checkpoints of a folder belong to, and hold an earlier note against the recipe.

    Steps, rates and schedule may change between two starts; what the weights or the order of the samples
    depend on may not.

    Args:
        folder: Where checkpoints go.
        recipe: What is trained.
        last: The checkpoint to go on from; without one there is nothing to hold against.

    Raises:
        InputError: The checkpoint is of another architecture, of other data or of another order.
        StoreError: The note cannot be written.
    """
    path = folder / _BELONGS
    own = _recipe_keys(recipe)
    if last is not None and path.is_file():
        noted: dict[str, Any] = json.loads(path.read_text())
        for what, key in own.items():
            if noted.get(what) != key:
                raise InputError(
                    f"checkpoint {last} is of another {what}; delete {folder} or rename the recipe"
                )
    write_atomic(path, json.dumps(own))


def _recipe_keys(recipe: Recipe) -> dict[str, str]:
    training = recipe.training
    return {
        "architecture": fingerprint(recipe.model, recipe.objective, recipe.vocabulary.size),
        "data set or vocabulary": fingerprint(recipe.data, recipe.vocabulary),
        "optimiser": recipe.optimiser.hidden,
        "order of samples (seed, block, blocks_per_step, masked or [pairs])": fingerprint(
            recipe.seed, training.block, training.blocks_per_step, training.masked, recipe.pairs
        ),
    }


@contextmanager
def report_full_disk(what: str, kept: str) -> Generator[None]:
    """Turn the many errors of a full disk into one line.

    Args:
        what: What cannot be written.
        kept: What is not lost by it.

    Raises:
        StoreError: A file could not be written.
    """
    try:
        yield
    except Exception as error:
        # PyTorch, safetensors and tokenizers each have an error of their own for it.
        line = " ".join(str(error).split())
        unwritable = isinstance(error, OSError) and error.errno in _UNWRITABLE
        if not unwritable and not any(word in line for word in _FULL):
            raise
        raise StoreError(f"cannot write {what}: {line[:200]}; {kept}, free space and run again") from error
