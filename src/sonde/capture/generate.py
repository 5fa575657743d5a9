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

_TOGETHER = 16
"""Prompts of one length that are continued together."""


def generate_continuations(
    loaded: LoadedModel, prompts: Sequence[str], most: int, *, chat: bool
) -> Iterator[tuple[str, str | None]]:
    """What a model writes behind prompts.

    A piece at a time leaves a processor waiting most of the time, so prompts are continued together, but only
    those of one length: then no pad stands in any row, and a row's text is what it is alone, for every
    architecture.

    Args:
        loaded: A decoder.
        prompts: The texts, each once; as the user's turn of a conversation if ``chat``.
        most: Pieces written at most; fewer where the model's context ends.
        chat: Whether the tokenizer's template for conversations is put around the prompts.

    Yields:
        Each prompt and the text behind it, in no promised order; None where a prompt alone fills the context.

    Raises:
        InputError: The model has no head.
        CaptureError: It did not write.
    """
    check_head_available(loaded)
    by_length: dict[int, list[tuple[str, list[int]]]] = {}
    for prompt in prompts:
        ids = _encode_prompt(loaded, prompt, chat=chat)
        by_length.setdefault(len(ids), []).append((prompt, ids))
    for length, group in sorted(by_length.items()):
        room = min(most, loaded.capabilities.context - length)
        if room < 1 or not length:
            yield from ((prompt, None) for prompt, _ in group)
            continue
        for begin in range(0, len(group), _TOGETHER):
            rows = group[begin : begin + _TOGETHER]
            with _use_best_threads(loaded, len(rows)):
                texts = _generate_texts(loaded, [ids for _, ids in rows], room)
            yield from zip((prompt for prompt, _ in rows), texts, strict=True)


def has_chat_template(loaded: LoadedModel) -> bool:
    """Whether the tokenizer has a template for conversations."""
    return bool(getattr(loaded.tokenizer, "chat_template", None))


def _encode_prompt(loaded: LoadedModel, prompt: str, *, chat: bool) -> list[int]:
    tokenizer = loaded.tokenizer
    if chat:
        turns = [{"role": "user", "content": prompt}]
        prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    ids = list(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    return ids if chat or loaded.special.bos is None else [loaded.special.bos, *ids]


@contextmanager
def _use_best_threads(loaded: LoadedModel, rows: int) -> Generator[None]:
    """One thread where all of them take longer over a piece: in a small model they mostly wait."""
    threads = torch.get_num_threads()
    try:
        if threads > 1 and loaded.device.type == "cpu":
            took = {count: _seconds_per_token(loaded, rows, count) for count in (threads, 1)}
            torch.set_num_threads(min(took, key=lambda count: took[count]))
        yield
    finally:
        torch.set_num_threads(threads)


@torch.inference_mode()
def _seconds_per_token(loaded: LoadedModel, rows: int, threads: int) -> float:
    torch.set_num_threads(threads)
    piece = torch.zeros((rows, 1), dtype=torch.long)
    with suppress(*MODEL_CODE_ERRORS):
        # What does not take a single piece says so when it writes.
        loaded.model(input_ids=piece)
        begin = time.perf_counter()
        loaded.model(input_ids=piece)
        return time.perf_counter() - begin
    return 0.0


@torch.inference_mode()
def _generate_texts(loaded: LoadedModel, rows: Sequence[list[int]], room: int) -> list[str]:
    """The texts behind rows of one length."""
    given: Int[torch.Tensor, "batch token"] = torch.tensor(rows, device=loaded.device)
    chosen: dict[str, Any] = {"do_sample": False, "num_beams": 1, "pad_token_id": loaded.special.pad}
    try:
        output = loaded.model.generate(
            input_ids=given, attention_mask=torch.ones_like(given), max_new_tokens=room, **chosen
        )
    except MODEL_CODE_ERRORS as error:
        line = " ".join(str(error).split())[:200]
        raise CaptureError(f"model {loaded.spec.name!r} cannot write behind a prompt: {line}") from error
    ends = loaded.model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    texts: list[str] = []
    for written in output[:, given.shape[1] :].tolist():
        # A row that ended before the others is filled up; what stands behind its end is not its text.
        end = next((place + 1 for place, piece in enumerate(written) if piece in ends), len(written))
        texts.append(str(loaded.tokenizer.decode(written[:end], skip_special_tokens=True)))
    return texts
