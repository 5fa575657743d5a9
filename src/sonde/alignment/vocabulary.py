"""Vocabularies as text and bytes: the spelling of each id, and the ids that spell an answer.

Byte-level and SentencePiece vocabularies include a leading space in the piece: after a space both forms are
correct, inside a word only the form without. WordPiece instead marks continuations (``##x``): a piece that
starts a word has no mark, any other piece has one.

A `Codec` holds the exact bytes of every id; it is built once per tokenizer.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool, Int

from sonde.base.errors import InputError

_CONTINUATION_PREFIX = "##"


_WORDPIECE_SHARE = 0.02
"""Share of marked pieces above which a vocabulary counts as WordPiece, which has a fifth or more."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Surfaces of a vocabulary without marks.

    Attributes:
        texts: Text of each id, without leading space or mark; empty for ids without text.
        ids: Ids of each text.
        space_ids: Ids with a leading space.
        continuation_ids: Ids with the mark of a continuation.
        wordpiece: Whether the vocabulary marks continuations.
    """

    texts: tuple[str, ...]
    ids: dict[str, tuple[int, ...]]
    space_ids: frozenset[int]
    continuation_ids: frozenset[int]
    wordpiece: bool

    def right(self, answer: str, *, word_start: bool, initial: bool) -> tuple[int, ...]:
        """Return the ids that are correct for an answer.

        Args:
            answer: The characters of the answer.
            word_start: Whether it follows a space or starts the text.
            initial: Whether its piece starts a word for the tokenizer.
        """
        candidates = self.ids.get(answer, ())
        if self.wordpiece:
            return tuple(
                token_id for token_id in candidates if (token_id in self.continuation_ids) != initial
            )
        return (
            candidates
            if word_start
            else tuple(token_id for token_id in candidates if token_id not in self.space_ids)
        )


@lru_cache(maxsize=4)
def get_vocabulary(surfaces: tuple[str, ...]) -> Vocabulary:
    """Return the vocabulary with these surfaces, built once."""
    continuation_count = sum(
        surface.startswith(_CONTINUATION_PREFIX) and surface != _CONTINUATION_PREFIX for surface in surfaces
    )
    wordpiece = continuation_count > _WORDPIECE_SHARE * len(surfaces)
    texts: list[str] = []
    ids: dict[str, list[int]] = {}
    space_ids: set[int] = set()
    continuation_ids: set[int] = set()
    for token_id, surface in enumerate(surfaces):
        text = surface
        if wordpiece and surface.startswith(_CONTINUATION_PREFIX):
            text = surface.removeprefix(_CONTINUATION_PREFIX)
            continuation_ids.add(token_id)
        elif surface[:1].isspace():
            text = surface.lstrip()
            space_ids.add(token_id)
        texts.append(text)
        if text:
            ids.setdefault(text, []).append(token_id)
    ids_by_text = {text: tuple(token_ids) for text, token_ids in ids.items()}
    return Vocabulary(tuple(texts), ids_by_text, frozenset(space_ids), frozenset(continuation_ids), wordpiece)


SENTENCEPIECE_SPACE = "\u2581"
"""A space in SentencePiece vocabularies."""


BYTE_LEVEL_SPACE = "\u0120"
"""A space in GPT-2's vocabulary, where each character stands for a byte."""


_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True, eq=False)
class Codec:
    """A tokenizer prepared for alignment.

    Attributes:
        backend: A private copy without truncation and padding, which reads special tokens as text.
        spellings: Bytes of each id of a byte-level vocabulary; empty for other tokenizers.
        lengths: Number of bytes of each id.
        byte_piece: Whether each id is a byte of a character (``<0xE2>``).
        surfaces: Readable form of each id.
        unknown: Id of the unknown piece, -1 if there is none.
    """

    backend: Any
    spellings: tuple[bytes, ...]
    lengths: Int[np.ndarray, " vocab"]
    byte_piece: Bool[np.ndarray, " vocab"]
    surfaces: tuple[str, ...]
    unknown: int


_codecs: WeakKeyDictionary[Any, Codec] = WeakKeyDictionary()


def get_codec(tokenizer: Any) -> Codec:
    """Return the codec of a fast tokenizer, built on first use.

    Raises:
        InputError: The tokenizer gives no offsets.
    """
    codec = _codecs.get(tokenizer)
    if codec is None:
        codec = _codecs[tokenizer] = _build_codec(tokenizer)
    return codec


def _build_codec(tokenizer: Any) -> Codec:
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"{type(tokenizer).__name__} is a tokenizer without offsets; use a fast one (tokenizer.json)"
        )
    description_text = tokenizer.backend_tokenizer.to_str()
    backend = type(tokenizer.backend_tokenizer).from_str(description_text)
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    description = json.loads(description_text)
    vocabulary: dict[str, int] = backend.get_vocab(with_added_tokens=True)
    pieces = [""] * (max(vocabulary.values(), default=-1) + 1)
    for piece, token_id in vocabulary.items():
        pieces[token_id] = piece
    added_ids = {token["id"] for token in description["added_tokens"]}
    unknown = vocabulary.get(tokenizer.unk_token, -1) if tokenizer.unk_token else -1
    if _spells_bytes(description):
        spellings = tuple(
            piece.encode() if token_id in added_ids else decode_piece(piece)
            for token_id, piece in enumerate(pieces)
        )
        surfaces = tuple(format_spelling(piece_bytes) for piece_bytes in spellings)
        byte_piece = np.zeros(len(pieces), np.bool_)
    else:
        spellings = ()
        surfaces = tuple(piece.replace(SENTENCEPIECE_SPACE, " ") for piece in pieces)
        byte_piece = np.array([_BYTE_PIECE.fullmatch(piece) is not None for piece in pieces], np.bool_)
    lengths = np.array([len(piece_bytes) for piece_bytes in spellings], np.int64)
    return Codec(backend, spellings, lengths, byte_piece, surfaces, unknown)


def _spells_bytes(description: dict[str, Any]) -> bool:
    """Return whether vocabulary strings are byte-level: one character per byte, as in GPT-2."""
    parts: list[Any] = [description.get("pre_tokenizer"), description.get("normalizer")]
    while parts:
        part = parts.pop()
        if not part:
            continue
        if part["type"] == "ByteLevel":
            return True
        parts += part.get("pretokenizers", []) + part.get("normalizers", [])
    return False


_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))


_BYTE_OF_CHARACTER = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(0x100 + index): byte for index, byte in enumerate(sorted({*range(256)} - {*_PRINTABLE}))
}
"""GPT-2's table: printable bytes are their own characters, the others characters from U+0100 on."""


def decode_piece(piece: str) -> bytes:
    """Decode a byte-level vocabulary string to bytes.

    >>> decode_piece("\u0120caf\u00c3\u00a9").decode()
    ' caf\u00e9'
    """
    try:
        return bytes([_BYTE_OF_CHARACTER[character] for character in piece])
    except KeyError:
        return piece.encode()


def format_spelling(piece_bytes: bytes) -> str:
    """Format bytes as text, with ``<0xE2>`` for bytes that are no UTF-8.

    >>> format_spelling(bytes([0x61, 0xE2]))
    'a<0xE2>'
    """
    text = piece_bytes.decode("utf-8", "surrogateescape")
    return "".join(
        f"<0x{ord(character) - 0xDC00:02X}>" if "\udc80" <= character <= "\udcff" else character
        for character in text
    )
