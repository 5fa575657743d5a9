"""Python's words as Python 3.9's `tokenize` gives them, whichever interpreter runs this.

CodeSyntax counts in those words. From Python 3.12 on the module takes f-strings apart and refuses half a
program, so the rules are written out here: every string is one word, indents, newlines and comments are
words, the ends of blocks, of a last line without a newline and of the text are empty words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_PREFIX = "(?i:rb|br|fr|rf|b|r|u|f)?"
_DIGITS = "[0-9](?:_?[0-9])*"
_EXPONENT = f"[eE][-+]?{_DIGITS}"
_FLOAT = rf"(?:(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})(?:{_EXPONENT})?|{_DIGITS}{_EXPONENT})"
_INTEGER = "0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0(?:_?0)*|[1-9](?:_?[0-9])*"
_NUMBER = f"{_DIGITS}[jJ]|{_FLOAT}[jJ]?|{_INTEGER}"
_OPERATOR = (
    r"\.\.\.|\*\*=|//=|<<=|>>=|->|:=|!=|==|<=|>=|\*\*|//|<<|>>|[-+*/%&|^@]=|"
    r"(?P<open>[(\[{])|(?P<close>[)\]}])|[-+*/%&|^~@<>=.,:;]"
)
_ESCAPED = r"\\(?:\r\n|(?s:.))"
_ONE_LINE = rf"'[^\n'\\]*(?:{_ESCAPED}[^\n'\\]*)*'" + "|" + rf'"[^\n"\\]*(?:{_ESCAPED}[^\n"\\]*)*"'
_SEVERAL_LINES = (
    r"'''[^'\\]*(?:(?:\\(?s:.)|'(?!''))[^'\\]*)*'''" + "|" + r'"""[^"\\]*(?:(?:\\(?s:.)|"(?!""))[^"\\]*)*"""'
)

# In the order in which `tokenize` tries them: three quotes before an empty string, numbers before the dot.
_WORD = re.compile(
    rf"[ \f\t]*(?:(?P<join>\\\r?\n)|(?P<end>\Z)|(?P<comment>\#[^\r\n]*)"
    rf"|(?P<string>{_PREFIX}(?:{_SEVERAL_LINES}))|(?P<unclosed>{_PREFIX}(?:'''|\"\"\"))"
    rf"|(?P<number>{_NUMBER})|(?P<newline>\r?\n)|(?P<operator>{_OPERATOR})"
    rf"|(?P<short>{_PREFIX}(?:{_ONE_LINE}))|(?P<name>\w+))"
)
_MARGIN = re.compile(r"[ \f\t]*")


@dataclass(slots=True)
class Scan:
    """The words of a text, one entry a word.

    Attributes:
        surface: The words.
        start: First character.
        end: One past the last character.
        depth: How many brackets are open before the word.
        whole: Whether the text was read to its end; else the words are those before the fault.
    """

    surface: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    whole: bool = True

    def add(self, surface: str, start: int, depth: int = 0) -> None:
        """Append a word."""
        self.surface.append(surface)
        self.start.append(start)
        self.end.append(start + len(surface))
        self.depth.append(depth)


def width(margin: str) -> int:
    """The column that a line begins in: tabs go to the next multiple of eight, form feeds back to zero."""
    column = 0
    for character in margin:
        column = {" ": column + 1, "\t": (column // 8 + 1) * 8}.get(character, 0)
    return column


def scan(text: str) -> Scan:
    r"""The words of a text; what cannot be read further ends the list, and ``whole`` is false.

    >>> scan("if x:\n  f(1)").surface
    ['if', 'x', ':', '\n', '  ', 'f', '(', '1', ')', '', '', '']
    """
    words = Scan()
    indents = [0]
    position, depth, fresh = 0, 0, True
    while position < len(text):
        if fresh:
            margin = _MARGIN.match(text, position)
            assert margin is not None
            begin = margin.end()
            if begin == len(text):
                break
            if text[begin] in "#\r\n":
                position = _blank_line(words, text, begin)
                continue
            if not _indent(words, indents, text[position:begin], begin):
                words.whole = False
                return words
            position, fresh = begin, False
        found = _WORD.match(text, position)
        if found is None:
            words.add(text[position], position, depth)
            position += 1
            continue
        kind = found.lastgroup
        position = found.end()
        if kind == "join":
            # A backslash at the end of everything joins nothing.
            words.whole = position < len(text)
        elif kind == "unclosed":
            words.whole = False
        elif kind != "end":
            begin = found.start(kind or 0)
            words.add(text[begin:position], begin, depth)
            if kind == "newline":
                fresh = depth == 0
            elif kind == "operator":
                depth += (found["open"] is not None) - (found["close"] is not None)
        if not words.whole:
            return words
    if depth != 0:
        words.whole = False
        return words
    _finish(words, indents, text)
    return words


def _blank_line(words: Scan, text: str, begin: int) -> int:
    """A line without code: its comment and its newline, which is empty where the text ends; the next line."""
    beyond = text.find("\n", begin) + 1 or len(text)
    if text[begin] == "#":
        comment = text[begin:beyond].rstrip("\r\n")
        words.add(comment, begin)
        begin += len(comment)
    words.add(text[begin:beyond], begin)
    return beyond


def _indent(words: Scan, indents: list[int], margin: str, begin: int) -> bool:
    """Open or close blocks as a line's margin says; false for a margin that closes none of them."""
    column = width(margin)
    if column > indents[-1]:
        indents.append(column)
        words.add(margin, begin - len(margin))
    while column < indents[-1]:
        if column not in indents:
            return False
        indents.pop()
        words.add("", begin)
    return True


def _finish(words: Scan, indents: list[int], text: str) -> None:
    """The empty words at the end of a text."""
    line = text[text.rfind("\n") + 1 :]
    # `tokenize` leaves the newline out where the last line looks like a comment, or is blank.
    if line.strip(" \f\t") and line[-1] != "\r" and not line.strip().startswith("#"):
        words.add("", len(text))
    for _ in indents:
        words.add("", len(text))


def matching(words: Sequence[str], other: Sequence[str]) -> int:
    """How many words two lists have in common from their beginning on.

    >>> matching(["f", "(", "x"], ["f", "(", "y"])
    2
    """
    for count, (left, right) in enumerate(zip(words, other, strict=False)):
        if left != right:
            return count
    return min(len(words), len(other))
