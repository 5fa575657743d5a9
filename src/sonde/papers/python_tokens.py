"""Python's words as `tokenize` gives them in Python 3.8 to 3.11, whichever interpreter runs this.

CodeSyntax and CuBERT count in those words. From Python 3.12 on the module takes f-strings apart and refuses
half a program, so the rules are written out here: every string is one word, indents, newlines and comments
are words, the ends of blocks, of a last line without a newline and of the text are empty words, a character
that begins no word is a word of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from sonde.languages.engine.relations import measure_column

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


_ESCAPE = r"\\(?:\r\n|(?s:.))"


_ONE_LINE = rf"'[^\n'\\]*(?:{_ESCAPE}[^\n'\\]*)*'" + "|" + rf'"[^\n"\\]*(?:{_ESCAPE}[^\n"\\]*)*"'


_SEVERAL_LINES = (
    r"'''[^'\\]*(?:(?:\\(?s:.)|'(?!''))[^'\\]*)*'''" + "|" + r'"""[^"\\]*(?:(?:\\(?s:.)|"(?!""))[^"\\]*)*"""'
)


# The first line of a string that a backslash continues, and what a further line has to hold to end it.
_CONTINUED_LINE = r"'[^\n'\\]*(?:\\.[^\n'\\]*)*\\\r?\n" + "|" + r'"[^\n"\\]*(?:\\.[^\n"\\]*)*\\\r?\n'


_STRING_ENDS = {
    "'": re.compile(r"[^'\\]*(?:\\.[^'\\]*)*'"),
    '"': re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"'),
}


# In the order in which `tokenize` tries them: three quotes before an empty string, numbers before the dot.
_WORD = re.compile(
    rf"[ \f\t]*(?:(?P<join>\\\r?\n)|(?P<end>\Z)|(?P<comment>\#[^\r\n]*)"
    rf"|(?P<string>{_PREFIX}(?:{_SEVERAL_LINES}))|(?P<unclosed>{_PREFIX}(?:'''|\"\"\"))"
    rf"|(?P<number>{_NUMBER})|(?P<newline>\r?\n)|(?P<operator>{_OPERATOR})"
    rf"|(?P<short>{_PREFIX}(?:{_ONE_LINE}))|(?P<broken>{_PREFIX}(?:{_CONTINUED_LINE}))|(?P<name>\w+))"
)


_MARGIN = re.compile(r"[ \f\t]*")


@dataclass(slots=True)
class ScannedWords:
    """The words of a text, one entry a word.

    Attributes:
        surface: The words.
        start: First character.
        end: One past the last character.
        depth: How many brackets are open before the word.
        kind: What `tokenize` calls each word: ``NAME``, ``NUMBER``, ``STRING``, ``OP``, ``COMMENT``,
            ``NEWLINE``, ``NL``, ``INDENT``, ``DEDENT``, ``ENDMARKER`` or ``ERRORTOKEN``.
        is_complete: Whether the text was read to its end; else the words are those before the fault.
    """

    surface: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    is_complete: bool = True

    def add(self, surface: str, start: int, kind: str, depth: int = 0) -> None:
        """Append a word."""
        self.surface.append(surface)
        self.start.append(start)
        self.end.append(start + len(surface))
        self.depth.append(depth)
        self.kind.append(kind)


def scan_words(
    text: str, *, depth: int = 0, starts_line: bool = True, word_limit: int = sys.maxsize
) -> ScannedWords:
    r"""Split a text into words; text that cannot be read ends the list, and ``is_complete`` is false.

    Args:
        text: The text.
        depth: How many brackets are open before it.
        starts_line: Whether it begins at the beginning of a line.
        word_limit: Words after which no more is read; there may be a few more.

    >>> scan_words("if x:\n  f(1)").surface
    ['if', 'x', ':', '\n', '  ', 'f', '(', '1', ')', '', '', '']
    """
    words = ScannedWords()
    indents = [0]
    position = 0
    while position < len(text):
        if len(words.surface) >= word_limit:
            words.is_complete = False
            return words
        if starts_line:
            margin = _MARGIN.match(text, position)
            assert margin is not None
            begin = margin.end()
            if begin == len(text):
                break
            if text[begin] in "#\r\n":
                position = _add_blank_line(words, text, begin)
                continue
            if not _update_indents(words, indents, text[position:begin], begin):
                words.is_complete = False
                return words
            position, starts_line = begin, False
        match = _WORD.match(text, position)
        if match is None:
            words.add(text[position], position, "ERRORTOKEN", depth)
            position += 1
            continue
        kind = match.lastgroup
        position = match.end()
        if kind == "join":
            # A backslash at the end of everything joins nothing.
            words.is_complete = position < len(text)
        elif kind == "unclosed":
            words.is_complete = False
        elif kind == "broken":
            position, has_end = _find_string_end(text, match.start(kind), position)
            words.is_complete = position > 0
            if words.is_complete:
                begin = match.start(kind)
                words.add(text[begin:position], begin, "STRING" if has_end else "ERRORTOKEN", depth)
                starts_line = not has_end and depth == 0
        elif kind is not None and kind != "end":
            begin = match.start(kind)
            words.add(text[begin:position], begin, _token_kind(kind, text[begin], depth), depth)
            if kind == "newline":
                starts_line = depth == 0
            elif kind == "operator":
                depth += (match["open"] is not None) - (match["close"] is not None)
        if not words.is_complete:
            return words
    if depth != 0:
        words.is_complete = False
        return words
    _add_final_words(words, indents, text)
    return words


_KINDS = {"comment": "COMMENT", "string": "STRING", "short": "STRING", "number": "NUMBER", "operator": "OP"}


def _token_kind(group: str, initial: str, depth: int) -> str:
    if group == "newline":
        return "NL" if depth > 0 else "NEWLINE"
    if group == "name":
        # Digits of other scripts match as words and begin no name: what is left over is an operator.
        return "NAME" if initial.isidentifier() else "OP"
    return _KINDS[group]


def _find_string_end(text: str, begin: int, position: int) -> tuple[int, bool]:
    """Return the end of a string that a backslash continues, and whether its quote is closed there.

    A line that neither closes it nor is continued ends it as an error; 0 where the text ends first.
    """
    quote = text[begin:position].lstrip("bBrRuUfF")[0]
    while position < len(text):
        line_end = text.find("\n", position) + 1 or len(text)
        line = text[position:line_end]
        match = _STRING_ENDS[quote].match(line)
        if match:
            return position + match.end(), True
        if not line.endswith(("\\\n", "\\\r\n")):
            return line_end, False
        position = line_end
    return 0, False


def _add_blank_line(words: ScannedWords, text: str, begin: int) -> int:
    """Add a line without code: its comment and its newline; return the start of the next line."""
    line_end = text.find("\n", begin) + 1 or len(text)
    if text[begin] == "#":
        comment = text[begin:line_end].rstrip("\r\n")
        words.add(comment, begin, "COMMENT")
        begin += len(comment)
    words.add(text[begin:line_end], begin, "NL")
    return line_end


def _update_indents(words: ScannedWords, indents: list[int], margin: str, begin: int) -> bool:
    """Open or close blocks as a line's margin says; false for a margin that closes none of them."""
    column = measure_column(margin)
    if column > indents[-1]:
        indents.append(column)
        words.add(margin, begin - len(margin), "INDENT")
    while column < indents[-1]:
        if column not in indents:
            return False
        indents.pop()
        words.add("", begin, "DEDENT")
    return True


def _add_final_words(words: ScannedWords, indents: list[int], text: str) -> None:
    """Add the empty words at the end of a text."""
    line = text[text.rfind("\n") + 1 :]
    # `tokenize` leaves the newline out where the last line looks like a comment, or is blank.
    if line.strip(" \f\t") and line[-1] != "\r" and not line.strip().startswith("#"):
        words.add("", len(text), "NEWLINE")
    for _ in indents[1:]:
        words.add("", len(text), "DEDENT")
    words.add("", len(text), "ENDMARKER")


def count_matches(words: Sequence[str], other_words: Sequence[str], begin: int = 0) -> int:
    """Count the leading words that two lists share, the first from one of its words on.

    >>> count_matches(["f", "(", "x"], ["f", "(", "y"])
    2
    >>> count_matches(["f", "(", "x"], ["(", "x", ")"], 1)
    2
    """
    # Asked for every node of a line: a slice of all words that follow would be quadratic.
    maximum = max(min(len(words) - begin, len(other_words)), 0)
    return next((count for count in range(maximum) if words[begin + count] != other_words[count]), maximum)
