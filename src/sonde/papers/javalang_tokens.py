r"""Java's words as CodeSyntax and CuBERT count them: the tokens of javalang 0.13.0, with their characters.

Comments and blanks are no words, ``>>`` is two (it may close type arguments). javalang knows neither text
blocks nor the escape ``\s``: the first fall apart into strings, the second is an error.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

from sonde.languages.engine.relations import Word

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


_STRING, _STRING_WITH_ESCAPES = _compile_string(r"""[btnfru"'\\0-7]"""), _compile_string("(?s:.)")


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


def lex(text: str, *, text_blocks: bool = False) -> list[Word]:
    r"""Split a text into Java's words, in which an escape (``\uXXXX``) is what it stands for.

    Args:
        text: Any text.
        text_blocks: Take a text block for one word and every escape for one; javalang does not.

    Raises:
        LexerError: A character, string, comment or number that is none in Java.
    """
    decoded_text, origin = _unescape(text)
    words: list[Word] = []
    position, size = 0, len(decoded_text)
    while position < size:
        character = decoded_text[position]
        if character.isspace():
            position += 1
            continue
        pair = decoded_text[position : position + 2]
        if pair in ("//", "/*"):
            position = _comment_end(decoded_text, position, pair)
            continue
        end = _word_end(decoded_text, position, character, pair, text_blocks)
        first, stop = (position, end) if origin is None else (origin[position], origin[end])
        words.append(Word(decoded_text[position:end], first, stop))
        position = end
    return words


def begins_name(character: str) -> bool:
    """Return whether a word that begins so is a name or a keyword."""
    return unicodedata.category(character) in _START


def _comment_end(text: str, position: int, opener: str) -> int:
    terminator = "\n" if opener == "//" else "*/"
    index = text.find(terminator, position + 2)
    if index >= 0:
        return index + len(terminator)
    if opener == "/*":
        raise LexerError("a comment is not closed")
    return len(text)


def _word_end(text: str, position: int, character: str, pair: str, text_blocks: bool) -> int:
    if pair == ".." and text.startswith("...", position):
        return position + 3
    if character == "@":
        return position + 1
    if character in "0123456789" or (character == "." and pair[1:].isdigit()):
        return _number_end(text, position)
    if character in _SEPARATORS:
        return position + 1
    if character in "\"'":
        return _string_end(text, position, character, text_blocks)
    if begins_name(character):
        return _identifier_end(text, position)
    for length in range(min(len(text) - position, _LONGEST), 0, -1):
        if text[position : position + length] in _OPERATORS:
            return position + length
    raise LexerError("a character is in no word")


def _identifier_end(text: str, position: int) -> int:
    plain = _IDENTIFIER.match(text, position)
    end = plain.end() if plain else position + 1
    while end < len(text) and unicodedata.category(text[end]) in _PART:
        end += 1
    return end


def _string_end(text: str, position: int, delimiter: str, text_blocks: bool) -> int:
    block = _TEXT_BLOCK.match(text, position) if text_blocks else None
    if block:
        return block.end()
    match = (_STRING_WITH_ESCAPES if text_blocks else _STRING).match(text, position)
    end = match.end() if match else position
    if text.startswith(delimiter, end):
        return end + 1
    raise LexerError("an escape is invalid" if end + 1 < len(text) else "a string is not closed")


def _number_end(text: str, position: int) -> int:
    match = _NUMBER.match(text, position)
    assert match is not None
    if match["point"] and not match["power"]:
        raise LexerError("a hexadecimal number with a point has no exponent")
    return match.end()


def _unescape(text: str) -> tuple[str, list[int] | None]:
    r"""Replace ``\uXXXX``, and return for each character (and the end) its position in the text."""
    if "\\u" not in text:
        return text, None
    pieces: list[str] = []
    steps: list[int] = []
    position, size = 0, len(text)
    while position < size:
        if text[position] == "\\" and text[position + 1 : position + 2] == "u":
            step, piece = _escape(text, position)
            steps.append(step)
        else:
            # What follows another backslash is taken with it: the second half of two is no escape.
            piece = text[position : position + 2] if text[position] == "\\" else text[position]
            step = len(piece)
            steps.extend([1] * step)
        pieces.append(piece)
        position += step
    return "".join(pieces), [0, *accumulate(steps)]


def _escape(text: str, position: int) -> tuple[int, str]:
    digits = position + 1
    while text[digits : digits + 1] == "u":
        digits += 1
    try:
        code = int(text[digits : digits + 4], 16)
    except ValueError:
        raise LexerError("an escape is invalid") from None
    if not 0 <= code <= 0xFFFF:
        raise LexerError("an escape is invalid")
    return min(digits + 4, len(text)) - position, chr(code)
