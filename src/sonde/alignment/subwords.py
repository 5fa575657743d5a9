"""Tokenisation of a text into subwords with their characters and bytes, also with given cuts.

`Subwords` and `Alignment` are the columns of subwords and of their alignment with code tokens and syntax
nodes.

Byte-level vocabularies spell the bytes of every piece, so spans follow from the pieces. The tokenizer's
offsets are not used then: they differ between versions inside multi-byte characters and around leading
spaces. Otherwise (WordPiece, SentencePiece, a normaliser that changed the text) spans are the tokenizer's
offsets into the original text, made monotonic.

Pieces can be made to end at given cuts; elsewhere they stay the tokenizer's own. The text is encoded as a
whole. Only a word with a piece that crosses a cut is split there, and each part is passed to the tokenizer's
model as the pre-tokenizer would pass it: a continuation keeps its mark (``##``), and no space is added before
it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from sonde.alignment.vocabulary import BYTE_LEVEL_SPACE, SENTENCEPIECE_SPACE, Codec, get_codec


@dataclass(frozen=True, slots=True, eq=False)
class Subwords:
    """Subwords of a text, without special tokens.

    Attributes:
        text: The text.
        ids: Vocabulary ids.
        start: First character that the piece covers.
        end: One past the last character. Byte-level pieces inside one multi-byte character share its span.
        bytes: Number of UTF-8 bytes of the text that the piece stands for; they sum to the text's bytes if
            the tokenizer is lossless.
        surface: A readable form of each piece; distinct ids may share one.
        lossless: Whether the pieces spell exactly the text's bytes.
        unknown: Number of pieces that are not in the vocabulary.
        unknown_id: Id of the unknown token; -1 if the vocabulary has none.
    """

    text: str
    ids: Int[np.ndarray, " subword"]
    start: Int[np.ndarray, " subword"]
    end: Int[np.ndarray, " subword"]
    bytes: Int[np.ndarray, " subword"]
    surface: tuple[str, ...]
    lossless: bool = False
    unknown: int = 0
    unknown_id: int = -1

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Subwords of a text with their code tokens and syntax nodes, many to many.

    Attributes:
        subwords: The subwords.
        first: First code token with visible characters of the piece.
        last: One past the last such token; ``last - first`` is 0 for layout, above 1 for merged pieces.
        node: Row of the lowest syntax node with all visible characters of the piece: the token's node, the
            lowest common ancestor of a merged piece, -1 for layout.
        kind: Name of the token kind; ``"layout"`` for whitespace, ``"merged"`` for pieces over several
            tokens.
        role: Role of the token; empty if it has none or the piece is merged.
        tag: ``parent -> node`` of the token; ``a -> b + c -> d`` for merged pieces; ``"layout"`` for
            whitespace.
        coverage: How much of the text the alignment explains.
    """

    subwords: Subwords
    first: Int[np.ndarray, " subword"]
    last: Int[np.ndarray, " subword"]
    node: Int[np.ndarray, " subword"]
    kind: tuple[str, ...]
    role: tuple[str, ...]
    tag: tuple[str, ...]
    coverage: Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Counts of an alignment; they add up over items.

    Attributes:
        characters: Characters of the text.
        covered: Characters that at least one piece covers.
        subwords: Pieces.
        merged: Pieces over several code tokens.
        layout: Pieces of whitespace only.
        unknown: Pieces that are not in the vocabulary.
        tokens: Code tokens.
        tokens_whole: Code tokens that start and end at piece boundaries (leading whitespace aside).
    """

    characters: int
    covered: int
    subwords: int
    merged: int
    layout: int
    unknown: int
    tokens: int
    tokens_whole: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece with its vocabulary id and the characters that it covers."""

    number: int
    start: int
    end: int


def cut_pieces(
    codec: Codec, text: str, pieces: Sequence[Piece], words: Sequence[int | None], cuts: Sequence[int]
) -> list[Piece]:
    """Replace the pieces that cross a cut by pieces that end there.

    A space before a cut belongs to the piece after it, as in the tokenizer's own pieces; other whitespace,
    such as a line break, does not. A word stays if the normaliser has changed its number of characters.

    Args:
        codec: The tokenizer.
        text: The encoded text.
        pieces: Its pieces.
        words: Number of the word of each piece; None for a piece that is a word by itself.
        cuts: Characters at which a new piece has to start, in any order.
    """
    if getattr(codec.backend.model, "end_of_word_suffix", None):
        return list(pieces)
    cuts = sorted(cuts)
    result: list[Piece] = []
    indexed_pieces = enumerate(zip(pieces, words, strict=True))
    for _, group in groupby(
        indexed_pieces, key=lambda entry: (entry[1][1], entry[0] if entry[1][1] is None else -1)
    ):
        word = [piece for _, (piece, _) in group]
        is_cut = any(
            text[piece.start : cut] != " "
            for piece in word
            for cut in _find_cuts(cuts, piece.start, piece.end)
        )
        result += (_split_word(codec, text, word, cuts) or word) if is_cut else word
    return result


def _split_word(codec: Codec, text: str, word: Sequence[Piece], cuts: Sequence[int]) -> list[Piece] | None:
    """Tokenize a word in parts between cuts; None if its spelling differs from the text."""
    start, end = word[0].start, max(piece.end for piece in word)
    spelling = _spell_word(codec, text, word)
    prefix_length = len(spelling) - _count_units(codec, text[start:end])
    # A space that the tokenizer put before the text is not part of it.
    if prefix_length not in (0, 1) or (
        prefix_length and spelling[0] not in (SENTENCEPIECE_SPACE, BYTE_LEVEL_SPACE)
    ):
        return None
    inner_cuts = (cut - (text[cut - 1] == " ") for cut in _find_cuts(cuts, start, end))
    result: list[Piece] = []
    spelling_start = 0
    for part_start, part_end in pairwise(sorted({start, end, *inner_cuts})):
        spelling_end = prefix_length + _count_units(codec, text[start:part_end])
        offset = prefix_length if part_start == start else 0
        for number, first, last in _tokenize_part(
            codec, spelling[spelling_start:spelling_end], is_continuation=part_start > start
        ):
            characters = _units_to_characters(
                codec, text[part_start:part_end], max(first - offset, 0), max(last - offset, 0)
            )
            result.append(Piece(number, part_start + characters[0], part_start + characters[1]))
        spelling_start = spelling_end
    return result


def _find_cuts(cuts: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Find the cuts inside a span; `cuts` is sorted."""
    return cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]


def _count_units(codec: Codec, text: str) -> int:
    """Count the units of a text for the tokenizer's model: bytes if it is byte-level, else characters."""
    return len(text.encode()) if codec.spellings else len(text)


def _units_to_characters(codec: Codec, text: str, first: int, last: int) -> tuple[int, int]:
    """Convert a span in units of the tokenizer's model to characters."""
    if not codec.spellings:
        return first, last
    data = text.encode()
    return len(data[:first].decode("utf-8", "ignore")), len(data[:last].decode("utf-8", "replace"))


def _spell_word(codec: Codec, text: str, word: Sequence[Piece]) -> str:
    """Spell a word as the tokenizer's model has read it."""
    parts: list[str] = []
    prefix = getattr(codec.backend.model, "continuing_subword_prefix", None) or ""
    covered_end = -1
    for index, piece in enumerate(word):
        if piece.number == codec.unknown or codec.byte_piece[piece.number]:
            # Bytes of a character share its span; a space put before a word is on its first character.
            parts.append(text[max(piece.start, covered_end) : piece.end] if piece.end > covered_end else "")
            covered_end = piece.end
        else:
            name = codec.backend.id_to_token(piece.number)
            parts.append(name.removeprefix(prefix) if index else name)
    return "".join(parts)


def _tokenize_part(codec: Codec, part: str, *, is_continuation: bool) -> Iterator[tuple[int, int, int]]:
    """Tokenize a part of a word; yield the id, start and end of each piece in the part."""
    model = codec.backend.model
    prefix = getattr(model, "continuing_subword_prefix", None)
    if is_continuation and prefix:
        yield from _tokenize_continuation(model, part, prefix)
        return
    data = part.encode()
    for token in model.tokenize(part):
        first, last = (len(data[:offset].decode("utf-8", "ignore")) for offset in token.offsets)
        yield token.id, first, last


def _tokenize_continuation(model: Any, part: str, prefix: str) -> Iterator[tuple[int, int, int]]:
    """Tokenize a word's continuation by longest match, as WordPiece does; one unknown piece if that fails."""
    pieces: list[tuple[int, int, int]] = []
    position = 0
    while position < len(part):
        ends = range(len(part), position, -1)
        candidates = ((model.token_to_id(prefix + part[position:end]), end) for end in ends)
        number, end = next((candidate for candidate in candidates if candidate[0] is not None), (None, 0))
        if number is None:
            yield model.token_to_id(model.unk_token), 0, len(part)
            return
        pieces.append((number, position, end))
        position = end
    yield from pieces


def encode(tokenizer: Any, text: str, cuts: Sequence[int] = ()) -> Subwords:
    """Encode a text into subwords, without special tokens and truncation.

    A special token that occurs in the text is read as text. A lone surrogate, which has no UTF-8, is read as
    U+FFFD, as parsers do; both take three bytes.

    Args:
        tokenizer: A fast transformers tokenizer.
        text: Any text.
        cuts: Characters at which a new piece has to start; it includes a space before the cut.

    Raises:
        InputError: The tokenizer gives no offsets.
    """
    return next(encode_batch(tokenizer, [(text, cuts)]))


def encode_batch(tokenizer: Any, texts: Iterable[tuple[str, Sequence[int]]]) -> Iterator[Subwords]:
    """Encode several texts, each with its cuts, as `encode` does; the tokenizer gets some of them at a time.

    Args:
        tokenizer: A fast transformers tokenizer.
        texts: Texts with the characters at which a new piece has to start.

    Raises:
        InputError: The tokenizer gives no offsets.
    """
    codec = get_codec(tokenizer)
    remaining = iter(texts)
    while batch := list(islice(remaining, _TEXTS_TOGETHER)):
        encoded_texts = [_encode_utf8(text) for text, _ in batch]
        encodings = codec.backend.encode_batch(
            [legible for _, legible in encoded_texts], add_special_tokens=False
        )
        for (text, cuts), (data, legible), encoding in zip(batch, encoded_texts, encodings, strict=True):
            yield _cut_encoding(codec, text, data, legible, encoding, cuts)


_TEXTS_TOGETHER = 32


def _cut_encoding(
    codec: Codec, text: str, data: bytes, legible: str, encoding: Any, cuts: Sequence[int]
) -> Subwords:
    """Build the subwords of an encoded text, whose pieces that cross a cut are replaced."""
    pieces = _build_subwords(codec, text, data, encoding.ids, lambda: encoding.offsets)
    if not cuts:
        return pieces
    spans = zip(encoding.ids, pieces.start.tolist(), pieces.end.tolist(), strict=True)
    cut_result = cut_pieces(codec, legible, [Piece(*span) for span in spans], encoding.word_ids, cuts)
    return _build_subwords(
        codec,
        text,
        data,
        [piece.number for piece in cut_result],
        lambda: [(piece.start, piece.end) for piece in cut_result],
    )


def _build_subwords(
    codec: Codec,
    text: str,
    data: bytes,
    numbers: list[int],
    offsets: Callable[[], Sequence[tuple[int, int]]],
) -> Subwords:
    """Build subwords with spans from the spellings of pieces, or else from offsets.

    Offsets are a callable, since it takes the tokenizer time to return them.
    """
    ids = np.array(numbers, np.int64)
    byte_spans = _find_byte_spans(codec, numbers, ids, data) if codec.spellings else None
    if byte_spans is not None:
        start, end, lengths = _to_character_spans(*byte_spans, data, len(text))
    else:
        spans = np.array(offsets(), np.int64).reshape(-1, 2)
        start, end = make_monotonic(spans[:, 0], spans[:, 1], len(text))
        lengths = assign_bytes(start, end, _compute_byte_offsets(text, data), codec.byte_piece[ids])
    return Subwords(
        text=text,
        ids=ids,
        start=start,
        end=end,
        bytes=lengths,
        surface=tuple(map(codec.surfaces.__getitem__, numbers)),
        lossless=byte_spans is not None,
        unknown=numbers.count(codec.unknown),
        unknown_id=codec.unknown,
    )


def get_surfaces(tokenizer: Any, size: int = 0) -> tuple[str, ...]:
    """Return a readable form of every vocabulary id.

    Args:
        tokenizer: A fast transformers tokenizer.
        size: Size of the model's output vocabulary, if larger than the tokenizer's; the additional ids are
            spelled ``<unused N>``.
    """
    vocabulary_surfaces = get_codec(tokenizer).surfaces
    return vocabulary_surfaces + tuple(
        f"<unused {number}>" for number in range(len(vocabulary_surfaces), size)
    )


def _encode_utf8(text: str) -> tuple[bytes, str]:
    try:
        return text.encode("utf-8"), text
    except UnicodeEncodeError:
        legible = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
        return legible.encode("utf-8"), legible


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Segments of a text, which end where its pieces end and include the gaps before them.

    The last segment includes the rest of the text, so that the segments add up to the text even if a
    tokenizer omits or changes characters.

    Attributes:
        characters: Number of characters of each segment.
        bytes: Number of UTF-8 bytes of each segment.
        covered: Number of characters in the piece's own span; 0 for the unknown piece.
    """

    characters: Int[np.ndarray, " subword"]
    bytes: Int[np.ndarray, " subword"]
    covered: Int[np.ndarray, " subword"]


def split_segments(subwords: Subwords) -> Segments:
    """Split a text at the ends of its pieces.

    >>> cut = split_segments(Subwords("ab  c ", *np.array([[1, 2], [0, 4], [2, 5], [2, 1]]), ("ab", "c")))
    >>> cut.characters.tolist(), cut.bytes.tolist(), cut.covered.tolist()
    ([2, 4], [2, 4], [2, 1])
    """
    data, _ = _encode_utf8(subwords.text)
    byte_offsets = _compute_byte_offsets(subwords.text, data)
    ends = np.maximum.accumulate(subwords.end)
    starts = np.concatenate([ends[:0], [0], ends[:-1]])[: len(ends)]
    is_known = subwords.ids != subwords.unknown_id
    covered_counts = np.where(is_known, np.maximum(ends - np.maximum(starts, subwords.start), 0), 0)
    ends[-1:] = len(subwords.text)
    # Pieces inside one character share its bytes, which segments of characters cannot express.
    lengths = subwords.bytes if subwords.lossless else byte_offsets[ends] - byte_offsets[starts]
    return Segments(ends - starts, lengths, covered_counts)


def _compute_byte_offsets(text: str, data: bytes) -> Int[np.ndarray, " character_and_end"]:
    """Compute the byte offset of each character and of the end."""
    if len(data) == len(text):
        return np.arange(len(text) + 1)
    is_first_byte = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    return np.append(np.flatnonzero(is_first_byte), len(data))


def _find_byte_spans(
    codec: Codec, numbers: list[int], ids: Int[np.ndarray, " subword"], data: bytes
) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]] | None:
    """Find the byte span of each piece; None if the pieces do not spell the text.

    A space that the tokenizer put before the text is not counted.
    """
    spelled_bytes = b"".join(map(codec.spellings.__getitem__, numbers))
    lengths = codec.lengths[ids]
    ends = np.cumsum(lengths)
    if spelled_bytes == data:
        return ends - lengths, ends
    if spelled_bytes == b" " + data:
        return np.maximum(ends - lengths - 1, 0), np.maximum(ends - 1, 0)
    return None


def _to_character_spans(
    start_byte: Int[np.ndarray, " subword"], end_byte: Int[np.ndarray, " subword"], data: bytes, size: int
) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]]:
    """Convert byte spans to character spans and lengths; a piece that ends inside a character covers it."""
    lengths = end_byte - start_byte
    if len(data) == size:
        return start_byte, end_byte, lengths
    is_first_byte = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    # Characters that start before each byte; the count up to and including a byte, less 1, is its character.
    character_counts = np.concatenate([[0], np.cumsum(is_first_byte)])
    start = character_counts[np.minimum(start_byte + 1, len(data))] - 1
    empty = lengths == 0
    end = np.where(empty, start, character_counts[end_byte])
    return np.maximum(start, 0), np.maximum(end, 0), lengths


def make_monotonic(
    start: Int[np.ndarray, " subword"], end: Int[np.ndarray, " subword"], size: int
) -> tuple[Int[np.ndarray, " subword"], Int[np.ndarray, " subword"]]:
    """Clip spans to the text and make their starts and ends monotonic.

    Normalisers that reorder or compose characters give offsets that step back by a character or two; such a
    piece starts where the previous one does.
    """
    start = np.maximum.accumulate(np.clip(start, 0, size))
    end = np.maximum.accumulate(np.clip(np.maximum(end, start), 0, size))
    return start, end


def assign_bytes(
    start: Int[np.ndarray, " subword"],
    end: Int[np.ndarray, " subword"],
    byte_offsets: Int[np.ndarray, " character_and_end"],
    byte_piece: Bool[np.ndarray, " subword"],
) -> Int[np.ndarray, " subword"]:
    """Assign the bytes of the covered characters to pieces, each to the first piece that covers it.

    Pieces that are single bytes (``<0xE2>``) share a character: each gets one of its bytes, the last one the
    rest.

    Args:
        start: First character of each piece.
        end: One past its last character.
        byte_offsets: Byte offset of each character and of the end.
        byte_piece: Whether each piece is a single byte.
    """
    previous_end = np.concatenate([[0], end[:-1]]) if len(end) else end
    byte_counts = np.maximum(
        byte_offsets[end] - byte_offsets[np.maximum(start, np.minimum(previous_end, end))], 0
    )
    if not byte_piece.any():
        return byte_counts
    group_starts = np.flatnonzero(
        np.append(True, (np.diff(start) != 0) | (np.diff(end) != 0) | ~byte_piece[1:] | ~byte_piece[:-1])
    )
    counts = np.diff(np.append(group_starts, len(start)))
    for first, count in zip(group_starts[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
        total = int(byte_counts[first : first + count].sum())
        share = np.minimum(1, np.maximum(total - np.arange(count), 0))
        share[-1] += total - share.sum()
        byte_counts[first : first + count] = share
    return byte_counts
