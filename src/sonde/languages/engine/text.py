"""Text utilities: characters and UTF-8 bytes, line breaks, common prefixes, and a cache by text.

tree-sitter counts bytes, everything else characters. `TextCache` keeps what was computed from texts that are
queried repeatedly, within a maximum number of characters.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Int

_SURROGATES = re.compile("[\ud800-\udfff]")


_LONE_RETURNS = re.compile(rb"\r(?!\n)")


# Skipped by every grammar here: Unicode whitespace, the byte order mark and joiners.
_WHITESPACE = np.zeros(0x10000, np.bool_)


_WHITESPACE[[*(code for code in range(0x3001) if chr(code).isspace()), 0x200B, 0x2060, 0xFEFF]] = True


_LINE_BREAK = re.compile("\r\n?|\n")


def count_line_breaks(text: str, start: int, stop: int) -> int:
    r"""Count the line breaks in a part of a text: ``\n``, ``\r\n``, or a lone ``\r``, as editors count.

    >>> count_line_breaks("a\r\nb\rc\nd", 0, 7), count_line_breaks("a\r\nb", 0, 2)
    (3, 0)
    """
    # A break that extends past the part ends its line there.
    return sum(match.end() <= stop for match in _LINE_BREAK.finditer(text, start, min(stop + 1, len(text))))


def normalise_line_breaks(text: str) -> str:
    r"""Replace every line break of a text with ``\n``."""
    return _LINE_BREAK.sub("\n", text)


def encode(text: str) -> bytes:
    """Encode a text as UTF-8 for a parser, one valid sequence per character.

    A lone surrogate has no UTF-8; it becomes U+FFFD, which also takes three bytes. A lone carriage return
    becomes a line feed, since not every grammar treats it as a line break.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        data = _SURROGATES.sub("\ufffd", text).encode("utf-8")
    return _LONE_RETURNS.sub(b"\n", data) if b"\r" in data else data


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """A text with its UTF-8 bytes and the mapping from byte to character positions.

    Attributes:
        text: The characters.
        data: Their UTF-8, see `encode`, with the prefix and suffix.
        byte_to_character: For each byte, and for the end, the position of the character that begins there;
            a byte inside a character maps to the next one. None if both counts agree (ASCII).
    """

    text: str
    data: bytes
    byte_to_character: Int[np.ndarray, " byte_and_end"] | None

    @classmethod
    def of(cls, text: str, prefix: bytes = b"", suffix: bytes = b"") -> EncodedText:
        """Encode a text and map its bytes to characters.

        Args:
            text: The characters.
            prefix: Bytes that the parser reads before the text; they count no characters.
            suffix: Bytes that the parser reads after the text.
        """
        data = encode(text)
        if len(data) == len(text) and not prefix and not suffix:
            return cls(text, data, None)
        is_start = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
        character = np.zeros(len(prefix) + len(data) + 1, np.int32)
        np.cumsum(is_start, out=character[len(prefix) + 1 :])
        tail = np.full(len(suffix), len(text), np.int32)
        return cls(text, prefix + data + suffix, np.concatenate([character, tail]))

    def characters(self, offsets: Int[np.ndarray, " offset"]) -> Int[np.ndarray, " offset"]:
        """Convert byte positions to character positions."""
        return offsets if self.byte_to_character is None else self.byte_to_character[offsets]

    def to_character(self, offset: int) -> int:
        """Convert a byte position to a character position."""
        return offset if self.byte_to_character is None else int(self.byte_to_character[offset])

    def to_span(self, byte_range: tuple[int, int]) -> tuple[int, int]:
        """Convert a byte span to a span of characters."""
        return self.to_character(byte_range[0]), self.to_character(byte_range[1])

    def slice(self, start: int, end: int) -> str:
        """Return the characters between two byte positions."""
        return self.text[self.to_character(start) : self.to_character(end)]


def whitespace_mask(text: str) -> Bool[np.ndarray, " character"]:
    """Mark the characters of a text that are whitespace."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return _WHITESPACE[np.minimum(codes, len(_WHITESPACE) - 1)]


def common_prefix_length(first: Sequence[object], second: Sequence[object]) -> int:
    """Return the length of the common prefix of two sequences of one type.

    By bisection, which is fast for long texts.

    >>> common_prefix_length("is not", "isn't"), common_prefix_length([1, 2], [1, 2, 3])
    (2, 2)
    """
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


V = TypeVar("V")


# Callers need the tree of a text, its tokens and, after its batch has been forwarded, its constructs. The
# cache holds the functions of one job, or one large file.
_CACHE_CHARACTERS = 200_000


class TextCache(Generic[V]):
    """A thread-safe cache of values by text, which evicts the oldest first; it keeps at least one text.

    Args:
        make: Computes the value of a text.
        characters: Maximum total length of the texts.
    """

    def __init__(self, make: Callable[[str], V], characters: int = _CACHE_CHARACTERS) -> None:
        self._make = make
        self._limit = characters
        self._values: OrderedDict[str, V] = OrderedDict()
        self._length = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> V:
        """Return the value of a text, computed on the first call."""
        entry = self._values.get(text)
        if entry is not None:
            return entry
        value = self._make(text)
        with self._lock:
            if text not in self._values:
                self._values[text] = value
                self._length += len(text)
            while self._length > self._limit and len(self._values) > 1:
                self._length -= len(self._values.popitem(last=False)[0])
        return value
