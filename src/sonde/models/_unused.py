"""Weights of a checkpoint that no part of the model takes: needless, or a sign of another model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_PARTS = (
    *(
        "classifier",
        "classification_head",
        "pre_classifier",
        "score",
        "qa_outputs",
        "qa_classifier",
        "pooler",
    ),
    *("sequence_summary", "sop_classifier", "logits_proj", "discriminator_predictions", "v_head"),
    *("vision_tower", "vision_model", "visual", "multi_modal_projector", "audio_tower", "embed_vision"),
)
"""Parts of a checkpoint with another purpose than reading or scoring a text."""

_PARTS_OF_PARTS = (
    ("cls", "seq_relationship"),
    *(("head", "dense"), ("head", "norm")),
    *(("dense", "weight"), ("dense", "bias")),
)
"""The same, where a part's own name may be that of a head that scores."""

_ENCODER = ("encoder", "shared", "final_logits_bias")
"""What a decoder that is read by itself leaves to the other side of its pair."""

_COMPUTED = re.compile(
    r"(^|\.)(rotary(_pos)?_emb\.inv_freq|position_ids|token_type_ids|num_batches_tracked"
    r"|(attn|attention|self_attn)\.(bias|masked_bias|causal_mask|rotary_emb\.\w+))$"
)
"""Masks and angles that models compute by themselves, and files of earlier versions of transformers hold."""


def unused_weights(model: Any, unexpected: Iterable[str]) -> list[str]:
    """Return the weights that change what is measured, and that no part of a model takes.

    Examples are biases that a configuration does not ask for, scales of quantised weights without their
    configuration, tables of positions of a kind that transformers no longer has, and adapters.

    Args:
        model: The model that was read.
        unexpected: Names of the weights that transformers has no place for.
    """
    body = getattr(model, model.base_model_prefix, model)
    needless = _PARTS if hasattr(body, "encoder") else (*_PARTS, *_ENCODER)

    def is_needless(name: str) -> bool:
        parts = name.removeprefix(f"{model.base_model_prefix}.").split(".")
        return bool(_COMPUTED.search(name)) or parts[0] in needless or tuple(parts[:2]) in _PARTS_OF_PARTS

    return sorted(name for name in unexpected if not is_needless(name))
