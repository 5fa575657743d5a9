r"""A byte-level vocabulary learned on pieces of program tokens, as a fast tokenizer with true offsets.

CuBERT splits a program by its language's lexer and learns subwords on the pieces (Kanade et al. 2020, section
3.3). A fast tokenizer has no lexer: what it cuts at is a pattern over characters. This one follows the rules
of `sonde.languages._program` as far as a pattern can: underscores end a piece and go with what is before
them, case ends one, a number is one, signs join into operators only, and no piece is longer than 15
characters. So hardly any subword reaches over the edge of two program tokens (a test counts them).

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

from tokenizers import Tokenizer

from sonde.languages._program import LONGEST
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
