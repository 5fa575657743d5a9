"""Ends of code tokens in subwords, and the vocabulary entries that begin with given bytes.

Two tokenizers cut a text at different characters. What they have in common is the text, so a comparison asks
how likely a text is up to the end of each code token. An end inside a subword divides its spelling: the
entries that begin with the first part are all ways in which the model could have read on to there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Int

from sonde.alignment.subwords import Subwords
from sonde.alignment.vocabulary import Codec, get_codec, get_vocabulary

_ABOVE_UTF8 = b"\xff"
"""A byte that no text contains, so that it sorts after all continuations of a prefix."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefixIndex:
    """Vocabulary entries in the order of their bytes.

    Attributes:
        spellings: Bytes of each id; empty for special tokens, which are no text.
        ids: Ids with a spelling, sorted by it.
    """

    spellings: Sequence[bytes]
    ids: Int[np.ndarray, " entry"]
    _sorted: Sequence[bytes]
    _ranges: dict[bytes, tuple[int, int]] = field(default_factory=dict[bytes, tuple[int, int]])

    def find_range(self, prefix: bytes) -> tuple[int, int]:
        """Return the first of the sorted entries that begin with a prefix, and their number."""
        entries = self._ranges.get(prefix)
        if entries is None:
            first = bisect_left(self._sorted, prefix)
            entries = first, bisect_left(self._sorted, prefix + _ABOVE_UTF8, first) - first
            self._ranges[prefix] = entries
        return entries


_indexes: WeakKeyDictionary[Any, PrefixIndex | None] = WeakKeyDictionary()


def get_prefix_index(tokenizer: Any) -> PrefixIndex | None:
    """Return the index of a tokenizer, built on first use; None where pieces do not spell the text.

    WordPiece is such a case: its entries do not say whether a space stands before them.

    Raises:
        InputError: The tokenizer gives no offsets.
    """
    if tokenizer not in _indexes:
        _indexes[tokenizer] = _build_index(tokenizer, get_codec(tokenizer))
    return _indexes[tokenizer]


def _build_index(tokenizer: Any, codec: Codec) -> PrefixIndex | None:
    if get_vocabulary(codec.surfaces).wordpiece:
        return None
    spellings = list(codec.spellings) or [
        bytes([int(surface[1:-1], 16)]) if is_byte else surface.encode("utf-8", "surrogatepass")
        for surface, is_byte in zip(codec.surfaces, codec.byte_piece.tolist(), strict=True)
    ]
    for number in tokenizer.all_special_ids:
        if 0 <= number < len(spellings):
            spellings[number] = b""
    entries = sorted((spelling, number) for number, spelling in enumerate(spellings) if spelling)
    ids = np.array([number for _, number in entries], np.int64)
    return PrefixIndex(spellings, ids, [spelling for spelling, _ in entries])


@dataclass(frozen=True, slots=True, eq=False)
class TokenEnds:
    """Ends of code tokens in subwords, in text order.

    Attributes:
        subword: The subword that the end is in, or at the end of.
        token: The code token.
        prefix: Bytes of the subword up to the end; empty where its spelling is not that of the text.
    """

    subword: Int[np.ndarray, " end"]
    token: Int[np.ndarray, " end"]
    prefix: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.subword)


def find_token_ends(
    subwords: Subwords, ends: Int[np.ndarray, " token"], index: PrefixIndex | None
) -> TokenEnds:
    """Find the subword that each code token ends in; a token whose end no subword covers has none.

    Args:
        subwords: Subwords of a text.
        ends: One past the last character of each code token of the text, ascending.
        index: The vocabulary; without it no end has a prefix.
    """
    # Pieces inside one character share its span, and the last of them completes it.
    last = np.searchsorted(subwords.start, ends, side="left") - 1
    token = np.flatnonzero((last >= 0) & (subwords.end[np.maximum(last, 0)] >= ends)) if len(subwords) else ()
    token = np.asarray(token, np.int64)
    subword = last[token]
    if index is None:
        return TokenEnds(subword, token, (b"",) * len(token))
    text, starts, stops = subwords.text, subwords.start, subwords.end
    prefixes = tuple(
        _find_prefix(index.spellings[number], text[start:end], text[end:stop])
        for number, start, end, stop in zip(
            subwords.ids[subword].tolist(),
            starts[subword].tolist(),
            ends[token].tolist(),
            stops[subword].tolist(),
            strict=True,
        )
    )
    return TokenEnds(subword, token, prefixes)


def _find_prefix(spelling: bytes, before: str, after: str) -> bytes:
    """Return the part of a spelling that stands for the text before a cut; empty if it is another text.

    A spelling may begin with a space that its span leaves out, begin inside a character, or end inside one.
    """
    head, tail = before.encode("utf-8", "replace"), after.encode("utf-8", "replace")
    prefix = spelling[: len(spelling) - len(tail)]
    if spelling.endswith(tail) and (head.endswith(prefix) or prefix == b" " + head):
        return prefix
    return head if spelling.startswith(head) and (head + tail).startswith(spelling) else b""
