"""Conversion between characters and UTF-8 bytes: tree-sitter counts bytes, everything else characters."""

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
_BLANKS = np.zeros(0x10000, np.bool_)


_BLANKS[[*(code for code in range(0x3001) if chr(code).isspace()), 0x200B, 0x2060, 0xFEFF]] = True


_BREAK = re.compile("\r\n?|\n")


def line_breaks(text: str, start: int, stop: int) -> int:
    r"""Count the line breaks in a part of a text: ``\n``, ``\r\n``, or a lone ``\r``, as editors count.

    >>> count_line_breaks("a\r\nb\rc\nd", 0, 7), count_line_breaks("a\r\nb", 0, 2)
    (3, 0)
    """
    # A break that extends past the part ends its line there.
    return sum(found.end() <= stop for found in _BREAK.finditer(text, start, min(stop + 1, len(text))))


def plain_breaks(text: str) -> str:
    r"""Replace every line break of a text with ``\n``."""
    return _BREAK.sub("\n", text)


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
    character: Int[np.ndarray, " byte_and_end"] | None

    @classmethod
    def of(cls, text: str, before: bytes = b"", after: bytes = b"") -> EncodedText:
        """Encode a text and map its bytes to characters.

        Args:
            text: The characters.
            prefix: Bytes that the parser reads before the text; they count no characters.
            suffix: Bytes that the parser reads after the text.
        """
        data = encode(text)
        if len(data) == len(text) and not before and not after:
            return cls(text, data, None)
        begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
        character = np.zeros(len(before) + len(data) + 1, np.int32)
        np.cumsum(begins, out=character[len(before) + 1 :])
        behind = np.full(len(after), len(text), np.int32)
        return cls(text, before + data + after, np.concatenate([character, behind]))

    def characters(self, offsets: Int[np.ndarray, " offset"]) -> Int[np.ndarray, " offset"]:
        """Convert byte positions to character positions."""
        return offsets if self.character is None else self.character[offsets]

    def at(self, offset: int) -> int:
        """Convert a byte position to a character position."""
        return offset if self.character is None else int(self.character[offset])

    def slice(self, start: int, end: int) -> str:
        """Return the characters between two byte positions."""
        return self.text[self.at(start) : self.at(end)]


def alike(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the length of the common prefix of two sequences.

    >>> common_prefix_length("is not", "isn't"), common_prefix_length([1, 2], [1, 2, 3])
    (2, 2)
    """
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


def blank(text: str) -> Bool[np.ndarray, " character"]:
    """Mark the characters of a text that are whitespace."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return _BLANKS[np.minimum(codes, len(_BLANKS) - 1)]


def in_common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts, by bisection, which is fast for long texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


V = TypeVar("V")


# Callers need the tree of a text, its tokens and, after its batch has been forwarded, its constructs. The
# cache holds the functions of one job, or one large file.
_CHARACTERS = 200_000


class Kept(Generic[V]):
    """A thread-safe cache of values by text, which evicts the oldest first; it keeps at least one text.

    Args:
        make: Computes the value of a text.
        characters: Maximum total length of the texts.
    """

    def __init__(self, make: Callable[[str], V], characters: int = _CHARACTERS) -> None:
        self._make = make
        self._most = characters
        self._answers: OrderedDict[str, V] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> V:
        """Return the value of a text, computed on the first call."""
        found = self._answers.get(text)
        if found is not None:
            return found
        made = self._make(text)
        with self._lock:
            if text not in self._answers:
                self._answers[text] = made
                self._held += len(text)
            while self._held > self._most and len(self._answers) > 1:
                self._held -= len(self._answers.popitem(last=False)[0])
        return made
