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
from sonde.alignment.subwords import shared_bytes
from sonde.alignment.vocabulary import BYTE_SPACE, SPACE, readable, spelled
from sonde.base.errors import InputError

_MARK = "bytes:"


_BYTES = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|<0x[0-9A-Fa-f]{2}>)+")


_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})|<0x([0-9A-Fa-f]{2})>")


UNFINISHED = "\ufffd"
"""Unicode character that many servers return in place of a partial character."""


def place_pieces(
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
    places: list[int] = []
    split: list[bool] = []
    at = place = 0
    while place < len(pieces) and at < len(text):
        found = _whole(text, at, pieces[place])
        run = 1
        if found is None:
            run = _run_of_bytes(pieces, place)
            found = _bytes_of(text, at, pieces[place : place + run], pieces[place + run : place + run + 1])
        if found is None:
            if not places:
                # A special token before the text.
                place += 1
                continue
            raise InputError(
                f"the server's tokens do not spell the text: {pieces[place]!r} where it goes on "
                f"{text[at : at + 20]!r}"
            )
        for _ in range(run):
            start.append(found[0])
            end.append(found[1])
            places.append(place)
            split.append(run > 1 or _whole(text, found[0], pieces[place]) is None)
            place += 1
        at = found[1]
    if text[at:].strip() or (text and not places):
        raise InputError(f"the server's tokens end before the text does, at {text[at : at + 20]!r}")
    return _subwords(text, pieces, ids, (start, end), places, split), np.array(places, np.int64)


def _subwords(
    text: str,
    pieces: Sequence[str],
    ids: Sequence[int] | None,
    spans: tuple[list[int], list[int]],
    places: list[int],
    split: list[bool],
) -> Subwords:
    start, end = (np.array(side, np.int64) for side in spans)
    data = text.encode("utf-8", "replace")
    begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    after = np.append(np.flatnonzero(begins), len(data))
    surfaces = tuple(_surface(pieces[place]) for place in places)
    lengths = shared_bytes(start, end, after, np.array(split, np.bool_))
    return Subwords(
        text=text,
        ids=np.array([_number(pieces[place]) if ids is None else ids[place] for place in places], np.int64),
        start=start,
        end=end,
        bytes=lengths,
        surface=surfaces,
        lossless=int(lengths.sum()) == len(data),
    )


def _whole(text: str, at: int, piece: str) -> tuple[int, int] | None:
    """Find a piece of complete characters at `position`, or after whitespace that it omits."""
    if not piece:
        return (at, at) if at else None
    for spelling in dict.fromkeys((piece, piece.replace(SPACE, " "), _vocabulary(piece))):
        if text.startswith(spelling, at):
            return at, at + len(spelling)
        blank = at + len(text[at:]) - len(text[at:].lstrip(" \t\n"))
        if blank > at and text.startswith(spelling, blank):
            return blank, blank + len(spelling)
        # A space that some tokenizers put before a text is not part of it.
        if at == 0 and spelling[:1] == " " and text.startswith(spelling[1:]):
            return 0, len(spelling) - 1
    return None


def _vocabulary(piece: str) -> str:
    """Decode a piece in GPT-2's byte-level spelling; return any other piece unchanged."""
    if BYTE_SPACE not in piece and "\u010a" not in piece and piece.isascii():
        return piece
    try:
        return spelled(piece).decode("utf-8")
    except UnicodeDecodeError:
        return piece


def _run_of_bytes(pieces: Sequence[str], place: int) -> int:
    """Count the consecutive pieces from `index` on that contain partial characters, at least 1."""
    run = 0
    while place + run < len(pieces) and _partial(pieces[place + run]):
        run += 1
    return max(run, 1)


def _partial(piece: str) -> bool:
    return UNFINISHED in piece or _raw(piece) is not None


def _raw(piece: str) -> bytes | None:
    r"""Parse a piece that is written as bytes; return None for any other piece.

    >>> _parse_bytes(r"bytes: \xe2\x82").hex()
    '20e282'
    """
    body = piece.removeprefix(_MARK)
    if body == piece and _BYTES.fullmatch(piece) is None:
        return None
    parts = _BYTE.split(body)
    # The split alternates literal text with the two groups of the pattern, of which one is a byte.
    return b"".join(
        parts[place].encode() + bytes.fromhex("".join(filter(None, parts[place + 1 : place + 3])))
        for place in range(0, len(parts), 3)
    )


def _bytes_of(text: str, at: int, run: Sequence[str], behind: Sequence[str]) -> tuple[int, int] | None:
    """Find the characters that partial pieces spell together: up to the start of the next piece.

    The first piece may contain a space or other complete characters.
    """
    if not all(map(_partial, run)):
        return None
    raw = [_raw(piece) for piece in run]
    if None not in raw:
        held = b"".join(filter(None, raw)).decode("utf-8", "replace")
        return (at, at + len(held)) if text.startswith(held, at) else None
    stop = at + 1
    while stop < len(text) and (text[stop - 1].isascii() or not _goes_on(text, stop, behind)):
        stop += 1
    return at, stop


def _goes_on(text: str, at: int, behind: Sequence[str]) -> bool:
    return not behind or _whole(text, at, behind[0]) is not None


def _surface(piece: str) -> str:
    if (raw := _raw(piece)) is not None:
        return readable(raw)
    whole = piece.replace(SPACE, " ")
    return whole if piece.isascii() or BYTE_SPACE not in piece else _vocabulary(whole)


def _number(piece: str) -> int:
    """Hash a spelling to a number, the same in every process; collisions are very rare."""
    return (
        int.from_bytes(hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=4).digest()) >> 1
    )
