"""Model at the start of training: random weights from the seed, or those of a trained model.

Learned positions need more entries if a model reads longer inputs than it was trained on. A model with a
table of positions has learned as many as its inputs were long. Those after them begin as copies of the
learned ones, block after block, as Beltagy et al. (2020, section 5) lengthened RoBERTa: the relations between
close neighbours stay as they were, only the edges between two blocks are new.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    PreTrainedModel,
)

from sonde.base.errors import InputError
from sonde.models import ModelSpec, load_tokenizer
from sonde.models.engine.load import _find_family
from sonde.models.engine.silence import one_line_errors, silence_libraries
from sonde.training.pretrain.recipe import Recipe
from sonde.training.pretrain.vocabulary import BOS_ID, EOS_ID, PAD_ID

_NAMES = ("position", "wpe")


def find_position_tables(model: PreTrainedModel) -> list[nn.Embedding]:
    """Find a model's position embeddings; none if positions are computed."""
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and any(word in name for word in _NAMES)
    ]


def tile_positions(
    table: Float[Tensor, "rows d_model"], source_count: int, count: int
) -> Float[Tensor, "more d_model"]:
    """Extend or cut a table of positions; those after the learned ones are copies of them.

    Args:
        table: A learned table; rows before its positions (some architectures keep them for the padding) stay.
        source_count: Its positions.
        count: Positions of the new table, fewer or more.
    """
    lead = len(table) - source_count
    indices = torch.arange(count) % source_count
    return torch.cat([table[:lead], table[lead + indices]])


def fill_positions(model: PreTrainedModel, context: int, trained_count: int) -> None:
    """Fill the positions that training never reached, in place.

    Args:
        model: A trained model.
        context: Subwords that it can read.
        trained_count: Those that its inputs had.
    """
    if trained_count >= context:
        return
    with torch.no_grad():
        for table in find_position_tables(model):
            lead = table.num_embeddings - context
            table.weight.copy_(tile_positions(table.weight[: lead + trained_count], trained_count, context))


_CLASSES: dict[str, Any] = {
    "causal": AutoModelForCausalLM,
    "masked": AutoModelForMaskedLM,
    "pairs": AutoModelForPreTraining,
}


_READS = ("attention_mask", "token_type_ids", "next_sentence_label")
"""What a model has to take to be trained on pairs."""


def init_model(recipe: Recipe) -> PreTrainedModel:
    """Build a model with random weights from the recipe's seed, or with those of the recipe's start.

    Raises:
        InputError: transformers knows no such architecture, it has no head for the objective, or the model to
            start from is of another architecture.
    """
    model = _random_model(recipe)
    if recipe.objective == "pairs" and not _reads_pairs(model):
        raise InputError(
            f"model.architecture {recipe.model.architecture!r} has no head for the next sentence; "
            "take 'bert', or the objective 'masked'"
        )
    if recipe.model.start:
        _copy_start_weights(model, recipe)
    return model


def find_model_class(recipe: Recipe) -> Any:
    """Return transformers' auto class for the recipe's objective."""
    return _CLASSES[recipe.objective]


def check_vocabulary(recipe: Recipe, vocabulary: Tokenizer) -> None:
    """Check the vocabulary of the model to start from against the one of the data.

    Raises:
        InputError: They differ.
    """
    if not recipe.model.start:
        return
    start_tokenizer = load_tokenizer(ModelSpec(name=recipe.model.start))
    if (
        json.loads(start_tokenizer.backend_tokenizer.to_str())["model"]
        != json.loads(vocabulary.to_str())["model"]
    ):
        raise InputError(
            f"model.start {recipe.model.start!r} has another vocabulary than the data; give both recipes the "
            "same [data] and [vocabulary]"
        )


def _random_model(recipe: Recipe) -> PreTrainedModel:
    config = _build_config(recipe, recipe.model.context)
    # Some architectures lose rows of their table of positions to the padding.
    lost_positions = recipe.model.context - _context_length(config)
    if lost_positions > 0 and "max_position_embeddings" not in recipe.model.settings:
        config = _build_config(recipe, recipe.model.context + lost_positions)
    torch.manual_seed(recipe.seed)
    architecture = recipe.model.architecture
    subject = f"model.architecture {architecture!r} cannot be trained as {recipe.objective!r}"
    with one_line_errors(subject, (ValueError,)):
        return find_model_class(recipe).from_config(config, attn_implementation="sdpa", dtype=torch.float32)


def _build_config(recipe: Recipe, positions: int) -> Any:
    model = recipe.model
    roles = {"cls_token_id": BOS_ID, "sep_token_id": EOS_ID} if model.role == "encoder" else {}
    fields = {
        "vocab_size": recipe.vocabulary.size,
        "max_position_embeddings": positions,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        **roles,
        **model.settings,
    }
    try:
        return AutoConfig.for_model(model.architecture, **fields)
    except ValueError as error:
        raise InputError(
            f"model.architecture {model.architecture!r}: transformers knows no such type"
        ) from error


def _context_length(config: Any) -> int:
    """Return the number of subwords that a model of this configuration reads at once."""
    _, family = _find_family(ModelSpec(name=config.model_type), config)
    return family.capabilities(config).context


def _reads_pairs(model: PreTrainedModel) -> bool:
    takes = inspect.signature(model.forward).parameters
    return all(name in takes for name in _READS)


def _copy_start_weights(model: PreTrainedModel, recipe: Recipe) -> None:
    """Give a fresh model the weights of the one to start from; heads that it lacks stay fresh."""
    start = recipe.model.start
    start_model, absent = _load_start_model(recipe)
    context, start_context = _context_length(model.config), _context_length(start_model.config)
    start_weights = {name: weight for name, weight in start_model.named_parameters() if name not in absent}
    tables = {id(table.weight) for table in find_position_tables(model)}
    body = f"{model.base_model_prefix}."
    with torch.no_grad():
        for name, weight in model.named_parameters():
            start_weight = start_weights.get(name)
            if start_weight is not None and id(weight) in tables:
                start_weight = tile_positions(start_weight, start_context, context)
            if start_weight is not None and start_weight.shape == weight.shape:
                weight.copy_(start_weight)
            elif start_weight is not None or name.startswith(body):
                shape = "none" if start_weight is None else tuple(start_weight.shape)
                raise InputError(
                    f"model.start {start!r} is of another architecture: {name} is {tuple(weight.shape)} here "
                    f"and {shape} there; give the recipe its [model]"
                )


def _load_start_model(recipe: Recipe) -> tuple[PreTrainedModel, frozenset[str]]:
    """Load the model to start from, and the names of the weights that its checkpoint lacks."""
    start = recipe.model.start
    hint = "" if Path(start).is_dir() else "; no such folder"
    with (
        one_line_errors(f"model.start {start!r} cannot be read{hint}", (OSError, ValueError)),
        silence_libraries(),
    ):
        start_model, report = find_model_class(recipe).from_pretrained(
            start, dtype=torch.float32, use_safetensors=True, output_loading_info=True
        )
    return start_model, frozenset(report["missing_keys"])
