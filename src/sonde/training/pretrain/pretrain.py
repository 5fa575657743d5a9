"""A recipe becomes a model: vocabulary, data, training, export, figures, card."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from sonde.base.errors import InputError
from sonde.corpora.engine.ngram import NGram
from sonde.models.engine.memory import if_it_fits
from sonde.models.engine.silence import silence_libraries
from sonde.training.precision import check_compiler
from sonde.training.pretrain.documents import find_contaminated_files, iterate_reserved_files
from sonde.training.pretrain.evaluate import (
    EvaluationResult,
    evaluate_decoder,
    evaluate_encoder,
    evaluate_next_sentence,
    sample_files,
    take_first_files,
)
from sonde.training.pretrain.export import (
    build_dataset,
    build_manifest,
    count_subwords,
    count_token_passes,
    write_training_record,
    write_weights,
)
from sonde.training.pretrain.initial_weights import check_vocabulary, find_model_class
from sonde.training.pretrain.loop import TrainedModel, train
from sonde.training.pretrain.packing import PackedData, pack_documents
from sonde.training.pretrain.recipe import Recipe, read_recipe

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
    """Do everything that a recipe says; after a stop, go on where it stood.

    Args:
        recipe_path: The recipe.
        output: Folder of the finished model; by default ``.training/<name>/model``.
        resume: Whether to go on from the last checkpoint, if there is one.
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
            f"recipe {recipe.name}: a training before it in this process has left the group of processes; "
            "launch each by itself, or call torch.distributed.init_process_group before the first"
        )
    with state.main_process_first():
        packed = pack_documents(recipe, WORK, report)
    check_vocabulary(recipe, packed.vocabulary)

    def keep(model: PreTrainedModel, step: int) -> None:
        write_weights(model, packed, recipe, folder.parent / "series" / f"step{step}")

    trained = _train_with_retries(
        recipe, packed, home, resume=resume, report=report, keep=keep if keep_series else None
    )
    if not joined_before:
        _leave_processes()
    if trained.is_main:
        export_model(recipe_path, packed, trained, folder, report)
    return folder


def _train_with_retries(
    recipe: Recipe,
    packed: PackedData,
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
            train, recipe, build_dataset(packed, recipe), home, resume=resume, report=report, keep=keep
        )
        if (trained := if_it_fits(work, device)) is not None:
            return trained
        together, whole = recipe.training.blocks_at_once, recipe.training.blocks_per_step
        fewer = [count for count in range(1, together // 2 + 1) if whole % count == 0]
        if not fewer or PartialState().use_distributed:
            raise InputError(
                f"recipe {recipe.name}: {together} blocks of {recipe.training.block} subwords at once do not "
                "fit into memory; give a smaller training.blocks_at_once, or a smaller training.block"
            )
        report(f"{together} blocks at once do not fit into memory; going on with {fewer[-1]}")
        training = dataclasses.replace(recipe.training, blocks_at_once=fewer[-1])
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
    recipe_path: Path, packed: PackedData, trained: TrainedModel, folder: Path, report: Callable[[str], None]
) -> None:
    """Export a trained model, measure it and write its account.

    Apart from `pretrain` so that the loop may run on a machine that has neither corpora nor languages.

    Args:
        recipe_path: The recipe.
        packed: The training data, from `sonde.training.pretrain.packing.pack_documents`.
        trained: What the loop left.
        folder: The finished model's folder.
        report: Receives progress, one line at a time.
    """
    recipe = read_recipe(recipe_path)
    write_weights(trained.model, packed, recipe, folder)
    report(f"weights in {folder}; measuring")
    figures = evaluate_model(recipe, packed, folder)
    run = {
        "seconds": trained.seconds,
        "loss": trained.loss,
        "hardware": trained.hardware,
        "versions": trained.versions,
    }
    files = build_manifest(packed, count_token_passes(packed, recipe))
    copies = find_contaminated_files(files, recipe.data.held_out)
    write_training_record(packed, recipe, recipe_path, figures, copies, run, trained.curve, folder)
    report(f"{recipe.name}: {_format_figures(figures)}")


def evaluate_model(recipe: Recipe, packed: PackedData, folder: Path) -> EvaluationResult:
    """The figures of a finished model, from its stored weights: of its evaluation, and of each language.

    Args:
        recipe: What was trained.
        packed: What on.
        folder: The finished model.
    """
    evaluation = recipe.evaluation
    files = sample_files(evaluation.corpus, evaluation.language, evaluation.bytes)
    passes = count_token_passes(packed, recipe)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def load(auto: Any) -> PreTrainedModel:
        with silence_libraries():
            model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
        return model.to(torch.device(device)).eval()

    model = load(AutoModelForCausalLM if recipe.model.role == "decoder" else AutoModelForMaskedLM)
    if recipe.model.role == "decoder":
        ngram = NGram(packed.tokens, recipe.vocabulary.size, evaluation.ngram, passes > 0)
        tell = partial(evaluate_decoder, model, packed.vocabulary, context=recipe.model.context, ngram=ngram)
    else:
        counts = count_subwords(packed, passes, recipe.vocabulary.size)
        tell = partial(
            evaluate_encoder, model, packed.vocabulary, context=recipe.training.block, frequencies=counts
        )
    figures = dataclasses.replace(
        tell(files, corpus=evaluation.corpus),
        language=evaluation.language,
        languages=tuple(evaluate_languages(recipe, tell)),
    )
    if packed.pairs is None:
        return figures
    told = evaluate_next_sentence(load(find_model_class(recipe)), packed.vocabulary, files, recipe)
    return dataclasses.replace(figures, next_sentence=told)


def evaluate_languages(recipe: Recipe, tell: Callable[..., EvaluationResult]) -> Iterator[EvaluationResult]:
    """The figures of each language of the training data, over what is reserved there.

    Args:
        recipe: What was trained.
        tell: Measures some files of a ``corpus``.
    """
    for language in dict.fromkeys(corpus.language for corpus in recipe.data.corpora):
        names = ", ".join(one.name for one in recipe.data.corpora if one.language == language)
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
