"""BART and its like (PLBART): absolute positions, a bias on the final logits."""

from typing import Any

from sonde.models.engine.architectures import EncoderDecoderFamily
from sonde.models.engine.family import Gap

_WRAPPED_TYPES = frozenset({"mbart", "plbart"})
"""Their decoder begins with the last id of the text, which names its language."""


def _gap(tokenizer: Any, config: Any, prefix: tuple[int, ...], suffix: tuple[int, ...]) -> Gap | None:
    """Ask by a mask in the encoder's text; the decoder writes the full text again."""
    mask = tokenizer.mask_token_id
    if mask is None or mask >= config.vocab_size:
        return None
    start = getattr(config, "decoder_start_token_id", None)
    if suffix and (config.model_type in _WRAPPED_TYPES or start is None):
        start = suffix[-1]
    if start is None:
        start = config.eos_token_id
    return Gap(sign=mask, before=(start, *prefix), repeats=True)


family = EncoderDecoderFamily(model_types=frozenset({"bart", "plbart", "mbart"}), gap=_gap)
