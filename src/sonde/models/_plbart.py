"""A fast tokenizer for PLBART, which was published with a SentencePiece model alone.

Transformers reads it with the package sentencepiece and gives no character offsets. The file is a protocol
buffer of pieces with scores; a byte-pair model with the same merges, best score first, cuts texts alike and
knows where each piece stands (Kudo and Richardson 2018). The order of ids is fairseq's, as in transformers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError

FILE = "sentencepiece.bpe.model"

_LIMIT = 64 << 20
_FIRST = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
_CODES = {
    "base": ("__java__", "__python__", "__en_XX__"),
    "multi": ("__java__", "__python__", "__en_XX__", "__javascript__", "__php__", "__ruby__", "__go__"),
}
_PIECE, _NORMALISER = 1, 3
_TEXT, _SCORE, _CHARACTERS = 1, 2, 2


def plbart_tokenizer(path: Path, settings: dict[str, Any], model: str) -> Any:
    """The tokenizer of a PLBART checkpoint.

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

    pieces, characters = _read(path, model)
    kind = str(settings.get("language_codes", "base"))
    if kind not in _CODES:
        raise InputError(f"model {model!r}: language_codes {kind!r} is unknown; known: {', '.join(_CODES)}")
    # fairseq puts its own four first, and leaves out the three that SentencePiece begins with.
    ids = _FIRST | {piece: number + 1 for number, (piece, _) in enumerate(pieces) if number > 2}
    first = len(pieces) + 1
    ids |= {code: first + place for place, code in enumerate(_CODES[kind])}
    special = [*_FIRST, *_CODES[kind]]
    if kind == "base":
        ids["<mask>"] = first + len(_CODES[kind])
    tokenizer = Tokenizer(models.BPE(ids, _merges(pieces[3:]), unk_token="<unk>", fuse_unk=True))
    blanks = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    replaced = [normalizers.Precompiled(characters)] if characters else []
    tokenizer.normalizer = normalizers.Sequence([*replaced, *blanks])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(special)
    if kind == "base":
        tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    language = settings.get("src_lang") or (None if kind == "base" else "en_XX")
    behind = ["</s>"] if language is None else ["</s>", f"__{str(language).strip('_')}__"]
    if behind[-1] not in ids:
        raise InputError(
            f"model {model!r}: src_lang {language!r} is unknown; known: {', '.join(_CODES[kind])}"
        )
    tokenizer.post_processor = TemplateProcessing(
        single=" ".join(["$A", *behind]), special_tokens=[(token, ids[token]) for token in behind]
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
    """Every pair of pieces that is a piece, in the order in which SentencePiece prefers what they make."""
    order = {piece: place for place, (piece, _) in enumerate(pieces)}
    found = [
        (-score, order[piece[:cut]], order[piece[cut:]], piece[:cut], piece[cut:])
        for piece, score in pieces
        for cut in range(1, len(piece))
        if piece[:cut] in order and piece[cut:] in order
    ]
    return [pair[3:] for pair in sorted(found)]


def _read(path: Path, model: str) -> tuple[list[tuple[str, float]], bytes]:
    """Pieces with scores, and the table that characters are replaced by."""
    try:
        if path.stat().st_size > _LIMIT:
            raise ValueError("it is too large")
        pieces: list[tuple[str, float]] = []
        characters = b""
        for number, value in _fields(path.read_bytes()):
            if number == _PIECE:
                held = dict(_fields(value))
                score = struct.unpack("<f", held[_SCORE])[0] if _SCORE in held else 0.0
                pieces.append((held[_TEXT].decode(), score))
            elif number == _NORMALISER:
                characters = dict(_fields(value)).get(_CHARACTERS, b"")
        if len(pieces) < 4:
            raise ValueError("it holds no pieces")
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise InputError(f"model {model!r}: {path.name} is no SentencePiece model; fetch it again") from error
    return pieces, characters


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Fields of a message of a protocol buffer that are strings, messages or floats, by number."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            _, at = _varint(raw, at)
            continue
        if kind == 2:
            size, at = _varint(raw, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("no protocol buffer")
        if at + size > len(raw):
            raise ValueError("cut short")
        yield number, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
