"""GGUF files: what llama.cpp reads becomes a checkpoint in sonde's cache, once."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.files import cache_folder, write_atomic
from sonde.base.terminal import note
from sonde.models._convert import write_folder
from sonde.models._gguf_tokenizer import as_the_file_says
from sonde.models._headers import check_fetched
from sonde.models._quiet import one_line, quiet
from sonde.models._resolve import files_hash

VERSION = "1"
"""Raised when the same file would be written otherwise; part of the name of a converted model's folder."""

FACTS = "gguf.json"

_MAGIC = b"GGUF"
_BYTES_A_NUMBER = 4
_SECONDS, _NUMBERS_A_SECOND, _WORDS_A_SECOND = 10, 20e6, 3300
"""What a busy core takes to begin, to dequantise, and to read vocabularies; measured on two files."""

_NEEDLESS = ("rope_freqs.weight",)
"""Tensors that transformers computes from the configuration; they count only where they are all ones."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says of itself.

    Attributes:
        architecture: As llama.cpp names it.
        quantisation: Of most of its numbers (``Q4_K_M``).
        numbers: How many its tensors hold.
        words: Of its vocabulary.
    """

    architecture: str
    quantisation: str
    numbers: int
    words: int


def converted_gguf(file: Path, model: str) -> Path:
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
    folder = cache_folder("gguf") / f"{files_hash([file])}-{VERSION}"
    if not folder.is_dir():
        _convert(file, folder, model)
    return folder


def gguf_facts(folder: Path) -> dict[str, str]:
    """Return how a converted model was made, for ``run.json``; empty for any other."""
    path = folder / FACTS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _convert(file: Path, folder: Path, model: str) -> None:
    if find_spec("gguf") is None:
        raise UsageError(f"model {model!r}: GGUF files need the package gguf: pip install 'sonde[gguf]'")
    check_fetched(file, model)
    with file.open("rb") as handle:
        if handle.read(len(_MAGIC)) != _MAGIC:
            raise InputError(f"model {model!r}: {file.name} is no GGUF file; fetch it again")
    with _one_line(file, model):
        from gguf import GGUFReader

        # Opened once: a large vocabulary takes it many seconds.
        reader = GGUFReader(file)
        header = _read_header(reader)
    size = header.numbers * _BYTES_A_NUMBER / 1e9
    seconds = _SECONDS + header.numbers / _NUMBERS_A_SECOND + header.words / _WORDS_A_SECOND
    note(
        f"model {model!r}: dequantising {header.quantisation} once, {header.numbers / 1e6:,.0f} million "
        f"numbers: {size:.1f} GB in sonde's cache, {2 * size:.1f} GB of memory, about {seconds:.0f} s"
    )

    def write(made: Path) -> None:
        with _one_line(file, model), quiet(), redirect_stderr(io.StringIO()):
            said = _write_model(file, reader, made, model)
        facts = {"gguf": f"{file.name}, {header.quantisation} dequantised to float32", "tokenizer": said}
        write_atomic(made / FACTS, json.dumps(facts))

    write_folder(folder, write)


@contextmanager
def _one_line(file: Path, model: str) -> Generator[None]:
    """Turn whatever a reader of files says of a damaged one into a line."""
    try:
        yield
    except (InputError, StoreError, UsageError, MemoryError, OSError):
        raise
    except Exception as error:
        raise InputError(f"model {model!r}: {file.name} cannot be read: {one_line(error)}") from error


def _read_header(reader: Any) -> GgufHeader:
    from gguf import LlamaFileType

    kinds: Counter[str] = Counter()
    for tensor in reader.tensors:
        kinds[tensor.tensor_type.name] += int(tensor.n_elements)
    named = reader.fields.get("general.file_type")
    quantisation = max(kinds, key=lambda kind: kinds[kind], default="")
    if named is not None:
        quantisation = LlamaFileType(int(named.contents())).name.removeprefix("MOSTLY_").removeprefix("ALL_")
    architecture = str(reader.fields["general.architecture"].contents())
    words = len(reader.fields["tokenizer.ggml.tokens"].data)
    return GgufHeader(architecture, quantisation, kinds.total(), words)


def _write_model(file: Path, reader: Any, target: Path, model: str) -> str:
    """Write configuration, weights and tokenizer; gives what was found of the tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    given = {"gguf_file": file.name}
    config = AutoConfig.from_pretrained(file.parent, **given)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    loaded: Any = kind.from_pretrained(
        file.parent, dtype=torch.float32, output_loading_info=True, low_cpu_mem_usage=True, **given
    )
    read, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise InputError(
            f"model {model!r}: {file.name} lacks {missing[0]!r}, which its architecture asks for"
        )
    _check_all_read(file, reader, read, model)
    tokenizer, said = as_the_file_says(
        file, reader.fields, AutoTokenizer.from_pretrained(file.parent, **given), model
    )
    read.hf_quantizer = None
    read.is_quantized = False
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    read.config.dtype = torch.float32
    read.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return said


def _check_all_read(file: Path, reader: Any, read: Any, model: str) -> None:
    """Refuse a file with numbers that transformers has no place for.

    Raises:
        InputError: It has.
    """
    own = {tensor.data_ptr(): tensor.numel() for tensor in read.state_dict().values()}
    held = {str(tensor.name): tensor for tensor in reader.tensors}
    for name in _NEEDLESS:
        if name in held and bool((held[name].data == 1).all()):
            del held[name]
    surplus = sum(int(tensor.n_elements) for tensor in held.values()) - sum(own.values())
    if surplus:
        shapes = {tuple(tensor.shape) for tensor in read.state_dict().values()}
        odd = next((name for name, tensor in held.items() if tuple(tensor.shape[::-1]) not in shapes), "")
        such_as = f" (such as {odd!r})" if odd else ""
        amount = f"{abs(surplus):,} numbers {'less' if surplus > 0 else 'more'}"
        raise InputError(
            f"model {model!r}: transformers reads {amount} than "
            f"{file.name} holds{such_as}; name the checkpoint that it was made from"
        )
