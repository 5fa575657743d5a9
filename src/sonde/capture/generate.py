"""Texts that a causal model writes behind prompts, the likeliest piece each time."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from jaxtyping import Int

from sonde.base.errors import CaptureError
from sonde.models import LoadedModel
from sonde.models.engine.family import check_head_available
from sonde.models.engine.silence import MODEL_CODE_ERRORS

_BATCH_SIZE = 16
"""Prompts of one length that are continued together."""


def generate_continuations(
    loaded_model: LoadedModel, prompts: Sequence[str], maximum: int, *, chat: bool
) -> Iterator[tuple[str, str | None]]:
    """Generate the likeliest continuation of each prompt.

    A piece at a time leaves a processor waiting most of the time, so prompts are continued together, but only
    those of one length: then no pad stands in any row, and a row's text is what it is alone, for every
    architecture.

    Args:
        loaded_model: A decoder.
        prompts: The texts, each once; as the user's turn of a conversation if ``chat``.
        maximum: Pieces written at most; fewer where the model's context ends.
        chat: Whether the tokenizer's template for conversations is put around the prompts.

    Yields:
        Each prompt and the text behind it, in no promised order; None where a prompt alone fills the context.

    Raises:
        InputError: The model has no head.
        CaptureError: It did not write.
    """
    check_head_available(loaded_model)
    by_length: dict[int, list[tuple[str, list[int]]]] = {}
    for prompt in prompts:
        ids = _encode_prompt(loaded_model, prompt, chat=chat)
        by_length.setdefault(len(ids), []).append((prompt, ids))
    for length, group in sorted(by_length.items()):
        room = min(maximum, loaded_model.capabilities.context - length)
        if room < 1 or not length:
            yield from ((prompt, None) for prompt, _ in group)
            continue
        for begin in range(0, len(group), _BATCH_SIZE):
            rows = group[begin : begin + _BATCH_SIZE]
            with _use_best_threads(loaded_model, len(rows)):
                texts = _generate_texts(loaded_model, [ids for _, ids in rows], room)
            yield from zip((prompt for prompt, _ in rows), texts, strict=True)


def has_chat_template(loaded_model: LoadedModel) -> bool:
    """Return whether the tokenizer has a template for conversations."""
    return bool(getattr(loaded_model.tokenizer, "chat_template", None))


def _encode_prompt(loaded_model: LoadedModel, prompt: str, *, chat: bool) -> list[int]:
    tokenizer = loaded_model.tokenizer
    if chat:
        turns = [{"role": "user", "content": prompt}]
        prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    ids = list(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    return ids if chat or loaded_model.special.bos is None else [loaded_model.special.bos, *ids]


@contextmanager
def _use_best_threads(loaded_model: LoadedModel, rows: int) -> Generator[None]:
    """Use one thread where all of them take longer over a piece, as in small models."""
    threads = torch.get_num_threads()
    try:
        if threads > 1 and loaded_model.device.type == "cpu":
            took = {count: _seconds_per_token(loaded_model, rows, count) for count in (threads, 1)}
            torch.set_num_threads(min(took, key=lambda count: took[count]))
        yield
    finally:
        torch.set_num_threads(threads)


@torch.inference_mode()
def _seconds_per_token(loaded_model: LoadedModel, rows: int, threads: int) -> float:
    torch.set_num_threads(threads)
    piece = torch.zeros((rows, 1), dtype=torch.long)
    with suppress(*MODEL_CODE_ERRORS):
        # What does not take a single piece says so when it writes.
        loaded_model.model(input_ids=piece)
        begin = time.perf_counter()
        loaded_model.model(input_ids=piece)
        return time.perf_counter() - begin
    return 0.0


@torch.inference_mode()
def _generate_texts(loaded_model: LoadedModel, rows: Sequence[list[int]], room: int) -> list[str]:
    """Generate the continuations of rows of one length."""
    prompt: Int[torch.Tensor, "batch token"] = torch.tensor(rows, device=loaded_model.device)
    options: dict[str, Any] = {"do_sample": False, "num_beams": 1, "pad_token_id": loaded_model.special.pad}
    try:
        output = loaded_model.model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=room, **options
        )
    except MODEL_CODE_ERRORS as error:
        line = " ".join(str(error).split())[:200]
        raise CaptureError(f"model {loaded_model.spec.name!r} cannot continue a prompt: {line}") from error
    ends = loaded_model.model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    texts: list[str] = []
    for tokens in output[:, prompt.shape[1] :].tolist():
        # A row that ended before the others is filled up; what stands behind its end is not its text.
        end = next((index + 1 for index, piece in enumerate(tokens) if piece in ends), len(tokens))
        texts.append(str(loaded_model.tokenizer.decode(tokens[:end], skip_special_tokens=True)))
    return texts
