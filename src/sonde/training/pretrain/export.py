"""Export of a finished model as a folder: weights, vocabulary, training record and model card.

The record is the full account of what the model was trained on. Code writes the card from what was measured.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Int
from jinja2 import Environment, PackageLoader, StrictUndefined
from transformers import PreTrainedModel

from sonde.base.errors import StoreError
from sonde.base.files import write_atomic
from sonde.languages import format_language
from sonde.models import bundled_names
from sonde.models.engine.files import read_header
from sonde.models.engine.silence import silence_libraries
from sonde.training.pretrain.blocks import BlockDataset, PairDataset
from sonde.training.pretrain.checkpoints import report_full_disk
from sonde.training.pretrain.documents import MIN_TOKENS, THRESHOLD, ContaminatedFile
from sonde.training.pretrain.evaluate import MASKED_SHARE, EvaluationResult
from sonde.training.pretrain.initial_weights import fill_positions
from sonde.training.pretrain.packing import PackedData, subword_type
from sonde.training.pretrain.recipe import Recipe
from sonde.training.pretrain.vocabulary import with_template

_LARGEST = 12


def render_card(
    recipe: Recipe,
    files: pl.DataFrame,
    figures: EvaluationResult,
    copies: Sequence[ContaminatedFile],
    run: dict[str, Any],
    parameters: int,
) -> str:
    """The card as Markdown; the text is in ``card.md.jinja``.

    Args:
        recipe: What was trained.
        files: What it was trained on, from `sonde.training.pretrain.export.build_manifest`.
        figures: What it can do.
        copies: Those files that are near held-out code.
        run: ``seconds`` of training, ``hardware``, ``versions`` of libraries, ``loss`` of the last updates.
        parameters: Number of weights.
    """
    environment = Environment(
        loader=PackageLoader("sonde.training", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        # Markdown, made from a recipe and from the metadata of what is installed; never served as HTML.
        autoescape=False,
    )
    return environment.get_template("card.md.jinja").render(
        recipe=recipe,
        model=recipe.model,
        training=recipe.training,
        optimiser=recipe.optimiser,
        decoder=recipe.model.role == "decoder",
        figures=figures,
        run=run,
        parameters=parameters,
        corpora=_summarise_corpora(files),
        copies=copies,
        near=THRESHOLD,
        read=_count_tokens_read(recipe, files),
        pairs=recipe.pairs if recipe.objective == "pairs" else None,
        languages=_list_languages(recipe, frozenset()),
        unmeasured=_list_languages(recipe, {one.language for one in figures.languages}),
        bundled=f"sonde/{recipe.name}" in bundled_names(),
        masked_share=MASKED_SHARE,
        min_tokens=MIN_TOKENS,
    )


def _list_languages(recipe: Recipe, without: Set[str]) -> str:
    """The languages of the training data in words, but for some."""
    names = dict.fromkeys(corpus.language for corpus in recipe.data.corpora)
    *most, last = ["", *(format_language(name) for name in names if name not in without)]
    return f"{', '.join(most[1:])} and {last}" if most[1:] else last


def _count_tokens_read(recipe: Recipe, files: pl.DataFrame) -> float:
    """Subwords read in training; pairs are of different lengths, blocks are not."""
    if recipe.objective == "pairs":
        return float((files["subwords"] * files["epochs"]).sum())
    return recipe.training.steps * recipe.training.blocks_per_step * recipe.training.block


def _summarise_corpora(files: pl.DataFrame) -> list[dict[str, Any]]:
    """What was read of each corpus: totals, licences by size, largest distributions."""
    seen = files.filter("seen_in_training").with_columns(read=pl.col("subwords") * pl.col("epochs"))
    read = float(seen["read"].sum())
    found: list[dict[str, Any]] = []
    for (name,), part in seen.sort("corpus", "path").group_by("corpus", maintain_order=True):
        licences = part.group_by("licence").agg(pl.col("bytes").sum())
        clusters = part.group_by("distribution", "version").agg(pl.col("bytes").sum())
        largest = clusters.sort(["bytes", "distribution"], descending=[True, False])
        found.append(
            {
                "name": name,
                "files": len(part),
                "bytes": int(part["bytes"].sum()),
                "clusters": len(clusters),
                "share": float(part["read"].sum()) / read,
                "licences": licences.sort(["bytes", "licence"], descending=[True, False]).rows(),
                "largest": largest.head(_LARGEST).to_dicts(),
            }
        )
    return found


CURVE = {"step": pl.Int64, "loss": pl.Float64, "rate": pl.Float64}
"""Columns of ``curve.csv``: updates done, mean nats since the row before, learning rate."""


_KEPT = "checkpoints are kept"


LARGEST = 16_000_000
"""A bundled model's weights travel in the wheel: they may take this many bytes."""


def build_dataset(packed: PackedData, recipe: Recipe) -> BlockDataset | PairDataset:
    """The samples of a run in training order."""
    if packed.pairs is not None:
        return PairDataset(packed.tokens, packed.pairs, recipe)
    return BlockDataset(packed.tokens, recipe)


def count_token_passes(packed: PackedData, recipe: Recipe) -> Int[np.ndarray, " token"]:
    """How often each subword of the stream was trained on in a run of the recipe's steps."""
    return build_dataset(packed, recipe).token_passes()


def build_manifest(packed: PackedData, passes: Int[np.ndarray, " token"]) -> pl.DataFrame:
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


def count_subwords(
    packed: PackedData, passes: Int[np.ndarray, " token"], size: int
) -> Int[np.ndarray, " vocab"]:
    """How often each subword was read in training, repeats counted."""
    return np.bincount(packed.tokens, weights=passes, minlength=size).astype(np.int64)


def list_item_ids(files: pl.DataFrame) -> pl.DataFrame:
    """Ids (first 16 digits, as numbers) of every file and function trained on, sorted, each once.

    Args:
        files: What `build_manifest` gave.
    """
    seen = files.filter("seen_in_training")["items"].explode(empty_as_null=True).drop_nulls().unique().sort()
    return pl.DataFrame({"item_hash": seen.cast(pl.UInt64)})


def write_weights(model: PreTrainedModel, packed: PackedData, recipe: Recipe, folder: Path) -> None:
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
    with report_full_disk(str(folder), _KEPT), silence_libraries():
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


def write_training_record(
    packed: PackedData,
    recipe: Recipe,
    recipe_path: Path,
    figures: EvaluationResult,
    copies: Sequence[ContaminatedFile],
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
        run: Seconds, hardware and versions, from `sonde.training.pretrain.pretrain`.
        curve: The loss curve, with the columns `CURVE`.
        folder: The model's folder.
    """
    passes = count_token_passes(packed, recipe)
    files = build_manifest(packed, passes)
    counts = count_subwords(packed, passes, recipe.vocabulary.size)
    _parquet(files.drop("items", "first"), folder / "manifest.parquet")
    _parquet(list_item_ids(files), folder / "seen.parquet")
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
    figures: EvaluationResult,
    copies: Sequence[ContaminatedFile],
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
    write_atomic(folder / "README.md", render_card(recipe, files, figures, copies, run, parameters))
    return folder / "README.md"


def _parquet(table: pl.DataFrame, path: Path) -> None:
    with report_full_disk(str(path), _KEPT):
        table.write_parquet(path, compression="zstd", compression_level=19)
