"""Pre-training by a recipe: vocabulary, data, training, and the finished model with figures and card.

The finished model is a folder with weights, vocabulary, and the full account of what it was trained on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from accelerate import PartialState
from jaxtyping import Bool, Int
from jinja2 import Environment, PackageLoader, StrictUndefined
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from sonde.base.errors import InputError, StoreError
from sonde.base.files import report_full_disk, write_atomic
from sonde.corpora.engine.ngram import NGram
from sonde.languages import format_language
from sonde.models import bundled_names
from sonde.models.engine.files import read_header
from sonde.models.engine.memory import if_it_fits
from sonde.models.engine.silence import silence_libraries
from sonde.training.precision import check_compiler
from sonde.training.pretrain.data import (
    MIN_TOKENS,
    THRESHOLD,
    ContaminatedFile,
    PackedData,
    find_contaminated_files,
    iterate_reserved_files,
    pack_documents,
    subword_type,
)
from sonde.training.pretrain.evaluate import (
    MASKED_SHARE,
    EvaluationResult,
    evaluate_decoder,
    evaluate_encoder,
    evaluate_next_sentence,
    sample_files,
    take_first_files,
)
from sonde.training.pretrain.initial_weights import check_vocabulary, fill_positions, find_model_class
from sonde.training.pretrain.loop import TrainedModel, train
from sonde.training.pretrain.objectives import BlockDataset, PairDataset
from sonde.training.pretrain.recipe import Recipe, read_recipe
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
    """Render the card as Markdown; the text is in ``card.md.jinja``.

    Args:
        recipe: What was trained.
        files: What it was trained on, from `sonde.training.pretrain.pretrain.build_manifest`.
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
        unmeasured=_list_languages(recipe, {result.language for result in figures.languages}),
        bundled=f"sonde/{recipe.name}" in bundled_names(),
        masked_share=MASKED_SHARE,
        min_tokens=MIN_TOKENS,
    )


def _list_languages(recipe: Recipe, omit: Set[str]) -> str:
    """Format the languages of the training data in words, without some."""
    names = dict.fromkeys(corpus.language for corpus in recipe.data.corpora)
    *initial, last = ["", *(format_language(name) for name in names if name not in omit)]
    return f"{', '.join(initial[1:])} and {last}" if initial[1:] else last


def _count_tokens_read(recipe: Recipe, files: pl.DataFrame) -> float:
    """Count the subwords read in training; pairs are of different lengths, blocks are not."""
    if recipe.objective == "pairs":
        return float((files["subwords"] * files["epochs"]).sum())
    return recipe.training.steps * recipe.training.blocks_per_step * recipe.training.block


def _summarise_corpora(files: pl.DataFrame) -> list[dict[str, Any]]:
    """Summarise each corpus: totals, licences by size, largest distributions."""
    training_files = files.filter("seen_in_training").with_columns(read=pl.col("subwords") * pl.col("epochs"))
    read = float(training_files["read"].sum())
    summaries: list[dict[str, Any]] = []
    for (name,), part in training_files.sort("corpus", "path").group_by("corpus", maintain_order=True):
        licences = part.group_by("licence").agg(pl.col("bytes").sum())
        clusters = part.group_by("distribution", "version").agg(pl.col("bytes").sum())
        largest = clusters.sort(["bytes", "distribution"], descending=[True, False])
        summaries.append(
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
    return summaries


CURVE = {"step": pl.Int64, "loss": pl.Float64, "rate": pl.Float64}
"""Columns of ``curve.csv``: updates done, mean nats since the row before, learning rate."""


_KEPT_NOTE = "checkpoints are kept"


def build_dataset(data: PackedData, recipe: Recipe) -> BlockDataset | PairDataset:
    """Build the samples of a run in training order."""
    if data.pairs is not None:
        return PairDataset(data.tokens, data.pairs, recipe)
    return BlockDataset(data.tokens, recipe)


def build_manifest(data: PackedData, passes: Int[np.ndarray, " token"]) -> pl.DataFrame:
    """Build a table with one row per file of the training data.

    Returns:
        ``corpus, distribution, path, language, version, licence, hash, bytes, subwords``; ``epochs``: passes
        over the file, as a mean over its subwords; ``seen_in_training``: whether any of it was trained on;
        ``items``.
    """
    sums = np.concatenate([[0], passes.cumsum()])
    documents = data.documents
    first, tokens = documents["first"].to_numpy(), documents["tokens"].to_numpy()
    epochs = (sums[first + tokens] - sums[first]) / tokens
    return documents.rename({"cluster": "distribution", "tokens": "subwords"}).with_columns(
        pl.Series("epochs", epochs), pl.Series("seen_in_training", epochs > 0)
    )


def count_subwords(
    data: PackedData, passes: Int[np.ndarray, " token"], size: int
) -> Int[np.ndarray, " vocab"]:
    """Count how often each subword was read in training, repeats counted."""
    return np.bincount(data.tokens, weights=passes, minlength=size).astype(np.int64)


def list_item_ids(files: pl.DataFrame) -> pl.DataFrame:
    """List the ids (first 16 digits, as numbers) of every file and function trained on, sorted, each once.

    Args:
        files: What `build_manifest` gave.
    """
    item_hashes = (
        files.filter("seen_in_training")["items"].explode(empty_as_null=True).drop_nulls().unique().sort()
    )
    return pl.DataFrame({"item_hash": item_hashes.cast(pl.UInt64)})


def write_weights(model: PreTrainedModel, data: PackedData, recipe: Recipe, folder: Path) -> None:
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
    with report_full_disk(str(folder), _KEPT_NOTE), silence_libraries():
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        # safetensors writes for the owner alone, and the mode would travel into the wheel.
        (folder / "model.safetensors").chmod(0o644)
        tokenizer = with_template(
            data.vocabulary,
            recipe.model.role,
            recipe.model.context,
            segments=recipe.objective == "pairs",
        )
        tokenizer.save_pretrained(folder)


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
    content = {
        "figures": dataclasses.asdict(figures),
        "copies": [dataclasses.asdict(copy) for copy in copies],
        "run": run,
    }
    write_atomic(folder / "figures.json", json.dumps(content, indent=1))
    write_atomic(folder / "README.md", render_card(recipe, files, figures, copies, run, parameters))
    return folder / "README.md"


def _parquet(table: pl.DataFrame, path: Path) -> None:
    with report_full_disk(str(path), _KEPT_NOTE):
        table.write_parquet(path, compression="zstd", compression_level=19)


WORK = Path(".training")
"""Where data and checkpoints go, below the current folder."""


def pretrain(
    recipe_path: Path,
    *,
    output: Path | None = None,
    resume: bool = True,
    keep_series: bool = False,
    report: Callable[[str], None],
) -> Path:
    """Carry out a recipe; after a stop, resume.

    Args:
        recipe_path: The recipe.
        output: Folder of the finished model; by default ``.training/<name>/model``.
        resume: Whether to resume from the last checkpoint, if there is one.
        keep_series: Whether the model is kept after 0, 1, 2, 4, 8, ... updates too, in folders ``step0``,
            ``step1``, ... beside the finished one, for ``sonde compare --series``.
        report: Receives progress, one line at a time.

    Returns:
        The folder of the finished model.

    Raises:
        SondeError: The recipe, its corpora or a checkpoint cannot be used, or the disk is full.
    """
    recipe = read_recipe(recipe_path)
    if recipe.training.compile:
        check_compiler("training.compile")
    home = WORK / recipe.name
    folder = output or home / "model"
    joined_before = torch.distributed.is_available() and torch.distributed.is_initialized()
    state = PartialState(cpu=not torch.cuda.is_available())
    if state.use_distributed and not torch.distributed.is_initialized():
        raise InputError(
            f"recipe {recipe.name}: an earlier training in this process has left the process "
            "group; launch each separately, or call torch.distributed.init_process_group before "
            "the first"
        )
    with state.main_process_first():
        data = pack_documents(recipe, WORK, report)
    check_vocabulary(recipe, data.vocabulary)

    def keep(model: PreTrainedModel, step: int) -> None:
        write_weights(model, data, recipe, folder.parent / "series" / f"step{step}")

    trained_model = _train_with_retries(
        recipe, data, home, resume=resume, report=report, keep=keep if keep_series else None
    )
    if not joined_before:
        _leave_processes()
    if trained_model.is_main:
        export_model(recipe_path, data, trained_model, folder, report)
    return folder


def _train_with_retries(
    recipe: Recipe,
    data: PackedData,
    home: Path,
    *,
    resume: bool,
    report: Callable[[str], None],
    keep: Callable[[PreTrainedModel, int], None] | None,
) -> TrainedModel:
    """Train; where memory runs out, from the last checkpoint on with fewer blocks at once.

    An update holds as many blocks as before, read in more parts.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    while True:
        work = partial(
            train, recipe, build_dataset(data, recipe), home, resume=resume, report=report, keep=keep
        )
        if (trained_model := if_it_fits(work, device)) is not None:
            return trained_model
        blocks_at_once, blocks_per_step = recipe.training.blocks_at_once, recipe.training.blocks_per_step
        smaller_counts = [
            count for count in range(1, blocks_at_once // 2 + 1) if blocks_per_step % count == 0
        ]
        if not smaller_counts or PartialState().use_distributed:
            raise InputError(
                f"recipe {recipe.name}: {blocks_at_once} blocks of {recipe.training.block} subwords at "
                "once do not fit into memory; give a smaller training.blocks_at_once, or a smaller "
                "training.block"
            )
        report(
            f"{blocks_at_once} blocks at once do not fit into memory; continuing with {smaller_counts[-1]}"
        )
        training = dataclasses.replace(recipe.training, blocks_at_once=smaller_counts[-1])
        recipe = dataclasses.replace(recipe, training=training)
        resume = True


def _leave_processes() -> None:
    """Leave the group of processes that trained together, all at the same time.

    Its threads give tensors back to Python whenever they come to it; one that does so while Python ends
    aborts the process, and the launcher then stops the one that measures.
    """
    state = PartialState()
    state.wait_for_everyone()
    state.destroy_process_group()


def export_model(
    recipe_path: Path,
    data: PackedData,
    trained_model: TrainedModel,
    folder: Path,
    report: Callable[[str], None],
) -> None:
    """Export a trained model, measure it and write its account.

    Apart from `pretrain` so that the loop may run on a machine that has neither corpora nor languages.

    Args:
        recipe_path: The recipe.
        data: The training data, from `sonde.training.pretrain.data.pack_documents`.
        trained_model: What the loop left.
        folder: The finished model's folder.
        report: Receives progress, one line at a time.
    """
    recipe = read_recipe(recipe_path)
    write_weights(trained_model.model, data, recipe, folder)
    report(f"weights in {folder}; measuring")
    passes = build_dataset(data, recipe).token_passes()
    files = build_manifest(data, passes)
    counts = count_subwords(data, passes, recipe.vocabulary.size)
    figures = evaluate_model(recipe, data, passes > 0, counts, folder)
    copies = find_contaminated_files(files, recipe.data.held_out)
    ids = np.arange(len(counts), dtype=subword_type(len(counts)))
    _parquet(files.drop("items", "first"), folder / "manifest.parquet")
    _parquet(list_item_ids(files), folder / "seen.parquet")
    _parquet(pl.DataFrame({"subword_id": ids, "count": counts}), folder / "frequencies.parquet")
    write_atomic(folder / "recipe.toml", recipe_path.read_bytes())
    write_atomic(
        folder / "curve.csv", pl.DataFrame(list(trained_model.curve), CURVE, orient="row").write_csv()
    )
    run = {name: getattr(trained_model, name) for name in ("seconds", "loss", "hardware", "versions")}
    write_card(folder, recipe, files, figures, copies, run)
    report(f"{recipe.name}: {_format_figures(figures)}")


def evaluate_model(
    recipe: Recipe,
    data: PackedData,
    is_seen: Bool[np.ndarray, " token"],
    counts: Int[np.ndarray, " vocab"],
    folder: Path,
) -> EvaluationResult:
    """Evaluate a finished model from its stored weights: on its corpus, and on each language.

    Args:
        recipe: What was trained.
        data: What on.
        is_seen: Which subwords of the stream were trained on.
        counts: From `count_subwords`.
        folder: The finished model.
    """
    evaluation = recipe.evaluation
    if recipe.model.role == "decoder":
        ngram = NGram(data.tokens, recipe.vocabulary.size, evaluation.ngram, is_seen)
        model = _load_finished(AutoModelForCausalLM, folder)
        tell = partial(evaluate_decoder, model, data.vocabulary, context=recipe.model.context, ngram=ngram)
    else:
        tell = encoder_evaluation(recipe, data.vocabulary, counts, folder)
    files = sample_files(evaluation.corpus, evaluation.language, evaluation.bytes)
    figures = dataclasses.replace(
        tell(files, corpus=evaluation.corpus),
        language=evaluation.language,
        languages=tuple(evaluate_languages(recipe, tell)),
    )
    if data.pairs is None:
        return figures
    model = _load_finished(find_model_class(recipe), folder)
    next_sentence = evaluate_next_sentence(model, data.vocabulary, files, recipe)
    return dataclasses.replace(figures, next_sentence=next_sentence)


def _load_finished(auto_class: Any, folder: Path) -> PreTrainedModel:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with silence_libraries():
        model = auto_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    return model.to(torch.device(device)).eval()


def encoder_evaluation(
    recipe: Recipe, vocabulary: Tokenizer, counts: Int[np.ndarray, " vocab"], folder: Path
) -> Callable[..., EvaluationResult]:
    """Return the evaluation of an encoder, to be called with files and the name of their corpus.

    Args:
        recipe: What was trained.
        vocabulary: Its subwords.
        counts: How often each was read in training.
        folder: The finished model.
    """
    model = _load_finished(AutoModelForMaskedLM, folder)
    return partial(evaluate_encoder, model, vocabulary, context=recipe.training.block, frequencies=counts)


def evaluate_languages(recipe: Recipe, tell: Callable[..., EvaluationResult]) -> Iterator[EvaluationResult]:
    """Yield the figures of each language of the training data, over what is reserved there.

    Args:
        recipe: What was trained.
        tell: Measures some files of a ``corpus``.
    """
    for language in dict.fromkeys(corpus.language for corpus in recipe.data.corpora):
        names = ", ".join(corpus.name for corpus in recipe.data.corpora if corpus.language == language)
        files = take_first_files(iterate_reserved_files(recipe.data, language), recipe.evaluation.bytes)
        # A language of one package or two may have none that is reserved.
        if files:
            yield dataclasses.replace(tell(files, corpus=names), language=language)


def _format_figures(figures: EvaluationResult) -> str:
    parts = [
        f"{part.model:.3f} bits per byte of {figures.corpus}, {part.of} "
        f"(xz {part.xz:.3f}, n-grams {part.ngram:.3f})"
        for part in figures.compression
    ]
    for part in figures.guesses:
        majority = f"majority {part.majority_top1:.1%}"
        parts.append(f"{part.top1:.1%} of masked subwords of {figures.corpus}, {part.of} ({majority})")
    if figures.next_sentence is not None:
        majority = f"majority {figures.next_sentence.majority:.1%}"
        parts.append(f"{figures.next_sentence.accuracy:.1%} of next sentences ({majority})")
    return "; ".join(parts)
