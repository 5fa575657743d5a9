"""Pieces of a text that end at given places, and are the tokenizer's own everywhere else.

The text is encoded whole. Only a word that a piece carries over a cut is cut there, and its parts are given
to the tokenizer's model by themselves, as it would have got them from the pre-tokenizer: what goes on in a
word stays marked so (``##``), and no blank is put before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from sonde.alignment._codec import BYTE_SPACE, SPACE, Codec


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
            covered = _characters(codec, text[at:stop], max(first - before, 0), max(last - before, 0))
            found.append(Piece(number, at + covered[0], at + covered[1]))
        reached = beyond
    return found


def _between(cuts: Sequence[int], start: int, end: int) -> Sequence[int]:
    """The cuts inside a span; cuts are in order."""
    return cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]


def _length(codec: Codec, text: str) -> int:
    """Length of a text in what the tokenizer's model counts: bytes, one character each, or characters."""
    return len(text.encode()) if codec.spellings else len(text)


def _characters(codec: Codec, text: str, first: int, last: int) -> tuple[int, int]:
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
