r"""Java's words as CodeSyntax and CuBERT count them: the tokens of javalang 0.13.0, with their characters.

Comments and blanks are no words, ``>>`` is two (it may close type arguments). javalang knows neither text
blocks nor the escape ``\s``: the first fall apart into strings, the second is an error.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import accumulate

_SEPARATORS = frozenset("(){}[];,.")


_OPERATORS = frozenset(
    (
        *(">>>=", ">>=", "<<=", "%=", "^=", "|=", "&=", "/=", "*=", "-=", "+=", "<<", "--", "++", "||"),
        *("&&", "!=", ">=", "<=", "==", "%", "^", "|", "&", "/", "*", "-", "+", ":", "?", "~", "!", "<"),
        *(">", "=", "...", "->", "::"),
    )
)


_LONGEST = 4


_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


_TEXT_BLOCK = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL)


_START = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Pc", "Sc"))


_PART = _START | {"Mc", "Mn", "Nd"}


def _compile_string(escapes: str) -> re.Pattern[str]:
    """Match a string up to its closing quote, or up to an escape that is none."""
    return re.compile(rf"""(["'])(?:(?!\1)[^\\]|\\{escapes})*""")


_STRING, _MODERN_STRING = _compile_string(r"""[btnfru"'\\0-7]"""), _compile_string("(?s:.)")


def _match_digits(digits: str) -> str:
    """Match digits with underscores between them, plus one character if an ``L`` follows, as in javalang."""
    return f"(?:_*[{digits}])*(?:(?=_*[lL]).)?"


_DECIMAL, _HEXADECIMAL = _match_digits("0-9"), _match_digits("0-9a-fA-F")


_NUMBER = re.compile(
    rf"0[xX]{_HEXADECIMAL}(?P<point>\.{_HEXADECIMAL})?(?P<power>[pP][-+]?{_DECIMAL}[fFdD]?)?"
    rf"|0[bB]{_match_digits('01')}|0(?=[0-7]){_match_digits('0-7')}"
    rf"|{_DECIMAL}(?:\.{_DECIMAL})?(?:[eE][-+]?{_DECIMAL})?[fFdD]?"
)


class LexerError(ValueError):
    """A text that has no words in Java."""


@dataclass(frozen=True, slots=True)
class Word:
    """One token: its characters in the text, and its value, in which an escape is what it stands for."""

    value: str
    start: int
    end: int


def lex(text: str, *, text_blocks: bool = False) -> list[Word]:
    """Split a text into Java's words.

    Args:
        text: Any text.
        text_blocks: Take a text block for one word and every escape for one; javalang does not.

    Raises:
        LexerError: A character, string, comment or number that is none in Java.
    """
    decoded, origin = _unescape(text)
    words: list[Word] = []
    at, size = 0, len(decoded)
    while at < size:
        character = decoded[at]
        if character.isspace():
            at += 1
            continue
        pair = decoded[at : at + 2]
        if pair in ("//", "/*"):
            at = _comment_end(decoded, at, pair)
            continue
        end = _word_end(decoded, at, character, pair, text_blocks)
        first, beyond = (at, end) if origin is None else (origin[at], origin[end])
        words.append(Word(decoded[at:end], first, beyond))
        at = end
    return words


def begins_name(character: str) -> bool:
    """Return whether a word that begins so is a name or a keyword."""
    return unicodedata.category(character) in _START


def _comment_end(text: str, at: int, opening: str) -> int:
    closing = "\n" if opening == "//" else "*/"
    found = text.find(closing, at + 2)
    if found >= 0:
        return found + len(closing)
    if opening == "/*":
        raise LexerError("a comment is not closed")
    return len(text)


def _word_end(text: str, at: int, character: str, pair: str, text_blocks: bool) -> int:
    if pair == ".." and text.startswith("...", at):
        return at + 3
    if character == "@":
        return at + 1
    if character in "0123456789" or (character == "." and pair[1:].isdigit()):
        return _number_end(text, at)
    if character in _SEPARATORS:
        return at + 1
    if character in "\"'":
        return _string_end(text, at, character, text_blocks)
    if begins_name(character):
        return _identifier_end(text, at)
    for length in range(min(len(text) - at, _LONGEST), 0, -1):
        if text[at : at + length] in _OPERATORS:
            return at + length
    raise LexerError("a character is in no word")


def _identifier_end(text: str, at: int) -> int:
    plain = _IDENTIFIER.match(text, at)
    end = plain.end() if plain else at + 1
    while end < len(text) and unicodedata.category(text[end]) in _PART:
        end += 1
    return end


def _string_end(text: str, at: int, delimiter: str, text_blocks: bool) -> int:
    block = _TEXT_BLOCK.match(text, at) if text_blocks else None
    if block:
        return block.end()
    found = (_MODERN_STRING if text_blocks else _STRING).match(text, at)
    end = found.end() if found else at
    if text.startswith(delimiter, end):
        return end + 1
    raise LexerError("an escape is none" if end + 1 < len(text) else "a string is not closed")


def _number_end(text: str, at: int) -> int:
    found = _NUMBER.match(text, at)
    assert found is not None
    if found["point"] and not found["power"]:
        raise LexerError("a hexadecimal number with a point has no exponent")
    return found.end()


def _unescape(text: str) -> tuple[str, list[int] | None]:
    r"""Replace ``\uXXXX``, and return for each character (and the end) its position in the text."""
    if "\\u" not in text:
        return text, None
    pieces: list[str] = []
    steps: list[int] = []
    at, size = 0, len(text)
    while at < size:
        if text[at] == "\\" and text[at + 1 : at + 2] == "u":
            step, piece = _escape(text, at)
            steps.append(step)
        else:
            # What follows another backslash is taken with it: the second half of two is no escape.
            piece = text[at : at + 2] if text[at] == "\\" else text[at]
            step = len(piece)
            steps.extend([1] * step)
        pieces.append(piece)
        at += step
    return "".join(pieces), [0, *accumulate(steps)]


def _escape(text: str, at: int) -> tuple[int, str]:
    digits = at + 1
    while text[digits : digits + 1] == "u":
        digits += 1
    try:
        code = int(text[digits : digits + 4], 16)
    except ValueError:
        raise LexerError("an escape is none") from None
    if not 0 <= code <= 0xFFFF:
        raise LexerError("an escape is none")
    return min(digits + 4, len(text)) - at, chr(code)
