"""Bytes of a text and back: tree-sitter counts bytes of UTF-8, everything else counts characters."""

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


# What no grammar here sees: Unicode blanks, and the byte order mark and joiners that grammars skip as well.
_BLANKS = np.zeros(0x10000, np.bool_)


_BLANKS[[*(code for code in range(0x3001) if chr(code).isspace()), 0x200B, 0x2060, 0xFEFF]] = True


_BREAK = re.compile("\r\n?|\n")


def line_breaks(text: str, start: int, stop: int) -> int:
    r"""How many lines end in a part of a text: at ``\n``, ``\r\n``, or a lone ``\r``, as editors count.

    >>> line_breaks("a\r\nb\rc\nd", 0, 7), line_breaks("a\r\nb", 0, 2)
    (3, 0)
    """
    # A break that goes on behind the part ends its line there.
    return sum(found.end() <= stop for found in _BREAK.finditer(text, start, min(stop + 1, len(text))))


def plain_breaks(text: str) -> str:
    r"""Return a text whose lines all end with ``\n``."""
    return _BREAK.sub("\n", text)


def encode(text: str) -> bytes:
    """The UTF-8 that a parser is given, one valid sequence a character.

    A lone surrogate has no UTF-8; U+FFFD stands for it, which takes three bytes as well. A carriage return by
    itself ends a line, which not every grammar knows; a line feed stands for it.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        data = _SURROGATES.sub("\ufffd", text).encode("utf-8")
    return _LONE_RETURNS.sub(b"\n", data) if b"\r" in data else data


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """A text with its bytes and the way from one to the other.

    Attributes:
        text: The characters.
        data: Their UTF-8, see `encode`, with what was put before and behind it.
        character: For each byte, and for the end, the character that begins there; a byte inside a
            character gives the next one. None where both counts agree (ASCII).
    """

    text: str
    data: bytes
    character: Int[np.ndarray, " byte_and_end"] | None

    @classmethod
    def of(cls, text: str, before: bytes = b"", after: bytes = b"") -> EncodedText:
        """Encode a text and prepare the way back.

        Args:
            text: The characters.
            before: What the parser reads before the text, which takes no place in it.
            after: The same behind it.
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
        """Character positions of byte positions."""
        return offsets if self.character is None else self.character[offsets]

    def at(self, offset: int) -> int:
        """The character position of one byte position."""
        return offset if self.character is None else int(self.character[offset])

    def slice(self, start: int, end: int) -> str:
        """The characters between two byte positions."""
        return self.text[self.at(start) : self.at(end)]


def alike(one: Sequence[object], other: Sequence[object]) -> int:
    """How many characters, or entries, two sequences begin with alike.

    >>> alike("is not", "isn't"), alike([1, 2], [1, 2, 3])
    (2, 2)
    """
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


def blank(text: str) -> Bool[np.ndarray, " character"]:
    """Which characters of a text are blank."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return _BLANKS[np.minimum(codes, len(_BLANKS) - 1)]


def in_common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


V = TypeVar("V")


# Callers ask the same text for its tree, its tokens and, when its batch has been forwarded, its constructs:
# the texts of a job's functions, or one large file.
_CHARACTERS = 200_000


class Kept(Generic[V]):
    """Answers by text, the oldest forgotten first; one text is kept however long it is.

    Args:
        make: The answer to a text.
        characters: How many characters the texts may have together.
    """

    def __init__(self, make: Callable[[str], V], characters: int = _CHARACTERS) -> None:
        self._make = make
        self._most = characters
        self._answers: OrderedDict[str, V] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> V:
        """Return what was made of a text, made now if it is not kept."""
        """Return what was made of a text, made now if it is not kept."""
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
