"""A model's tokenizer, compared with its tokenizer.json; a fast tokenizer for PLBART.

A tokenizer is read once for each state of the model's files, and no weight is read.

Transformers builds some tokenizers from their class instead of from tokenizer.json. A class brings its own
split into words and its own normalisation, so a model whose file says otherwise would silently be given
subwords that it was never trained on; `match_tokenizer_file` prevents this.

PLBART was published with only a SentencePiece model. Transformers reads that file with the package
sentencepiece and gives no character offsets. The file is a protocol buffer of pieces with scores; a byte-pair
model with the same merges, best score first, cuts texts in the same way and knows where each piece is (Kudo
and Richardson 2018). The order of ids is fairseq's, as in transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.base.files import FileStamp
from sonde.models.engine.checks import check_tokenizer, tokenizer_fault
from sonde.models.engine.configuration import (
    load_auto_class,
    load_config,
    strip_weight_options,
    tokenizer_stamps,
)
from sonde.models.engine.family import ModelSpec
from sonde.models.engine.files import JSON_LIMIT, VOCABULARY_LIMIT, check_size, find_file, read_object
from sonde.models.engine.locate import locate_model
from sonde.models.engine.silence import one_line_errors
from sonde.models.engine.tokenizer_comparison import FILE, count_unlike, cut_texts

SENTENCEPIECE_FILE = "sentencepiece.bpe.model"


_FIRST = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}


_CODES = {
    "base": ("__java__", "__python__", "__en_XX__"),
    "multi": ("__java__", "__python__", "__en_XX__", "__javascript__", "__php__", "__ruby__", "__go__"),
}


def plbart_tokenizer(path: Path, settings: dict[str, Any], model: str) -> Any:
    """Build the tokenizer of a PLBART checkpoint.

    Args:
        path: Its SentencePiece model.
        settings: Its ``tokenizer_config.json``: ``language_codes`` and ``src_lang``.
        model: Its name, for errors.

    Raises:
        InputError: The file is no SentencePiece model, or the settings name unknown languages.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    pieces, characters = _read_pieces(path, model)
    kind = str(settings.get("language_codes", "base"))
    if kind not in _CODES:
        raise InputError(f"model {model!r}: language_codes {kind!r} is unknown; known: {', '.join(_CODES)}")
    # fairseq puts its own four first, and leaves out the three that SentencePiece begins with.
    ids = _FIRST | {piece: number + 1 for number, (piece, _) in enumerate(pieces) if number > 2}
    first = len(pieces) + 1
    ids |= {code: first + index for index, code in enumerate(_CODES[kind])}
    special = [*_FIRST, *_CODES[kind]]
    if kind == "base":
        ids["<mask>"] = first + len(_CODES[kind])
    tokenizer = Tokenizer(models.BPE(ids, _merges(pieces[3:]), unk_token="<unk>", fuse_unk=True))
    blanks = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    replacements = [normalizers.Precompiled(characters)] if characters else []
    tokenizer.normalizer = normalizers.Sequence([*replacements, *blanks])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(special)
    if kind == "base":
        tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    language = settings.get("src_lang") or (None if kind == "base" else "en_XX")
    suffix = ["</s>"] if language is None else ["</s>", f"__{str(language).strip('_')}__"]
    if suffix[-1] not in ids:
        raise InputError(
            f"model {model!r}: src_lang {language!r} is unknown; known: {', '.join(_CODES[kind])}"
        )
    tokenizer.post_processor = TemplateProcessing(
        single=" ".join(["$A", *suffix]), special_tokens=[(token, ids[token]) for token in suffix]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        mask_token="<mask>" if kind == "base" else None,
        additional_special_tokens=list(_CODES[kind]),
    )


def _merges(pieces: list[tuple[str, float]]) -> list[tuple[str, str]]:
    """List every pair of pieces that is a piece, in the order of SentencePiece's preference."""
    order = {piece: index for index, (piece, _) in enumerate(pieces)}
    merges = [
        (-score, order[piece[:length]], order[piece[length:]], piece[:length], piece[length:])
        for piece, score in pieces
        for length in range(1, len(piece))
        if piece[:length] in order and piece[length:] in order
    ]
    return [pair[3:] for pair in sorted(merges)]


def _read_pieces(path: Path, model: str) -> tuple[list[tuple[str, float]], bytes]:
    """Read the pieces with their scores, and the table that replaces characters."""
    from google.protobuf.message import DecodeError
    from transformers.convert_slow_tokenizer import import_protobuf

    library: Any = import_protobuf()
    check_size(path, model, JSON_LIMIT)
    try:
        proto = library.ModelProto.FromString(path.read_bytes())
        pieces = [(piece.piece, piece.score) for piece in proto.pieces]
        if len(pieces) < len(_FIRST):
            raise DecodeError("it has no pieces")
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"model {model!r}: {path.name} is not a SentencePiece model; fetch it again"
        ) from error
    return pieces, proto.normalizer_spec.precompiled_charsmap


_SETTINGS = {
    "do_lower_case": ("normalizer", "lowercase"),
    "strip_accents": ("normalizer", "strip_accents"),
    "tokenize_chinese_chars": ("normalizer", "handle_chinese_chars"),
    "add_prefix_space": ("pre_tokenizer", "add_prefix_space"),
}
"""Settings of tokenizer_config.json that change how a text is cut, each with what it is in the file."""


def may_be_read_from_file(spec: ModelSpec) -> bool:
    """Tell whether a model has a tokenizer.json, and no code of its own that would have to run beside it."""
    return find_file(locate_model(spec), FILE) is not None and "auto_map" not in _settings(spec)


def match_tokenizer_file(spec: ModelSpec, tokenizer: Any | None, settings: dict[str, Any]) -> tuple[Any, str]:
    """Return a tokenizer that cuts texts as its model's tokenizer.json does, and what was found.

    Args:
        spec: The model.
        tokenizer: What transformers makes of its files; None where its class cannot be made from them.
        settings: What it was made with beside the files.

    Returns:
        The tokenizer itself, or the file's where they differ; and a clause for ``run.json``, which names the
        class.

    Raises:
        InputError: The model's files contradict each other.
    """
    name = type(tokenizer).__name__
    path = find_file(locate_model(spec), FILE)
    if path is None:
        return tokenizer, f"{name}, without a {FILE}"
    reference_ids = _subwords_of_file(spec, path)
    if tokenizer is None:
        reason = "the class of its type cannot be made from it"
    elif not getattr(tokenizer, "is_fast", False):
        reason = f"{name} gives no character offsets"
    elif unlike := count_unlike(tokenizer, reference_ids):
        reason = f"{name} cuts {unlike} of {len(reference_ids)} texts otherwise"
    else:
        return tokenizer, f"{name}, as its {FILE}"
    _check_settings(spec, path)
    from transformers import PreTrainedTokenizerFast

    file_tokenizer = load_auto_class(PreTrainedTokenizerFast, spec, **settings)
    if unlike := count_unlike(file_tokenizer, reference_ids):
        raise InputError(
            f"model {spec.name!r}: {type(file_tokenizer).__name__} cuts {unlike} of "
            f"{len(reference_ids)} texts otherwise than its {FILE}; save the tokenizer again "
            "next to the model"
        )
    return file_tokenizer, f"its {FILE}, since {reason}"


def _subwords_of_file(spec: ModelSpec, path: Path) -> list[list[int]]:
    from tokenizers import Tokenizer

    with one_line_errors(f"model {spec.name!r}: its {FILE} cannot be read", fix="; fetch it again"):
        tokenizer = Tokenizer.from_file(str(path))
    return cut_texts(tokenizer)


def _check_settings(spec: ModelSpec, path: Path) -> None:
    """Refuse a tokenizer.json beside a tokenizer_config.json that says something else about the text.

    Raises:
        InputError: They contradict each other.
    """
    settings = _settings(spec)
    content = read_object(path, spec.name, limit=VOCABULARY_LIMIT)
    for setting, (part, field) in _SETTINGS.items():
        expected_value = settings.get(setting)
        if (
            expected_value is not None
            and (values := set(_values(content.get(part), field)))
            and values != {expected_value}
        ):
            raise InputError(
                f"model {spec.name!r}: its tokenizer_config.json has {setting} = {expected_value} and its "
                f"{FILE} {', '.join(map(str, sorted(values, key=str)))}; correct the one that is wrong"
            )


def _settings(spec: ModelSpec, file: str = "tokenizer_config.json") -> dict[str, Any]:
    path = find_file(locate_model(spec), file)
    return {} if path is None else read_object(path, spec.name)


def _values(node: Any, field: str) -> Iterator[Any]:
    """Yield every value of a field in a nested part of a tokenizer."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == field:
                yield value
            yield from _values(value, field)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, field)


def load_tokenizer(spec: ModelSpec) -> Any:
    """Return a model's fast tokenizer, which cuts texts as its tokenizer.json does where it has one.

    Raises:
        UnknownNameError: No model has this name.
        InputError: It cannot be reached, or gives no character offsets.
    """
    return _read_tokenizer(strip_weight_options(spec), tokenizer_stamps(spec))[0]


def tokenizer_fact(spec: ModelSpec) -> str:
    """Return which class a model's tokenizer has and how it compares with its tokenizer.json, as a clause."""
    return _read_tokenizer(strip_weight_options(spec), tokenizer_stamps(spec))[1]


@lru_cache(maxsize=4)
def _read_tokenizer(spec: ModelSpec, stamps: tuple[FileStamp, ...]) -> tuple[Any, str]:
    from transformers import AutoTokenizer

    pieces_tokenizer = _published_by_pieces(spec)
    if pieces_tokenizer is not None:
        return pieces_tokenizer, f"made from its {SENTENCEPIECE_FILE}"
    old = _old_special_tokens(spec)
    try:
        tokenizer = load_auto_class(AutoTokenizer, spec, **old)
    except InputError as error:
        if (reason := tokenizer_fault(spec)) is not None:
            raise InputError(f"model {spec.name!r}: {reason}") from error
        if not may_be_read_from_file(spec):
            raise
        tokenizer = None
    tokenizer, fact = match_tokenizer_file(spec, tokenizer, old)
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"model {spec.name!r}: {type(tokenizer).__name__} is a tokenizer without offsets; "
            "save a fast one (tokenizer.json) next to the model"
        )
    check_tokenizer(spec, tokenizer)
    return tokenizer, fact


def _published_by_pieces(spec: ModelSpec) -> Any | None:
    """Build the tokenizer of a model that transformers reads without character offsets, if possible."""
    location = locate_model(spec)
    if find_file(location, "config.json") is None or load_config(spec).model_type != "plbart":
        return None
    pieces = find_file(location, SENTENCEPIECE_FILE)
    if pieces is None or find_file(location, FILE) is not None:
        return None
    return plbart_tokenizer(pieces, _settings(spec), spec.name)


def _old_special_tokens(spec: ModelSpec) -> dict[str, Any]:
    """Return additional tokens written without their type (CodeT5), which transformers 5 does not read."""
    tokens = _settings(spec, "special_tokens_map.json").get("additional_special_tokens", [])
    if not any(isinstance(token, dict) and "__type" not in token for token in tokens):
        return {}
    from transformers import AddedToken

    return {
        "extra_special_tokens": [
            AddedToken(**token) if isinstance(token, dict) else token for token in tokens
        ]
    }
