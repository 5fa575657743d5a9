"""Which tokens a decoder has for filling in what is left out of a text, by what their tokenizers call them.

That a tokenizer has them does not say that a model was trained with them: its card does.
"""

from __future__ import annotations

from typing import Any

from sonde.models._family import Infill

_SIGNS: tuple[tuple[str, str, str | None], ...] = (
    # StarCoder, StarCoder2, StableCode, Refact, Granite Code.
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    # SantaCoder.
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    # Qwen2.5-Coder, CodeGemma.
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    # DeepSeek-Coder: begin, hole, end.
    ("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"),
    # Code Llama.
    ("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"),
    # Codestral, which is shown what follows the gap first and writes right behind what precedes it.
    ("[PREFIX]", "[SUFFIX]", None),
)
"""What stands before the text that precedes a gap, before what follows it, and before what is written."""


def infill_of(tokenizer: Any, vocab: int) -> Infill | None:
    """The tokens of a tokenizer by which a decoder is asked to fill in; None where it has none.

    Args:
        tokenizer: A tokenizer of transformers.
        vocab: Ids that the model has an embedding for.
    """
    for names in _SIGNS:
        before, behind, write = (None if name is None else _id(tokenizer, name, vocab) for name in names)
        if before is not None and behind is not None and (write is not None or names[2] is None):
            return Infill(before=before, behind=behind, write=write, reversed=names[2] is None)
    return None


def _id(tokenizer: Any, name: str, vocab: int) -> int | None:
    """The id of a token; None for one that the tokenizer or the model does not have."""
    found = tokenizer.convert_tokens_to_ids(name)
    known = isinstance(found, int) and found < vocab and tokenizer.convert_ids_to_tokens(found) == name
    return found if known else None
