"""Texts that a causal model writes behind prompts, the likeliest piece each time.

Prompts are continued by the model's own generation. From places of an item (`CompletionReducer`) only what
stands there is of interest, so a completion is written a subword at a time and given up at the first one that
stands elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from sonde.alignment import encode
from sonde.alignment.token_ends import PrefixIndex, get_prefix_index
from sonde.base.errors import CaptureError
from sonde.capture.completions import NOT_WRITTEN, CompletedEnds, InputCompletions
from sonde.capture.reducer import ForwardBatch, Reducer
from sonde.capture.windows import select_lead
from sonde.models import LoadedModel
from sonde.models.engine.family import check_head_available
from sonde.models.engine.lm_head import body_and_head
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
    with _convert_errors(loaded_model):
        output = loaded_model.model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=room, **options
        )
    ends = loaded_model.model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    texts: list[str] = []
    for tokens in output[:, prompt.shape[1] :].tolist():
        # A row that ended before the others is filled up; what stands behind its end is not its text.
        end = next((index + 1 for index, piece in enumerate(tokens) if piece in ends), len(tokens))
        texts.append(str(loaded_model.tokenizer.decode(tokens[:end], skip_special_tokens=True)))
    return texts


@contextmanager
def _convert_errors(loaded_model: LoadedModel) -> Generator[None]:
    try:
        yield
    except MODEL_CODE_ERRORS as error:
        line = " ".join(str(error).split())[:200]
        raise CaptureError(f"model {loaded_model.spec.name!r} cannot continue a prompt: {line}") from error


class CompletionReducer(Reducer[InputCompletions]):
    """Answers `InputCompletions`, beside the batches that are forwarded."""

    kind = InputCompletions

    def plan(self, batch: ForwardBatch) -> None:
        """Return nothing: completions are written one at a time."""

    def get_answer(self, source: int) -> CompletedEnds | None:
        """Write the completions of one input; None if it asks for none."""
        request = self.requests.get(source)
        if request is None:
            return None
        variant = self.block.inputs[source]
        item, loaded_model = self.block.prepared[variant.item], self.block.loaded
        subwords, text = item.alignment.subwords, item.item.text
        index = get_prefix_index(loaded_model.tokenizer)
        spelling = (
            b"" if index is None else b"".join(_spell(index, number) for number in subwords.ids.tolist())
        )
        # Of a text that the vocabulary does not hold, nothing that is written is right.
        if index is None or spelling.removeprefix(b" ") != text.encode("utf-8", "replace").removeprefix(b" "):
            return np.full(len(request.places), NOT_WRITTEN)
        lead = select_lead(loaded_model, variant.shape.start)
        starts = subwords.start[list(request.places)].tolist()
        with _use_best_threads(loaded_model, 1), _convert_errors(loaded_model):
            return np.array([self._complete(text, start, item.item.cuts, lead, index) for start in starts])

    @torch.inference_mode()
    def _complete(
        self, text: str, start: int, cuts: Sequence[int], lead: Sequence[int], index: PrefixIndex
    ) -> int:
        """Return the end of the characters that are written as in a text from one of them on."""
        loaded_model = self.block.loaded
        prefix = encode(loaded_model.tokenizer, text[:start], [cut for cut in cuts if cut < start])
        ids = [*lead, *prefix.ids.tolist()]
        if not ids or len(ids) >= loaded_model.capabilities.context:
            return NOT_WRITTEN
        body, _ = body_and_head(loaded_model)
        rest, done = text[start:].encode("utf-8", "replace"), 0
        read, known = ids, dict[str, Any]()
        while done < len(rest) and len(ids) <= loaded_model.capabilities.context:
            tokens = torch.tensor([read], device=loaded_model.device)
            output = body(input_ids=tokens, use_cache=True, **known)
            best = int(self.block.head(output.last_hidden_state[:, -1]).argmax())
            spelling = _spell(index, best)
            if not spelling or not rest.startswith(spelling, done):
                break
            done += len(spelling)
            ids.append(best)
            # A model without such a cache reads everything again.
            if (cache := getattr(output, "past_key_values", None)) is None:
                read = ids
            else:
                read, known = [best], {"past_key_values": cache}
        return start + len(rest[:done].decode("utf-8", "ignore"))


def _spell(index: PrefixIndex, number: int) -> bytes:
    """Return the bytes of an id; none for a special token, and for one that the tokenizer does not know."""
    return index.spellings[number] if number < len(index.spellings) else b""
