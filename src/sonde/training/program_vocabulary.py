r"""A byte-level vocabulary learned on pieces of program tokens, as a fast tokenizer with true offsets.

CuBERT splits a program by its language's lexer and learns subwords on the pieces (Kanade et al. 2020, section
3.3). A fast tokenizer has no lexer: what it cuts at is a pattern over characters. This one follows the rules
of `sonde.languages._program` as far as a pattern can: underscores end a piece and go with what is before
them, case ends one, a number is one, signs join into operators only, and no piece is longer than 15
characters. So hardly any subword reaches over the edge of two program tokens (`agreement` counts them).

What differs from the exact tokens, because every character of the text is covered and nothing is normalised:

- blanks are read: one before a word goes with it, a line break goes with the indentation behind it, and
  comments stay; the exact tokens of Python have no blanks and name line breaks and indents instead;
- inside a string the rules of identifiers hold: ``a_b`` is ``a_`` and ``b`` there too (exactly: ``a``, ``_``,
  ``b``), digits stay with the letters before them, and of several marks only operators and runs of one mark
  stay together;
- characters are not spelled out: a line break in a string is its byte, not ``___NLCHAR___``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer

from sonde.languages._program import JOINT, LONGEST, NEWLINE, Program, program_tokens, whole_tokens
from sonde.training.vocabulary import learn_merges

_OPERATORS = r"\*\*=|//=|>>>=|>>=|<<=|\.\.\.|->|:=|\+\+|--|&&|\|\||\*\*|//|<<|[-+*/%&|^@<>=!]="
_LOWER = r"[\p{L}\p{M}\p{N}&&[^\p{Lu}\p{Lt}]]"
_DIGITS = r"[0-9](?:_?[0-9])*"
_NUMBER = (
    r"(?<![\p{L}\p{M}\p{N}_])(?:0[xX][0-9a-fA-F_]+|0[bBoO][0-7_]+"
    rf"|(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][-+]?{_DIGITS})?)[jJlLfFdD]?(?![\p{{L}}_])"
)
_CAMEL = (
    rf"\p{{Lt}}{_LOWER}*|\p{{Lu}}{_LOWER}+|\p{{Lu}}+(?=\p{{Lt}})|\p{{Lu}}+(?=\p{{Lu}}{_LOWER})|\p{{Lu}}+"
    rf"|{_LOWER}+"
)
_PIECES = (
    r"[\r\n]+[ \t]*"
    rf"| ?{_NUMBER}"
    rf"| ?(?:{_CAMEL})_*"
    r"| ?_+"
    rf"| ?(?:{_OPERATORS})"
    r"| ?(?:\"{1,3}|'{1,3}|([-=#*~+.])\1*)"  # quotes, and rules drawn in comments
    r"| ?[^\s\p{L}\p{M}\p{N}_]"
    r"|[^\S\r\n]+(?!\S)"
    r"|[^\S\r\n]+"
)
_CUT = rf"[\r\n]+[ \t]*| ?[^\r\n]{{1,{LONGEST}}}"


def learn_program_vocabulary(texts: Iterable[str], size: int) -> Tokenizer:
    """Learn byte-pair merges within pieces of program tokens.

    Args:
        texts: What to learn on; the result depends on their counts, not on their order.
        size: Number of subwords, special pieces and the 256 bytes included; CuBERT's are about 50,000.

    Returns:
        A tokenizer without a template; `sonde.training.vocabulary.with_template` makes one for a model.

    Raises:
        InputError: The size leaves no room for the bytes, or the texts hold too few merges to fill it.
    """
    return learn_merges(texts, size, (_PIECES, _CUT))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the subwords of a text lie to its exact program tokens.

    Attributes:
        tokens: Program tokens that stand for characters.
        crossed: Edges of two program tokens that a subword reaches over.
        pieces: Edges of pieces inside program tokens.
        kept: Those of them that are edges of subwords.
        subwords: Subwords of the text.
    """

    tokens: int
    crossed: int
    pieces: int
    kept: int
    subwords: int


def agreement(tokenizer: Tokenizer, facet: Program, text: str) -> Agreement:
    """Compare the subwords of a text with its program tokens, comments included.

    Args:
        tokenizer: What `learn_program_vocabulary` gave.
        facet: The facet ``program`` of the text's language.
        text: Code that the language's lexer accepts.
    """
    spans: list[tuple[int, int]] = tokenizer.encode(text, add_special_tokens=False).offsets
    # A blank before a word lies in the word's subword: its edge is where the word begins.
    inside = {at for start, end in spans for at in range(_first(text, start, end) + 1, end)}
    begins = {start for start, _ in spans} | {_first(text, start, end) for start, end in spans}
    tokens = crossed = pieces = kept = 0
    for token in program_tokens(facet, text):
        start, spelling = token.lexeme.offset, token.lexeme.spelling
        if token.lexeme.kind == NEWLINE or not text.startswith(spelling, start) or not spelling:
            continue
        tokens += 1
        crossed += start in inside
        at = start
        for piece in token.pieces[:-1]:
            # What was spelled out is one character, the joint none.
            (plain,) = whole_tokens([piece.removesuffix(JOINT)])
            at += len(plain)
            pieces += 1
            kept += at in begins
    return Agreement(tokens, crossed, pieces, kept, len(spans))


def _first(text: str, start: int, end: int) -> int:
    """The first character of a subword that is no blank."""
    return next((at for at in range(start, end) if not text[at].isspace()), start)
