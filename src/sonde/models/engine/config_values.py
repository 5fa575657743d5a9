"""Numbers of transformers configurations, which families name differently, and limits on sizes.

Sizes that a configuration asks for are bounded by what any model has (`check_sizes`), so that a wrong one
gives a one-line error instead of exhausting the memory.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sonde.base.errors import InputError

UNBOUNDED = 2048
"""Context where a model has no positions to run out of (ALiBi, relative, recurrent) and names no length."""


_LANGUAGE_MODELS = (
    *("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForPreTraining"),
    *("ForConditionalGeneration", "ForSeq2SeqLM"),
)


_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


def text_config(config: Any) -> Any:
    """Return the part of a configuration that describes the text model."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def number(config: Any, *names: str, default: int = 0) -> int:
    """Return the first of several fields that a configuration sets to a whole number."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return default


def context(config: Any) -> int:
    """Return the number of positions that a model takes at once; XLNet writes -1 for no limit."""
    positions = number(config, *_CONTEXT, default=UNBOUNDED)
    return positions if positions > 0 else UNBOUNDED


def attention(model_class: Any, config: Any) -> str:
    """Return how attention can be read: ``"interface"`` (registered functions), ``"eager"`` or ``"none"``."""
    if number(config, "num_attention_heads", "n_head", "num_heads") == 0:
        return "none"
    module = sys.modules.get(getattr(model_class, "__module__", ""))
    return "interface" if hasattr(module, "ALL_ATTENTION_FUNCTIONS") else "eager"


_MAPPINGS = {
    "decoder": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "encoder": "MODEL_FOR_MASKED_LM_MAPPING",
    "encoder-decoder": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
}
"""Mappings of transformers from configurations to models with a head, by the kind of the model."""


def model_class(kind: str, config: Any) -> Any:
    """Return the class that transformers has for a configuration, or None.

    Args:
        kind: ``"decoder"``, ``"encoder"`` or ``"encoder-decoder"``; None is returned for any other.
        config: A configuration of transformers.
    """
    from transformers.models.auto import modeling_auto

    return getattr(modeling_auto, _MAPPINGS[kind]).get(type(config), None) if kind in _MAPPINGS else None


def names_language_model(class_names: Iterable[str]) -> bool:
    """Return whether a class name is that of a model with a head that scores subwords."""
    return any(name.endswith(_LANGUAGE_MODELS) for name in class_names)


def architectures(config: Any) -> tuple[str, ...]:
    """Return the class names that the checkpoint was saved from."""
    return tuple(getattr(config, "architectures", None) or ())


_MAXIMA: Mapping[str, int] = {
    r"(.*_)?vocab_size(_.*)?|bigram_vocab.*": 10_000_000,
    r"(n|num|encoder|decoder)(_.*)?_(layers?|blocks?|stages?)|(encoder|decoder)_layers|.*_layers?": 1_000,
    r".*_(heads?|groups?)": 100_000,
    r".*_(experts?|experts_.*)": 100_000,
    r".*(position_embeddings|positions?|_ctx|_seq_?len(gth)?|_buckets|_distance)": 100_000_000,
    r"(.*_)?(size|dim|embd|d_model|d_ff|d_kv|n_inner|rank|width|channels)|d_.*": 1_000_000,
}
"""Largest value by a form of the name; the largest models that are published have a hundredth of these."""


_HIDDEN_SIZE_FIELDS = ("hidden_size", "d_model", "n_embd")


_MOST_NUMBERS = 10**11
"""Numbers in the embeddings, or in the matrices of one layer."""


def check_sizes(config: Mapping[str, Any], model: str) -> None:
    """Hold a configuration to sizes that a model can have.

    Args:
        config: As its file says it.
        model: Name of the model, for messages.

    Raises:
        InputError: A size is larger.
    """
    for path, table in _tables(config, ""):
        sizes = {name: value for name, value in table.items() if _is_number(value)}
        for name, value in sizes.items():
            maximum = next((maximum for form, maximum in _MAXIMA.items() if re.fullmatch(form, name)), None)
            if maximum is not None and not value <= maximum:
                raise InputError(
                    f"model {model!r}: its config.json asks for {path}{name} = {_short(value)}, and at most "
                    f"{maximum:,} can be read; the configuration is damaged or made to harm"
                )
        hidden_size = max((sizes[name] for name in _HIDDEN_SIZE_FIELDS if name in sizes), default=0)
        for name in ("vocab_size", "intermediate_size", "d_ff", "n_inner", "ffn_dim"):
            if sizes.get(name, 0) * hidden_size > _MOST_NUMBERS:
                raise InputError(
                    f"model {model!r}: its config.json asks for {path}{name} = {_short(sizes[name])} by "
                    f"{_short(hidden_size)} numbers, and at most {_MOST_NUMBERS:,} can be read; the "
                    "configuration is damaged or made to harm"
                )


def _tables(config: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, config
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _tables(value, f"{path}{name}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: float) -> str:
    return f"{value:,}" if abs(value) < 10**18 else f"{value:.0e}" if value < 1e300 else "a number beyond all"
