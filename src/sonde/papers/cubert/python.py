"""Program tokens of Python: the words of `tokenize` up to Python 3.11, and programs made of them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from sonde.languages.engine.program_tokens import (
    COMMENT,
    EOS,
    EOS_TOKEN,
    ERROR,
    ERROR_LEXEMES,
    ERROR_TOKEN,
    IDENTIFIER,
    KEYWORD,
    NEWLINE,
    NEWLINE_TOKEN,
    NUMBER,
    PUNCTUATION,
    STRING,
    Lexeme,
    Position,
    build_locator,
    format_special_token,
)
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.python_tokens import ScannedWords, scan_words

# Soft keywords (match, case, type) are identifiers. Written out: Python's own list differs between versions.
_KEYWORDS = frozenset(
    (
        *("False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue"),
        *("def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in"),
        *(
            "is",
            "lambda",
            "nonlocal",
            "not",
            "or",
            "pass",
            "raise",
            "return",
            "try",
            "while",
            "with",
            "yield",
        ),
    )
)
_KIND_OF = {
    "NUMBER": NUMBER,
    "STRING": STRING,
    "OP": PUNCTUATION,
    "COMMENT": COMMENT,
    "NEWLINE": NEWLINE,
    "NL": PUNCTUATION,
    "INDENT": KEYWORD,
    "DEDENT": KEYWORD,
    "ENDMARKER": EOS,
    "ERRORTOKEN": ERROR,
}
_INDENT, _DEDENT, _NL = (
    format_special_token("INDENT"),
    format_special_token("DEDENT"),
    format_special_token("NL"),
)
_SPECIAL_SURFACES = {"NEWLINE": NEWLINE_TOKEN, "NL": _NL, "DEDENT": _DEDENT, "ENDMARKER": EOS_TOKEN}


class PythonProgram:
    """The facet ``program`` of Python; see `sonde.languages.engine.program_tokens.ProgramLexer`."""

    skipped = frozenset((COMMENT,))

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """Return all tokens of a text, without trailing blanks and the line break of its last line."""
        text = text.rstrip()
        words = scan_words(text)
        if not words.is_complete:
            return ERROR_LEXEMES
        locate = build_locator(text)
        return [_lexeme(words, number, locate, text) for number in _without_last_newline(words.kind)]

    def program(self, tokens: Sequence[str]) -> str:
        """Write a program with these tokens, one space after names and numbers, else none unless needed."""
        return _ProgramWriter().write(tokens)


def _without_last_newline(kinds: Sequence[str]) -> list[int]:
    """Return the words that are tokens, without the last line break and the one before the last dedents."""
    indices = list(range(len(kinds)))
    if len(indices) > 1 and kinds[indices[-2]] == "NEWLINE":
        del indices[-2]
    if len(indices) > 2:
        last = len(indices) - 2
        while last and kinds[indices[last]] == "DEDENT":
            last -= 1
        if last and kinds[indices[last]] == "NEWLINE":
            del indices[last]
    return indices


def _lexeme(words: ScannedWords, number: int, locate: Callable[[int], Position], text: str) -> Lexeme:
    surface, kind, offset = words.surface[number], words.kind[number], words.start[number]
    start, end = locate(offset), locate(words.end[number])
    if kind == "ENDMARKER" or (kind == "DEDENT" and offset == len(text)):
        # They stand on a line of their own behind the text.
        start = end = (text.count("\n") + 1 if text else 0, 0)
    elif kind in ("NEWLINE", "NL"):
        end = (start[0] + 1, 0)
    if kind == "NAME":
        return Lexeme(surface, KEYWORD if surface in _KEYWORDS else IDENTIFIER, start, end, offset)
    token_surface = _INDENT + surface if kind == "INDENT" else _SPECIAL_SURFACES.get(kind, surface)
    return Lexeme(token_surface, _KIND_OF[kind], start, end, offset)


_REACH = 3
"""Signs behind which one more can change how the first of them is read: three characters are the longest."""


class _ProgramWriter:
    """Joins tokens into a program."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._margins: list[str] = []
        self._fresh = True
        self._depth = 0
        # What has been joined without a blank so far: another token may be read together with its end.
        self._run: list[tuple[str, str]] = []

    def write(self, tokens: Sequence[str]) -> str:
        for index, token in enumerate(tokens):
            if token in (NEWLINE_TOKEN, _NL):
                if token == NEWLINE_TOKEN and self._fresh:
                    # Only a line that is continued ends a statement without a token of its own.
                    self._parts.append("".join(self._margins[-1:]) + "\\\n")
                self._break("\n")
            elif token.startswith(_INDENT):
                self._margins.append(token.removeprefix(_INDENT))
            elif token == _DEDENT:
                if self._margins:
                    self._margins.pop()
            elif token != ERROR_TOKEN:
                self._token(token, _classify_token(tokens[index + 1]) if index + 1 < len(tokens) else "")
        if _ends_in_comment(tokens):
            # A blank line at the end would be no token. There was a comment: an empty one stands for it.
            self._parts[-1] = "#"
        return "".join(self._parts)

    def _break(self, text: str) -> None:
        self._parts.append(text)
        self._fresh, self._run = True, []

    def _token(self, token: str, next_kind: str) -> None:
        kind = _classify_token(token)
        if self._fresh and not (self._depth and kind == "ERRORTOKEN"):
            # Within brackets a blank before a character that begins no word is a token too.
            self._parts += self._margins[-1:]
        if kind == "OP":
            self._depth += (token in "([{") - (token in ")]}")
        self._fresh = False
        if self._run and not _can_touch(self._run, token, kind):
            # A blank before a character that begins no word would be a token; a continued line is none.
            self._parts.append("\\\n" if kind == "ERRORTOKEN" else " ")
            self._run = []
        self._parts.append(token)
        # Digits of other scripts are read as signs, which letters behind them would join.
        needs_space = kind in ("NAME", "NUMBER") or (kind == "OP" and token[-1].isalnum())
        if needs_space and next_kind != "ERRORTOKEN":
            self._parts.append(" ")
            self._run = []
        elif token.endswith("\n"):
            self._break("")
        else:
            self._run = [] if kind == "STRING" else self._run[-_REACH:]
            self._run.append((kind, token))


def _ends_in_comment(tokens: Sequence[str]) -> bool:
    """Return whether the last line had only a comment that is not among the tokens."""
    last = len(tokens) - 1
    while last >= 0 and tokens[last] == _DEDENT:
        last -= 1
    return last >= 0 and tokens[last] == _NL and not (last and _classify_token(tokens[last - 1]) == "COMMENT")


@lru_cache(maxsize=1 << 14)
def _classify_token(token: str) -> str:
    """Return the kind of a whole token by itself; anything else is a name."""
    if token in (NEWLINE_TOKEN, _NL, _DEDENT) or token.startswith(_INDENT):
        return ""
    words = scan_words(token)
    if not words.surface:
        return "ERRORTOKEN"
    kind = words.kind[0]
    if kind in ("NUMBER", "STRING", "OP", "COMMENT", "NAME") and words.surface[0] == token:
        return kind
    return "ERRORTOKEN" if kind == "ERRORTOKEN" or token.isspace() else "NAME"


def _can_touch(run: Sequence[tuple[str, str]], token: str, kind: str) -> bool:
    """Return whether a token that directly follows others is still read as they are."""
    if kind == "STRING" and run[-1][0] == "STRING":
        return False
    if kind not in ("OP", "NUMBER", "ERRORTOKEN") or token.isspace():
        return True
    # The bracket keeps blanks that are tokens from being an indentation; nothing is read together with it.
    surfaces = ["(", *(surface for _, surface in run), token]
    return scan_words("".join(surfaces)).surface[: len(surfaces)] == surfaces


def facet(language: TreeSitterLanguage) -> PythonProgram:
    """Return the facet ``program``."""
    return PythonProgram()
