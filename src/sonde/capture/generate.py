"""Texts that a causal model writes behind a prompt, the likeliest piece each time."""

from __future__ import annotations

from typing import Any

import torch

from sonde.base.errors import CaptureError
from sonde.models import LoadedModel


@torch.inference_mode()
def continuation(loaded: LoadedModel, prompt: str, most: int, *, chat: bool) -> str | None:
    """What a model writes behind a prompt.

    Args:
        loaded: A decoder.
        prompt: The text; as the user's turn of a conversation if ``chat``.
        most: Pieces written at most; fewer where the model's context ends.
        chat: Whether the tokenizer's template for conversations is put around the prompt.

    Returns:
        The text, None where the prompt alone fills the context.

    Raises:
        CaptureError: The model did not write.
    """
    tokenizer = loaded.tokenizer
    if chat:
        turns = [{"role": "user", "content": prompt}]
        prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    if not chat and loaded.special.bos is not None:
        ids = [loaded.special.bos, *ids]
    room = min(most, loaded.capabilities.context - len(ids))
    if room < 1 or not ids:
        return None
    device = next(loaded.model.parameters()).device
    row = torch.tensor([ids], device=device)
    chosen: dict[str, Any] = {"do_sample": False, "num_beams": 1, "pad_token_id": loaded.special.pad}
    try:
        output = loaded.model.generate(
            input_ids=row, attention_mask=torch.ones_like(row), max_new_tokens=room, **chosen
        )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        line = " ".join(str(error).split())[:200]
        raise CaptureError(f"model {loaded.spec.name!r} cannot write behind a prompt: {line}") from error
    return str(tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True))


def converses(loaded: LoadedModel) -> bool:
    """Whether the tokenizer has a template for conversations."""
    return bool(getattr(loaded.tokenizer, "chat_template", None))
