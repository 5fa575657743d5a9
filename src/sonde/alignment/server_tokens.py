r"""Character spans of pieces that a server returns as text.

Servers return a piece as its characters. A piece that ends inside a character is ``bytes:\xe2\x82`` from some
servers and has U+FFFD in place of the bytes from others; a space may be the vocabulary's own character for
it, or missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from sonde.alignment.spans import Subwords
from sonde.alignment.subwords import assign_bytes
from sonde.alignment.vocabulary import BYTE_LEVEL_SPACE, SENTENCEPIECE_SPACE, decode_piece, format_spelling
from sonde.base.errors import InputError

_BYTES_PREFIX = "bytes:"


_BYTE_RUN = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|<0x[0-9A-Fa-f]{2}>)+")


_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})|<0x([0-9A-Fa-f]{2})>")


REPLACEMENT_CHARACTER = "\ufffd"
"""Unicode character that many servers return in place of a partial character."""


def locate_pieces(
    text: str, pieces: Sequence[str], ids: Sequence[int] | None = None
) -> tuple[Subwords, Int[np.ndarray, " subword"]]:
    """Locate pieces in the text that they spell.

    Args:
        text: The text.
        pieces: Pieces that a server has read, in order; special tokens before the text and the continuation
            after it are ignored.
        ids: Their vocabulary ids; None if the server returns none, and a hash of each spelling is used.

    Returns:
        The subwords of the text, and for each its index in `pieces`.

    Raises:
        InputError: The pieces do not spell the text.
    """
    start: list[int] = []
    end: list[int] = []
    indices: list[int] = []
    is_partial: list[bool] = []
    position = index = 0
    while index < len(pieces) and position < len(text):
        span = _find_whole_piece(text, position, pieces[index])
        count = 1
        if span is None:
            count = _count_partial_pieces(pieces, index)
            span = _find_partial_pieces(
                text, position, pieces[index : index + count], pieces[index + count : index + count + 1]
            )
        if span is None:
            if not indices:
                # A special token before the text.
                index += 1
                continue
            raise InputError(
                f"the server's tokens do not spell the text: {pieces[index]!r} where it goes on "
                f"{text[position : position + 20]!r}"
            )
        for _ in range(count):
            start.append(span[0])
            end.append(span[1])
            indices.append(index)
            is_partial.append(count > 1 or _find_whole_piece(text, span[0], pieces[index]) is None)
            index += 1
        position = span[1]
    if text[position:].strip() or (text and not indices):
        raise InputError(
            f"the server's tokens end before the text does, at {text[position : position + 20]!r}"
        )
    return _build_subwords(text, pieces, ids, (start, end), indices, is_partial), np.array(indices, np.int64)


def _build_subwords(
    text: str,
    pieces: Sequence[str],
    ids: Sequence[int] | None,
    spans: tuple[list[int], list[int]],
    indices: list[int],
    is_partial: list[bool],
) -> Subwords:
    start, end = (np.array(positions, np.int64) for positions in spans)
    data = text.encode("utf-8", "replace")
    is_first_byte = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    byte_offsets = np.append(np.flatnonzero(is_first_byte), len(data))
    surfaces = tuple(_get_surface(pieces[index]) for index in indices)
    lengths = assign_bytes(start, end, byte_offsets, np.array(is_partial, np.bool_))
    return Subwords(
        text=text,
        ids=np.array(
            [_hash_piece(pieces[index]) if ids is None else ids[index] for index in indices], np.int64
        ),
        start=start,
        end=end,
        bytes=lengths,
        surface=surfaces,
        lossless=int(lengths.sum()) == len(data),
    )


def _find_whole_piece(text: str, position: int, piece: str) -> tuple[int, int] | None:
    """Find a piece of complete characters at `position`, or after whitespace that it omits."""
    if not piece:
        return (position, position) if position else None
    for candidate in dict.fromkeys(
        (piece, piece.replace(SENTENCEPIECE_SPACE, " "), _decode_byte_level(piece))
    ):
        if text.startswith(candidate, position):
            return position, position + len(candidate)
        text_start = position + len(text[position:]) - len(text[position:].lstrip(" \t\n"))
        if text_start > position and text.startswith(candidate, text_start):
            return text_start, text_start + len(candidate)
        # A space that some tokenizers put before a text is not part of it.
        if position == 0 and candidate[:1] == " " and text.startswith(candidate[1:]):
            return 0, len(candidate) - 1
    return None


def _decode_byte_level(piece: str) -> str:
    """Decode a piece in GPT-2's byte-level spelling; return any other piece unchanged."""
    if BYTE_LEVEL_SPACE not in piece and "\u010a" not in piece and piece.isascii():
        return piece
    try:
        return decode_piece(piece).decode("utf-8")
    except UnicodeDecodeError:
        return piece


def _count_partial_pieces(pieces: Sequence[str], index: int) -> int:
    """Count the consecutive pieces from `index` on that contain partial characters, at least 1."""
    count = 0
    while index + count < len(pieces) and _is_partial(pieces[index + count]):
        count += 1
    return max(count, 1)


def _is_partial(piece: str) -> bool:
    return REPLACEMENT_CHARACTER in piece or _parse_bytes(piece) is not None


def _parse_bytes(piece: str) -> bytes | None:
    r"""Parse a piece that is written as bytes; return None for any other piece.

    >>> _parse_bytes(r"bytes: \xe2\x82").hex()
    '20e282'
    """
    body = piece.removeprefix(_BYTES_PREFIX)
    if body == piece and _BYTE_RUN.fullmatch(piece) is None:
        return None
    parts = _BYTE.split(body)
    # The split alternates literal text with the two groups of the pattern, of which one is a byte.
    return b"".join(
        parts[index].encode() + bytes.fromhex("".join(filter(None, parts[index + 1 : index + 3])))
        for index in range(0, len(parts), 3)
    )


def _find_partial_pieces(
    text: str, position: int, partial_pieces: Sequence[str], following_pieces: Sequence[str]
) -> tuple[int, int] | None:
    """Find the characters that partial pieces spell together: up to the start of the next piece.

    The first piece may contain a space or other complete characters.
    """
    if not all(map(_is_partial, partial_pieces)):
        return None
    byte_strings = [_parse_bytes(piece) for piece in partial_pieces]
    if None not in byte_strings:
        characters = b"".join(filter(None, byte_strings)).decode("utf-8", "replace")
        return (position, position + len(characters)) if text.startswith(characters, position) else None
    stop = position + 1
    while stop < len(text) and (text[stop - 1].isascii() or not _continues_at(text, stop, following_pieces)):
        stop += 1
    return position, stop


def _continues_at(text: str, position: int, following_pieces: Sequence[str]) -> bool:
    return not following_pieces or _find_whole_piece(text, position, following_pieces[0]) is not None


def _get_surface(piece: str) -> str:
    if (piece_bytes := _parse_bytes(piece)) is not None:
        return format_spelling(piece_bytes)
    spaced_piece = piece.replace(SENTENCEPIECE_SPACE, " ")
    return (
        spaced_piece if piece.isascii() or BYTE_LEVEL_SPACE not in piece else _decode_byte_level(spaced_piece)
    )


def _hash_piece(piece: str) -> int:
    """Hash a spelling to a number, the same in every process; collisions are very rare."""
    return (
        int.from_bytes(hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=4).digest()) >> 1
    )
