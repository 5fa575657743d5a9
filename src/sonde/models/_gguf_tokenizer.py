"""The tokenizer of a GGUF file: what transformers makes of it, held against what the file says.

A file names how its tokenizer splits a text into words before it merges, by a name that llama.cpp gave; of a
name that transformers does not know it takes GPT-2's, without a word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.models._tokenizer_file import FILE, count_unlike, cut_texts

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_REST_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDINGS}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDINGS}?|"
    rf"\p{{N}}{{1,3}}|{_REST_SLASH}"
)
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|"
    + _REST_SLASH
)
_CHINESE = r"[一-龥ࠀ-一가-퟿]+"
_SPLITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "mellum", "roberta-bpe", "exaone4"), (_GPT2,)),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "dbrx", "smaug-bpe", "lfm2"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez"), (_QWEN2,)),
    **dict.fromkeys(
        ("starcoder", "smollm", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), (r"\p{N}", _GPT2)
    ),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CHINESE, r"\p{N}"),
    **dict.fromkeys(("gpt-4o", "llama4"), (_GPT4O,)),
    "tekken": (_TEKKEN,),
}
"""Expressions that texts are split by, one after the other, by llama.cpp's name; read off its source."""


def as_the_file_says(file: Path, fields: Any, tokenizer: Any, model: str) -> tuple[Any, str]:
    """Return a tokenizer that has the words of a GGUF file and splits as it says, and what was found.

    Where a tokenizer.json lies beside the file and has its words, that one is taken.

    Args:
        file: The file.
        fields: What it says of itself.
        tokenizer: What transformers makes of it.
        model: Its name, for messages.

    Raises:
        InputError: The words are others, or the file names a split that is not known.
    """
    from transformers import PreTrainedTokenizerFast

    kind, split = (_text(fields, f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    words: list[str] = fields["tokenizer.ggml.tokens"].contents()
    name = type(tokenizer).__name__
    if (file.parent / FILE).is_file():
        beside = PreTrainedTokenizerFast.from_pretrained(file.parent)
        _check_words(beside, words, f"the {FILE} beside {file.name}", model)
        return beside, f"the {FILE} beside it"
    _check_words(tokenizer, words, f"the {name} that transformers makes of {file.name}", model)
    if kind != "gpt2":
        return tokenizer, f"{name}, with the file's {len(words):,} words"
    if split not in _SPLITS:
        raise InputError(
            f"model {model!r}: {file.name} says that its tokenizer splits as {split!r}, which is not "
            f"known here; put the model's {FILE} beside the file"
        )
    wanted = _with_split(tokenizer, _SPLITS[split])
    unlike = count_unlike(tokenizer, cut_texts(wanted))
    if not unlike:
        return tokenizer, f"{name}, splits as {split!r}"
    tokenizer._tokenizer = wanted
    return tokenizer, f"{name}, made to split as {split!r}; transformers' cuts {unlike} texts otherwise"


def _text(fields: Any, name: str) -> str:
    return str(fields[name].contents()) if name in fields else ""


def _check_words(tokenizer: Any, words: list[str], made: str, model: str) -> None:
    """Hold the ids of a tokenizer against the words of a file.

    Raises:
        InputError: One has another id.
    """
    vocabulary = tokenizer.get_vocab()
    odd = [word for number, word in enumerate(words) if vocabulary.get(_spelled(word), number) != number]
    known = sum(_spelled(word) in vocabulary for word in words)
    if odd or known < len(words) * _KNOWN:
        raise InputError(
            f"model {model!r}: {made} has other words than the file"
            + (f" ({odd[0]!r} has another id)" if odd else f" ({len(words) - known:,} are missing)")
        )


_KNOWN = 0.99
"""Share of a file's words that a tokenizer must have: files fill their tables with words of no use."""


def _spelled(word: str) -> str:
    """A word as tokenizers write it: files hold blanks as they are."""
    return "▁" * len(word) if word and not word.strip(" ") else word


def _with_split(tokenizer: Any, expressions: tuple[str, ...]) -> Any:
    """Copy a byte-level tokenizer, with other expressions that it splits by."""
    from tokenizers import Tokenizer

    held = json.loads(tokenizer.backend_tokenizer.to_str())
    splits = [
        {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
        for expression in expressions
    ]
    levels = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    held["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, levels]}
    return Tokenizer.from_str(json.dumps(held))
