"""Reading transformers configurations: numbers that every family has under some name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

UNBOUNDED = 2048
"""Context where a model has no positions to run out of (ALiBi, relative, recurrent) and names no length."""

_LANGUAGE_MODELS = (
    *("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForPreTraining"),
    *("ForConditionalGeneration", "ForSeq2SeqLM"),
)

_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


def text_config(config: Any) -> Any:
    """The part of a configuration that describes the text model."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def number(config: Any, *names: str, default: int = 0) -> int:
    """The first of several fields that a configuration sets to a whole number."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return default


def context(config: Any) -> int:
    """Positions that a model can take at once; XLNet writes -1 for no limit."""
    found = number(config, *_CONTEXT, default=UNBOUNDED)
    return found if found > 0 else UNBOUNDED


def attention(model_class: Any, config: Any) -> str:
    """How a model's attention can be read: its module calls registered functions, or only eagerly."""
    if number(config, "num_attention_heads", "n_head", "num_heads") == 0:
        return "none"
    module = sys.modules.get(getattr(model_class, "__module__", ""))
    return "interface" if hasattr(module, "ALL_ATTENTION_FUNCTIONS") else "eager"


def model_class(mapping: str, config: Any) -> Any:
    """The class that transformers has for a configuration in one of its mappings; None where it has none."""
    from transformers.models.auto import modeling_auto

    return getattr(modeling_auto, mapping).get(type(config), None)


def names_language_model(saved: Iterable[str]) -> bool:
    """Whether one of some class names is that of a model with a head that scores subwords."""
    return any(name.endswith(_LANGUAGE_MODELS) for name in saved)


def architectures(config: Any) -> tuple[str, ...]:
    """Class names that the checkpoint was saved from."""
    return tuple(getattr(config, "architectures", None) or ())
