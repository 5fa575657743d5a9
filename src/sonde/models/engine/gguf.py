"""GGUF files: llama.cpp's format, converted once to a checkpoint in sonde's cache, and its tokenizer.

The tokenizer that transformers builds is compared with what the file says. A file names how its tokenizer
splits a text into words before it merges, by a name that llama.cpp gave; for a name that transformers does
not know it silently uses GPT-2's split.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from contextlib import AbstractContextManager, redirect_stderr
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.files import write_atomic
from sonde.base.terminal import print_note
from sonde.models.engine.files import check_not_pointer, convert_once
from sonde.models.engine.silence import one_line_errors, silence_libraries
from sonde.models.engine.tokenizer_comparison import FILE, count_unlike, cut_texts

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


def match_gguf_tokenizer(file: Path, fields: Any, tokenizer: Any, model: str) -> tuple[Any, str]:
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
        file_tokenizer = PreTrainedTokenizerFast.from_pretrained(file.parent)
        _check_words(file_tokenizer, words, f"the {FILE} next to {file.name}", model)
        return file_tokenizer, f"the {FILE} next to it"
    _check_words(tokenizer, words, f"the {name} that transformers makes of {file.name}", model)
    if kind != "gpt2":
        return tokenizer, f"{name}, with the file's {len(words):,} words"
    if split not in _SPLITS:
        raise InputError(
            f"model {model!r}: {file.name} declares the tokenizer split {split!r}, which sonde "
            f"does not know; put the model's {FILE} next to the file"
        )
    split_tokenizer = _with_split(tokenizer, _SPLITS[split])
    unlike = count_unlike(tokenizer, cut_texts(split_tokenizer))
    if not unlike:
        return tokenizer, f"{name}, splits as {split!r}"
    tokenizer._tokenizer = split_tokenizer
    return tokenizer, f"{name}, made to split as {split!r}; transformers' cuts {unlike} texts otherwise"


def _text(fields: Any, name: str) -> str:
    return str(fields[name].contents()) if name in fields else ""


def _check_words(tokenizer: Any, words: list[str], subject: str, model: str) -> None:
    """Check the ids of a tokenizer against the words of a file.

    Raises:
        InputError: One has another id.
    """
    vocabulary = tokenizer.get_vocab()
    odd = [word for number, word in enumerate(words) if vocabulary.get(_spell_token(word), number) != number]
    known_count = sum(_spell_token(word) in vocabulary for word in words)
    if odd or known_count < len(words) * _KNOWN_SHARE:
        raise InputError(
            f"model {model!r}: {subject} has other words than the file"
            + (f" ({odd[0]!r} has another id)" if odd else f" ({len(words) - known_count:,} are missing)")
        )


_KNOWN_SHARE = 0.99
"""Share of a file's words that a tokenizer must have: files fill their tables with words of no use."""


def _spell_token(word: str) -> str:
    """Write a word as tokenizers do: files contain blanks as they are."""
    return "▁" * len(word) if word and not word.strip(" ") else word


def _with_split(tokenizer: Any, expressions: tuple[str, ...]) -> Any:
    """Copy a byte-level tokenizer, with other expressions that it splits by."""
    from tokenizers import Tokenizer

    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    splits = [
        {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
        for expression in expressions
    ]
    levels = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    definition["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, levels]}
    return Tokenizer.from_str(json.dumps(definition))


VERSION = "1"
"""Raised when the same file would be written otherwise; part of the name of a converted model's folder."""


FACTS = "gguf.json"


_MAGIC = b"GGUF"


_BYTES_A_NUMBER = 4


_SECONDS, _NUMBERS_A_SECOND, _WORDS_A_SECOND = 10, 20e6, 3300
"""What a busy core takes to begin, to dequantise, and to read vocabularies; measured on two files."""


_NEEDLESS = ("rope_freqs.weight",)
"""Tensors that transformers computes from the configuration; they count only where they are all ones."""


def convert_gguf(file: Path, model: str) -> Path:
    """Return the folder in sonde's cache that holds a GGUF file as safetensors; it is written on first use.

    Its numbers are those of the file in float32: dequantising is exact, and a smaller type would round again.

    Args:
        file: The file.
        model: Its name, for messages.

    Raises:
        UsageError: The package gguf is not installed.
        InputError: The file is damaged, or of an architecture or a tokenizer that transformers does not read.
        StoreError: The cache cannot be written.
    """
    return convert_once("gguf", [file], VERSION, partial(_convert, file, model))


def gguf_facts(folder: Path) -> dict[str, str]:
    """Return how a converted model was made, for ``run.json``; empty for any other."""
    path = folder / FACTS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _convert(file: Path, model: str, folder: Path) -> None:
    if find_spec("gguf") is None:
        raise UsageError(f"model {model!r}: GGUF files need the package gguf: pip install 'sonde[gguf]'")
    check_not_pointer(file, model)
    with file.open("rb") as handle:
        if handle.read(len(_MAGIC)) != _MAGIC:
            raise InputError(f"model {model!r}: {file.name} is not a GGUF file; fetch it again")
    with _reading_errors(file, model):
        from gguf import GGUFReader

        # Opened once: a large vocabulary takes it many seconds.
        reader = GGUFReader(file)
        quantisation, numbers = _read_quantisation(reader)
        words = len(reader.fields["tokenizer.ggml.tokens"].data)
    size = numbers * _BYTES_A_NUMBER / 1e9
    seconds = _SECONDS + numbers / _NUMBERS_A_SECOND + words / _WORDS_A_SECOND
    print_note(
        f"model {model!r}: dequantising {quantisation} once, {numbers / 1e6:,.0f} million "
        f"numbers: {size:.1f} GB in sonde's cache, {2 * size:.1f} GB of memory, about {seconds:.0f} s"
    )
    with _reading_errors(file, model), silence_libraries(), redirect_stderr(io.StringIO()):
        tokenizer_fact = _write_model(file, reader, folder, model)
    facts = {
        "gguf": f"{file.name}, {quantisation} dequantised to float32",
        "tokenizer": tokenizer_fact,
    }
    write_atomic(folder / FACTS, json.dumps(facts))


def _reading_errors(file: Path, model: str) -> AbstractContextManager[None]:
    """Turn whatever a reader of files says of a damaged one into a line."""
    return one_line_errors(
        f"model {model!r}: {file.name} cannot be read", exempt_kinds=(MemoryError, OSError)
    )


def _read_quantisation(reader: Any) -> tuple[str, int]:
    """Return the quantisation of most of a file's numbers (``Q4_K_M``), and how many numbers there are."""
    from gguf import LlamaFileType

    kinds: Counter[str] = Counter()
    for tensor in reader.tensors:
        kinds[tensor.tensor_type.name] += int(tensor.n_elements)
    file_type = reader.fields.get("general.file_type")
    quantisation = max(kinds, key=lambda kind: kinds[kind], default="")
    if file_type is not None:
        quantisation = (
            LlamaFileType(int(file_type.contents())).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        )
    return quantisation, kinds.total()


def _write_model(file: Path, reader: Any, target: Path, model: str) -> str:
    """Write configuration, weights and tokenizer; gives what was found of the tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    arguments = {"gguf_file": file.name}
    config = AutoConfig.from_pretrained(file.parent, **arguments)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    result: Any = kind.from_pretrained(
        file.parent, dtype=torch.float32, output_loading_info=True, low_cpu_mem_usage=True, **arguments
    )
    read, report = result
    if missing := sorted(report["missing_keys"]):
        raise InputError(
            f"model {model!r}: {file.name} lacks {missing[0]!r}, which its architecture requires"
        )
    _check_all_read(file, reader, read, model)
    tokenizer, tokenizer_fact = match_gguf_tokenizer(
        file, reader.fields, AutoTokenizer.from_pretrained(file.parent, **arguments), model
    )
    read.hf_quantizer = None
    read.is_quantized = False
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    read.config.dtype = torch.float32
    read.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return tokenizer_fact


def _check_all_read(file: Path, reader: Any, read: Any, model: str) -> None:
    """Refuse a file with numbers that transformers has no place for.

    Raises:
        InputError: It has.
    """
    sizes = {tensor.data_ptr(): tensor.numel() for tensor in read.state_dict().values()}
    tensors = {str(tensor.name): tensor for tensor in reader.tensors}
    for name in _NEEDLESS:
        if name in tensors and bool((tensors[name].data == 1).all()):
            del tensors[name]
    surplus = sum(int(tensor.n_elements) for tensor in tensors.values()) - sum(sizes.values())
    if surplus:
        shapes = {tuple(tensor.shape) for tensor in read.state_dict().values()}
        odd = next((name for name, tensor in tensors.items() if tuple(tensor.shape[::-1]) not in shapes), "")
        such_as = f" (such as {odd!r})" if odd else ""
        amount = f"{abs(surplus):,} numbers {'less' if surplus > 0 else 'more'}"
        raise InputError(
            f"model {model!r}: transformers reads {amount} than {file.name} has{such_as}; name "
            "the checkpoint that it was made from"
        )
