"""From text to subwords with the characters and bytes that each stands for.

Two ways, by what the vocabulary says. Byte-level vocabularies spell the bytes of every piece, so spans follow
from the pieces alone and the tokenizer's offsets, which differ between versions inside multi-byte characters
and around leading spaces, are not needed. Elsewhere (WordPiece, SentencePiece, a normaliser that changed this
text) the offsets into the original text are put in order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from sonde.alignment.spans import Subwords
from sonde.alignment.vocabulary import BYTE_SPACE, SPACE, Codec, codec_of


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece: its vocabulary id and the characters that it covers."""

    number: int
    start: int
    end: int


def cut_pieces(
    codec: Codec, text: str, pieces: Sequence[Piece], words: Sequence[int | None], cuts: Sequence[int]
) -> list[Piece]:
    """The pieces of a text with those replaced that go over a cut.

    One space before a cut belongs to the piece behind it, as in the tokenizer's own pieces; other blanks, as
    a line break, do not. A word whose characters the normaliser has changed in number stays as it is.

    Args:
        codec: The tokenizer.
        text: What was encoded.
        pieces: Its pieces.
        words: For each of them the number of its word, None for one that is a word by itself.
        cuts: Characters at which no piece may go on, in any order.
    """
    if getattr(codec.backend.model, "end_of_word_suffix", None):
        return list(pieces)
    cuts = sorted(cuts)
    found: list[Piece] = []
    numbered = enumerate(zip(pieces, words, strict=True))
    for _, group in groupby(numbered, key=lambda one: (one[1][1], one[0] if one[1][1] is None else -1)):
        word = [piece for _, (piece, _) in group]
        crossed = any(
            text[piece.start : cut] != " " for piece in word for cut in _between(cuts, piece.start, piece.end)
        )
        found += (_parts(codec, text, word, cuts) or word) if crossed else word
    return found


def _parts(codec: Codec, text: str, word: Sequence[Piece], cuts: Sequence[int]) -> list[Piece] | None:
    """The pieces of one word cut in parts; None where its characters are not those of the text."""
    start, end = word[0].start, max(piece.end for piece in word)
    spelled = _spelled(codec, text, word)
    added = len(spelled) - _length(codec, text[start:end])
    # A blank that the tokenizer put before the text is no character of it.
    if added not in (0, 1) or (added and spelled[0] not in (SPACE, BYTE_SPACE)):
        return None
    inside = (cut - (text[cut - 1] == " ") for cut in _between(cuts, start, end))
    found: list[Piece] = []
    reached = 0
    for at, stop in pairwise(sorted({start, end, *inside})):
        beyond = added + _length(codec, text[start:stop])
        before = added if at == start else 0
        for number, first, last in _tokenize(codec, spelled[reached:beyond], goes_on=at > start):
            covered = _spelled_characters(codec, text[at:stop], max(first - before, 0), max(last - before, 0))
            found.append(Piece(number, at + covered[0], at + covered[1]))
        reached = beyond
    return found


def _between(cuts: Sequence[int], start: int, end: int) -> Sequence[int]:
    """The cuts inside a span; cuts are in order."""
    return cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]


def _length(codec: Codec, text: str) -> int:
    """Length of a text in what the tokenizer's model counts: bytes, one character each, or characters."""
    return len(text.encode()) if codec.spellings else len(text)


def _spelled_characters(codec: Codec, text: str, first: int, last: int) -> tuple[int, int]:
    """The characters of a text that what the model counts lies in."""
    if not codec.spellings:
        return first, last
    data = text.encode()
    return len(data[:first].decode("utf-8", "ignore")), len(data[:last].decode("utf-8", "replace"))


def _spelled(codec: Codec, text: str, word: Sequence[Piece]) -> str:
    """A word as the tokenizer's model was given it."""
    parts: list[str] = []
    prefix = getattr(codec.backend.model, "continuing_subword_prefix", None) or ""
    reached = -1
    for place, piece in enumerate(word):
        if piece.number == codec.unknown or codec.byte_piece[piece.number]:
            # Bytes of one character share its place; a blank put before a word lies on its first character.
            parts.append(text[max(piece.start, reached) : piece.end] if piece.end > reached else "")
            reached = piece.end
        else:
            name = codec.backend.id_to_token(piece.number)
            parts.append(name.removeprefix(prefix) if place else name)
    return "".join(parts)


def _tokenize(codec: Codec, part: str, *, goes_on: bool) -> Iterator[tuple[int, int, int]]:
    """Ids of a part of a word, each with its first character and the one past its last in the part."""
    model = codec.backend.model
    prefix = getattr(model, "continuing_subword_prefix", None)
    if goes_on and prefix:
        yield from _longest(model, part, prefix)
        return
    data = part.encode()
    for token in model.tokenize(part):
        first, last = (len(data[:at].decode("utf-8", "ignore")) for at in token.offsets)
        yield token.id, first, last


def _longest(model: Any, part: str, prefix: str) -> Iterator[tuple[int, int, int]]:
    """What goes on in a word, the longest piece first, as WordPiece takes them; unknown as a whole."""
    found: list[tuple[int, int, int]] = []
    at = 0
    while at < len(part):
        ends = range(len(part), at, -1)
        known = ((model.token_to_id(prefix + part[at:end]), end) for end in ends)
        number, end = next((one for one in known if one[0] is not None), (None, 0))
        if number is None:
            yield model.token_to_id(model.unk_token), 0, len(part)
            return
        found.append((number, at, end))
        at = end
    yield from found


_SURROGATE_STAND_IN = "\ufffd"


def encode(tokenizer: Any, text: str, cuts: Sequence[int] = ()) -> Subwords:
    """The subwords of a text: no special tokens, no truncation.

    A special token that occurs in the text is text. A lone surrogate, which has no UTF-8, is read as U+FFFD,
    as parsers read it; both take three bytes.

    Args:
        tokenizer: A fast transformers tokenizer.
        text: Any text.
        cuts: Characters at which no piece may go on, but for one space before them, which belongs to the
            piece behind it; see `sonde.alignment.subwords`.

    Raises:
        InputError: The tokenizer gives no offsets.
    """
    codec = codec_of(tokenizer)
    data, legible = _utf8(text)
    found = codec.backend.encode(legible, add_special_tokens=False)
    pieces = _placed(codec, text, data, found.ids, lambda: found.offsets)
    if not cuts:
        return pieces
    spans = zip(found.ids, pieces.start.tolist(), pieces.end.tolist(), strict=True)
    held = cut_pieces(codec, legible, [Piece(*span) for span in spans], found.word_ids, cuts)
    return _placed(
        codec, text, data, [piece.number for piece in held], lambda: [(one.start, one.end) for one in held]
    )


def _placed(
    codec: Codec,
    text: str,
    data: bytes,
    numbers: list[int],
    offsets: Callable[[], Sequence[tuple[int, int]]],
) -> Subwords:
    """Pieces with what each stands for, from their spellings or else from offsets.

    To hand its offsets over takes a tokenizer time, so it is asked for them where they are needed.
    """
    ids = np.array(numbers, np.int64)
    spelled = _by_spelling(codec, numbers, ids, data) if codec.spellings else None
    if spelled is not None:
        start, end, lengths = _characters(*spelled, data, len(text))
    else:
        spans = np.array(offsets(), np.int64).reshape(-1, 2)
        start, end = ordered(spans[:, 0], spans[:, 1], len(text))
        lengths = shared_bytes(start, end, _byte_ends(text, data), codec.byte_piece[ids])
    return Subwords(
        text=text,
        ids=ids,
        start=start,
        end=end,
        bytes=lengths,
        surface=tuple(map(codec.surfaces.__getitem__, numbers)),
        lossless=spelled is not None,
        unknown=numbers.count(codec.unknown),
        unknown_id=codec.unknown,
    )


def surfaces(tokenizer: Any, size: int = 0) -> tuple[str, ...]:
    """Readable form of every vocabulary id.

    Args:
        tokenizer: A fast transformers tokenizer.
        size: Of the model's output vocabulary where it is larger than the tokenizer's; its further ids are
            spelled ``<unused N>``.
    """
    known = codec_of(tokenizer).surfaces
    return known + tuple(f"<unused {number}>" for number in range(len(known), size))


def _utf8(text: str) -> tuple[bytes, str]:
    try:
        return text.encode("utf-8"), text
    except UnicodeEncodeError:
        legible = "".join(_SURROGATE_STAND_IN if "\ud800" <= c <= "\udfff" else c for c in text)
        return legible.encode("utf-8"), legible


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """The text cut at the ends of its pieces: what each piece answers for, gaps before it included.

    The first piece answers for all before it and the last one for all behind it, so that the columns add up
    to the text, whatever a tokenizer leaves out of it or changes in it.

    Attributes:
        characters: Characters of each stretch.
        bytes: Their UTF-8.
        covered: Characters among them that the piece itself stands for; none where it is the unknown piece.
    """

    characters: Int[np.ndarray, " subword"]
    bytes: Int[np.ndarray, " subword"]
    covered: Int[np.ndarray, " subword"]


def stretches(subwords: Subwords) -> Stretches:
    """Cut a text at the ends of its pieces.

    >>> cut = stretches(Subwords("ab  c ", *np.array([[1, 2], [0, 4], [2, 5], [2, 1]]), ("ab", "c")))
    >>> cut.characters.tolist(), cut.bytes.tolist(), cut.covered.tolist()
    ([2, 4], [2, 4], [2, 1])
    """
    data, _ = _utf8(subwords.text)
    after = _byte_ends(subwords.text, data)
    reach = np.maximum.accumulate(subwords.end)
    begin = np.concatenate([reach[:0], [0], reach[:-1]])[: len(reach)]
    known = subwords.ids != subwords.unknown_id
    covered = np.where(known, np.maximum(reach - np.maximum(begin, subwords.start), 0), 0)
    reach[-1:] = len(subwords.text)
    # Pieces inside one character share its bytes, which the stretches of characters cannot say.
    lengths = subwords.bytes if subwords.lossless else after[reach] - after[begin]
    return Stretches(reach - begin, lengths, covered)


def _byte_ends(text: str, data: bytes) -> Int[np.ndarray, " character_and_end"]:
    """Bytes before each character and before the end."""
    if len(data) == len(text):
        return np.arange(len(text) + 1)
    begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    return np.append(np.flatnonzero(begins), len(data))


def _by_spelling(
    codec: Codec, numbers: list[int], ids: Int[np.ndarray, " subword"], data: bytes
) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]] | None:
    """First byte and end byte of each piece, None where the pieces do not spell the text.

    A space that the tokenizer put before the text is no byte of it.
    """
    spelling = b"".join(map(codec.spellings.__getitem__, numbers))
    lengths = codec.lengths[ids]
    ends = np.cumsum(lengths)
    if spelling == data:
        return ends - lengths, ends
    if spelling == b" " + data:
        return np.maximum(ends - lengths - 1, 0), np.maximum(ends - 1, 0)
    return None


def _characters(
    first: Int[np.ndarray, " subword"], beyond: Int[np.ndarray, " subword"], data: bytes, size: int
) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]]:
    """Characters of byte spans, and their bytes; a piece that cuts a character covers all of it."""
    lengths = beyond - first
    if len(data) == size:
        return first, beyond, lengths
    begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    # Characters that begin before each byte: one less than those up to a byte inside is the one it is in.
    before = np.concatenate([[0], np.cumsum(begins)])
    start = before[np.minimum(first + 1, len(data))] - 1
    empty = lengths == 0
    end = np.where(empty, start, before[beyond])
    return np.maximum(start, 0), np.maximum(end, 0), lengths


def ordered(
    start: Int[np.ndarray, " subword"], end: Int[np.ndarray, " subword"], size: int
) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]]:
    """Spans inside the text whose starts and ends never go back.

    Normalisers that reorder or compose characters give offsets that step back by a character or two; such
    a piece begins where the one before it does.
    """
    start = np.maximum.accumulate(np.clip(start, 0, size))
    end = np.maximum.accumulate(np.clip(np.maximum(end, start), 0, size))
    return start, end


def shared_bytes(
    start: Int[np.ndarray, " subword"],
    end: Int[np.ndarray, " subword"],
    after: Int[np.ndarray, " character_and_end"],
    byte_piece: Bool[np.ndarray, " subword"],
) -> Int[np.ndarray, " subword"]:
    """Bytes of the characters that a piece covers and no piece before it does; they sum to what is covered.

    Pieces that are single bytes (``<0xE2>``) share a character: each takes one of its bytes, the last of
    them what is left.

    Args:
        start: First character of each piece.
        end: One past its last.
        after: Bytes before each character, and in all.
        byte_piece: Whether a piece is a single byte.
    """
    reached = np.concatenate([[0], end[:-1]]) if len(end) else end
    taken = np.maximum(after[end] - after[np.maximum(start, np.minimum(reached, end))], 0)
    if not byte_piece.any():
        return taken
    same = np.flatnonzero(
        np.append(True, (np.diff(start) != 0) | (np.diff(end) != 0) | ~byte_piece[1:] | ~byte_piece[:-1])
    )
    counts = np.diff(np.append(same, len(start)))
    for first, count in zip(same[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
        whole = int(taken[first : first + count].sum())
        share = np.minimum(1, np.maximum(whole - np.arange(count), 0))
        share[-1] += whole - share.sum()
        taken[first : first + count] = share
    return taken
