"""A finished model as a folder: weights, vocabulary, and the full account of what it was trained on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Int
from transformers import PreTrainedModel

from sonde.base.errors import StoreError
from sonde.base.files import write_atomic
from sonde.models._headers import read_header
from sonde.models._quiet import quiet
from sonde.training.blocks import BlockDataset
from sonde.training.card import card
from sonde.training.checkpoints import storing
from sonde.training.copies import Copies
from sonde.training.evaluate import Figures
from sonde.training.packing import Packed, subword_type
from sonde.training.pairs import PairDataset
from sonde.training.positions import fill_positions
from sonde.training.recipe import Recipe
from sonde.training.vocabulary import with_template

CURVE = {"step": pl.Int64, "loss": pl.Float64, "rate": pl.Float64}
"""Columns of ``curve.csv``: updates done, mean nats since the row before, learning rate."""

_KEPT = "checkpoints are kept"

LARGEST = 16_000_000
"""A bundled model's weights travel in the wheel: they may take this many bytes."""


def samples_of(packed: Packed, recipe: Recipe) -> BlockDataset | PairDataset:
    """The samples of a run in training order."""
    if packed.pairs is not None:
        return PairDataset(packed.tokens, packed.pairs, recipe)
    return BlockDataset(packed.tokens, recipe)


def token_passes(packed: Packed, recipe: Recipe) -> Int[np.ndarray, " token"]:
    """How often each subword of the stream was trained on in a run of the recipe's steps."""
    return samples_of(packed, recipe).token_passes()


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
    fill_positions(model, recipe.model.context, recipe.training.block)
    model = model.cpu().half()  # pyright: ignore[reportCallIssue]
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise StoreError(
                f"{name} of {recipe.name} is not finite in half precision; lower the learning rates"
            )
    with storing(str(folder), _KEPT), quiet():
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        # safetensors writes for the owner alone, and the mode would travel into the wheel.
        (folder / "model.safetensors").chmod(0o644)
        tokenizer = with_template(
            packed.vocabulary,
            recipe.model.role,
            recipe.model.context,
            segments=recipe.objective == "pairs",
        )
        tokenizer.save_pretrained(folder)


def write_account(
    packed: Packed,
    recipe: Recipe,
    recipe_path: Path,
    figures: Figures,
    copies: Sequence[Copies],
    run: dict[str, Any],
    curve: Iterable[tuple[int, float, float]],
    folder: Path,
) -> None:
    """Write what the model was trained on and what it can do.

    Args:
        packed: The training data.
        recipe: What was trained.
        recipe_path: Its file, copied beside the model.
        figures: What it can do.
        copies: Training files near held-out code.
        run: Seconds, hardware and versions, from `sonde.training.pretrain`.
        curve: The loss curve, with the columns `CURVE`.
        folder: The model's folder.
    """
    passes = token_passes(packed, recipe)
    files = manifest(packed, passes)
    counts = subword_counts(packed, passes, recipe.vocabulary.size)
    _parquet(files.drop("items", "first"), folder / "manifest.parquet")
    _parquet(seen_items(files), folder / "seen.parquet")
    ids = np.arange(len(counts), dtype=subword_type(len(counts)))
    frequencies = pl.DataFrame({"subword_id": ids, "count": counts})
    _parquet(frequencies, folder / "frequencies.parquet")
    write_atomic(folder / "recipe.toml", recipe_path.read_bytes())
    points = pl.DataFrame(list(curve), CURVE, orient="row")
    write_atomic(folder / "curve.csv", points.write_csv())
    write_card(folder, recipe, files, figures, copies, run)


def write_card(
    folder: Path,
    recipe: Recipe,
    files: pl.DataFrame,
    figures: Figures,
    copies: Sequence[Copies],
    run: dict[str, Any],
) -> Path:
    """Write ``figures.json`` and the card beside a model's weights; gives the card."""
    weights = read_header(folder / "model.safetensors", recipe.name)
    # Two bytes a weight.
    parameters = sum(tensor.bytes for tensor in weights.values()) // 2
    held = {
        "figures": dataclasses.asdict(figures),
        "copies": [dataclasses.asdict(one) for one in copies],
        "run": run,
    }
    write_atomic(folder / "figures.json", json.dumps(held, indent=1))
    write_atomic(folder / "README.md", card(recipe, files, figures, copies, run, parameters))
    return folder / "README.md"


def _parquet(table: pl.DataFrame, path: Path) -> None:
    with storing(str(path), _KEPT):
        table.write_parquet(path, compression="zstd", compression_level=19)
