r"""Subtokens as CuBERT's files hold them: program tokens in the escapes of Tensor2Tensor.

In a program token, ``_`` is written ``\u``, ``\`` is doubled, a character outside the vocabulary's alphabet
is written by its number (``\10;``), and a ``_`` ends the token. A vocabulary may split a token into several
subtokens, of which only the last ends in ``_``; without a vocabulary, as `escape_piece` writes them, each
subtoken is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sonde.languages.engine.program_tokens import (
    EOS_TOKEN,
    FINETUNING_FORMAT,
    ProgramLexer,
    ProgramToken,
    build_program_tokens,
)

BEGIN, END = "[CLS]_", "[SEP]_"


_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")


@dataclass(frozen=True, slots=True)
class JoinedSubtokens:
    """Subtokens of a function joined to program tokens.

    Attributes:
        pieces: The pieces, the end of the program included.
        first: For each piece but the end, the subtoken that it begins with.
        size: Number of subtokens.
    """

    pieces: tuple[str, ...]
    first: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class MaskedProgram:
    """A function as a list of subtokens with masks over it, of one length.

    Attributes:
        subtokens: They begin with `BEGIN`, which is a candidate and means that there is no bug.
        error: One 1, at the misused variable or at the beginning.
        targets: 1 at variables that are right there.
        candidates: 1 at the beginning and wherever a variable stands.
    """

    subtokens: list[str]
    error: list[int]
    targets: list[int]
    candidates: list[int]


def escape_piece(piece: str) -> str:
    r"""Write a piece of a program token as a whole subtoken.

    >>> escape_piece("a_^")
    'a\\u^_'
    """
    plain = piece.replace("\\", "\\\\").replace("_", "\\u").replace("\n", "\\10;")
    return f"{plain}_"


def unescape_subtoken(subtoken: str) -> str:
    """Return the piece that joined subtokens stand for."""

    def decode_escape(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1]))
        return "_" if match[0] == "\\u" else "\\"

    return _ESCAPE.sub(decode_escape, subtoken.removesuffix("_"))


def join_subtokens(subtokens: Sequence[str]) -> JoinedSubtokens:
    """Join subtokens to pieces; the marks of begin and end are left out, and the end of the program is added.

    Raises:
        ValueError: The last subtoken ends no piece.
    """
    pieces: list[str] = []
    first: list[int] = []
    current, begin = "", 0
    for index, subtoken in enumerate(subtokens):
        begin = begin if current else index
        current += subtoken
        if not subtoken.endswith("_"):
            continue
        piece = unescape_subtoken(current)
        if current not in (BEGIN, END) and piece != EOS_TOKEN:
            pieces.append(piece)
            first.append(begin)
        current = ""
    if current:
        raise ValueError(f"subtokens end within a token: {current!r}")
    return JoinedSubtokens((*pieces, EOS_TOKEN), tuple(first), len(subtokens))


def locate_subtokens(
    facet: ProgramLexer, text: str, joined_subtokens: JoinedSubtokens
) -> dict[int, tuple[int, int]]:
    """Map each subtoken that begins a program token to the token's characters in the text.

    Raises:
        ValueError: The text has other tokens.
    """
    tokens = _program_tokens(facet, text)
    if [piece for token in tokens for piece in token.pieces] != list(joined_subtokens.pieces[:-1]):
        raise ValueError("the function read from its subtokens has other ones")
    spans: dict[int, tuple[int, int]] = {}
    piece_index = 0
    for token in tokens:
        offset = token.lexeme.offset
        spans[joined_subtokens.first[piece_index]] = (offset, offset + len(token.lexeme.surface))
        piece_index += len(token.pieces)
    return spans


def mask_program(
    facet: ProgramLexer,
    text: str,
    *,
    error: tuple[int, int] | None,
    targets: Iterable[tuple[int, int]],
    candidates: Iterable[tuple[int, int]],
) -> MaskedProgram:
    """Convert a function to subtokens, with masks of its places; only first subtokens are marked."""
    subtokens, first = [BEGIN], dict[int, int]()
    for token in _program_tokens(facet, text):
        first[token.lexeme.offset] = len(subtokens)
        subtokens += map(escape_piece, token.pieces)
    subtokens.append(END)
    error_mask = _build_mask(len(subtokens), [error] if error else [], first)
    if error is None:
        error_mask[0] = 1
    possible = _build_mask(len(subtokens), candidates, first)
    possible[0] = 1
    return MaskedProgram(subtokens, error_mask, _build_mask(len(subtokens), targets, first), possible)


def _program_tokens(facet: ProgramLexer, text: str) -> list[ProgramToken]:
    """Return the tokens of a function without its end."""
    return build_program_tokens(facet, text, FINETUNING_FORMAT)[:-1]


def _build_mask(size: int, spans: Iterable[tuple[int, int]], first: Mapping[int, int]) -> list[int]:
    mask = [0] * size
    for start, _ in spans:
        if start in first:
            mask[first[start]] = 1
    return mask
