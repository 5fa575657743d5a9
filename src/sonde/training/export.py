"""A finished model as a folder: weights, vocabulary, and the full account of what it was trained on."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Int
from transformers import PreTrainedModel

from sonde.base.errors import StoreError
from sonde.base.files import write_atomic
from sonde.training.blocks import BlockDataset, block_start
from sonde.training.card import Account, card
from sonde.training.evaluate import Figures
from sonde.training.packing import Packed
from sonde.training.recipe import Recipe
from sonde.training.vocabulary import with_template

LARGEST = 16_000_000
"""A bundled model's weights travel in the wheel: they may take this many bytes."""


def token_passes(packed: Packed, recipe: Recipe) -> Int[np.ndarray, " token"]:
    """How often each subword of the stream was trained on in a run of the recipe's steps."""
    dataset = BlockDataset(packed.tokens, recipe)
    passes = dataset.course.passes(len(dataset))
    counts = np.zeros(len(packed.tokens) + 1, np.int64)
    for block in np.flatnonzero(passes):
        start = block_start(int(block), len(packed.tokens), dataset.width)
        counts[start] += passes[block]
        counts[min(start + dataset.width, len(packed.tokens))] -= passes[block]
    return counts[:-1].cumsum()


def manifest(packed: Packed, passes: Int[np.ndarray, " token"]) -> pl.DataFrame:
    """One row a file of the training data.

    Returns:
        ``corpus, distribution, path, language, version, licence, hash, bytes, subwords``; ``epochs``: passes
        over the file, as a mean over its subwords; ``seen_in_training``: whether any of it was trained on;
        ``items``.
    """
    sums = np.concatenate([[0], passes.cumsum()])
    documents = packed.documents
    first, tokens = documents["first"].to_numpy(), documents["tokens"].to_numpy()
    epochs = (sums[first + tokens] - sums[first]) / tokens
    return documents.rename({"cluster": "distribution", "tokens": "subwords"}).with_columns(
        pl.Series("epochs", epochs), pl.Series("seen_in_training", epochs > 0)
    )


def subword_counts(packed: Packed, passes: Int[np.ndarray, " token"], size: int) -> Int[np.ndarray, " vocab"]:
    """How often each subword was read in training, repeats counted."""
    return np.bincount(packed.tokens, weights=passes, minlength=size).astype(np.int64)


def seen_items(files: pl.DataFrame) -> pl.DataFrame:
    """Ids (first 16 digits, as numbers) of every file and function trained on, sorted, each once.

    Args:
        files: What `manifest` gave.
    """
    seen = files.filter("seen_in_training")["items"].explode(empty_as_null=True).drop_nulls().unique().sort()
    return pl.DataFrame({"item_hash": seen.cast(pl.UInt64)})


def write_weights(model: PreTrainedModel, packed: Packed, recipe: Recipe, folder: Path) -> None:
    """Write configuration, half-precision weights and vocabulary.

    Raises:
        StoreError: A weight is not finite in half precision, or the disk is full.
    """
    model = model.cpu().half()  # pyright: ignore[reportCallIssue]
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise StoreError(
                f"{name} of {recipe.name} is not finite in half precision; lower the learning rates"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        # safetensors writes for the owner alone, and the mode would travel into the wheel.
        (folder / "model.safetensors").chmod(0o644)
        with_template(packed.vocabulary, recipe.model.role, recipe.model.context).save_pretrained(folder)
    except OSError as error:
        raise StoreError(
            f"cannot write {folder}: {error}; checkpoints are kept, free space and run again"
        ) from error


def write_account(
    packed: Packed, recipe: Recipe, recipe_path: Path, figures: Figures, run: dict[str, Any], folder: Path
) -> None:
    """Write what the model was trained on and what it can do.

    Args:
        packed: The training data.
        recipe: What was trained.
        recipe_path: Its file, copied beside the model.
        figures: What it can do.
        run: Seconds, hardware and versions, from `sonde.training.pretrain`.
        folder: The model's folder.
    """
    passes = token_passes(packed, recipe)
    files = manifest(packed, passes)
    counts = subword_counts(packed, passes, recipe.vocabulary.size)
    _parquet(files.drop("items", "first"), folder / "manifest.parquet")
    _parquet(seen_items(files), folder / "seen.parquet")
    frequencies = pl.DataFrame({"subword_id": np.arange(len(counts), dtype=np.uint16), "count": counts})
    _parquet(frequencies, folder / "frequencies.parquet")
    shutil.copyfile(recipe_path, folder / "recipe.toml")
    account = Account(recipe=recipe, figures=figures, files=files, run=run, parameters=_parameters(folder))
    write_atomic(
        folder / "figures.json", json.dumps({"figures": dataclasses.asdict(figures), "run": run}, indent=1)
    )
    write_atomic(folder / "README.md", card(account))


def _parameters(folder: Path) -> int:
    # Two bytes a weight; the header of safetensors is small and counted in its first eight bytes.
    file = folder / "model.safetensors"
    with file.open("rb") as handle:
        header = int.from_bytes(handle.read(8), "little")
    return (file.stat().st_size - 8 - header) // 2


def _parquet(table: pl.DataFrame, path: Path) -> None:
    try:
        table.write_parquet(path, compression="zstd", compression_level=19)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error}; checkpoints are kept, free space and run again"
        ) from error
