"""Byte-level vocabularies learned on code: one over pieces of text, one over pieces of program tokens.

The first (``pieces="code"``) is lossless, and by design no piece reaches over a code token's edge. The text
is cut before any merge is learned, so that every piece can be assigned to one code token:

- a run of line ends with the indentation after it is one piece, so a line's depth costs one subword;
- a name's letters and underscores stay together with one space before them; digits stand alone;
- punctuation merges only within one operator (``**=``, ``->``) or one run of the same character (three
  quotes, a rule of dashes), never into ``):``;
- other blanks stay together, all but the last before a word.

Bytes are the alphabet (Radford et al. 2019, section 2.2), so any text has an encoding and nothing is
normalised.

The second (``pieces="program"``) is a fast tokenizer with true offsets. CuBERT splits a program by its
language's lexer and learns subwords on the pieces (Kanade et al. 2020, section 3.3). A fast tokenizer has no
lexer: what it cuts at is a pattern over characters. This one follows the rules of
`sonde.languages.engine.program_tokens` as far as a pattern can: underscores end a piece and go with what is
before them, case ends one, a number is one, signs join into operators only, and no piece is longer than 15
characters. So hardly any subword reaches over the edge of two program tokens (a test counts them).

What differs from the exact tokens, because every character of the text is covered and nothing is normalised:

- blanks are read: one before a word goes with it, a line break goes with the indentation after it, and
  comments stay; the exact tokens of Python have no blanks and name line breaks and indents instead;
- inside a string the rules of identifiers hold: ``a_b`` is ``a_`` and ``b`` there too (exactly: ``a``, ``_``,
  ``b``), digits stay with the letters before them, and of several marks only operators and runs of one mark
  stay together;
- characters are not spelled out: a line break in a string is its byte, not ``___NLCHAR___``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from sonde.base.errors import InputError
from sonde.base.files import write_atomic
from sonde.languages.engine.program_tokens import MAX_PIECE_LENGTH

PAD, BOS, EOS, MASK, UNK = SPECIALS = ("<|pad|>", "<|bos|>", "<|eos|>", "<|mask|>", "<|unk|>")
"""Special tokens, in the order of their ids from 0. `BOS` serves the encoder as its summary token."""


PAD_ID, BOS_ID, EOS_ID, MASK_ID, UNK_ID = range(len(SPECIALS))


_OPERATORS = r"\*\*=|//=|>>>=|>>=|<<=|\.\.\.|->|=>|::|:=|\+\+|--|&&|\|\||[-+*/%&|^@<>=!]="


_PIECES = (
    r"[\r\n]+[ \t]*"  # line ends and the indentation behind them
    r"| ?[\p{L}\p{M}_]+"
    r"|\p{N}"
    rf"| ?(?:{_OPERATORS})"
    r"| ?([^\s\p{L}\p{M}\p{N}_])\1*"  # one mark, or a run of it
    r"|[^\S\r\n]+(?!\S)"  # blanks; the last before a word goes with the word
    r"|[^\S\r\n]+"
)


_PROGRAM_OPERATORS = r"\*\*=|//=|>>>=|>>=|<<=|\.\.\.|->|:=|\+\+|--|&&|\|\||\*\*|//|<<|[-+*/%&|^@<>=!]="


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


_PROGRAM_PIECES = (
    r"[\r\n]+[ \t]*"
    rf"| ?{_NUMBER}"
    rf"| ?(?:{_CAMEL})_*"
    r"| ?_+"
    rf"| ?(?:{_PROGRAM_OPERATORS})"
    r"| ?(?:\"{1,3}|'{1,3}|([-=#*~+.])\1*)"  # quotes, and rules drawn in comments
    r"| ?[^\s\p{L}\p{M}\p{N}_]"
    r"|[^\S\r\n]+(?!\S)"
    r"|[^\S\r\n]+"
)


_CODE_PIECE = rf"[\r\n]+[ \t]*| ?[^\r\n]{{1,{MAX_PIECE_LENGTH}}}"


_CUTS = {"code": (_PIECES,), "program": (_PROGRAM_PIECES, _CODE_PIECE)}
"""Patterns by kind of pieces, applied in turn; each match, and the text between two matches, is a piece."""


def learn_vocabulary(texts: Iterable[str], size: int, pieces: str = "code") -> Tokenizer:
    """Learn byte-pair merges within the pieces of texts.

    Args:
        texts: What to learn on; the result depends on their counts, not on their order.
        size: Number of subwords, special tokens and the 256 bytes included; CuBERT's are about 50,000.
        pieces: What no subword reaches over: ``"code"`` for code tokens, ``"program"`` for program tokens.

    Returns:
        A tokenizer without a template: it adds no special token. `with_template` makes one for a model.

    Raises:
        InputError: The size leaves no room for the bytes, or the texts hold too few merges to fill it.
    """
    minimum = 256 + len(SPECIALS)
    if size < minimum:
        raise InputError(f"vocabulary size {size}: {minimum} are needed for bytes and special tokens")
    tokenizer = Tokenizer(models.BPE(unk_token=None, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in _CUTS[pieces]),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() < size:
        raise InputError(
            f"vocabulary size {size}: the texts give only {tokenizer.get_vocab_size()} subwords; "
            "ask for fewer or learn on more code"
        )
    return tokenizer


def with_template(
    tokenizer: Tokenizer, role: str, context: int, *, segments: bool = False
) -> PreTrainedTokenizerFast:
    """Wrap a vocabulary for one kind of model, with its policy on special tokens.

    A decoder reads `BOS` before the text and nothing behind it; an encoder reads `BOS` (its summary token)
    and `EOS` around each text. A special token that occurs in a text is spelled out in ordinary subwords, so
    code that contains ``<|eos|>`` means its characters; special tokens enter by id alone.

    Args:
        tokenizer: What `learn_vocabulary` gave; it is copied, not changed.
        role: ``"decoder"`` or ``"encoder"``.
        context: The longest input of the model, in subwords.
        segments: Whether the model was trained to read which of two texts a subword is in.
    """
    if role not in ("decoder", "encoder"):
        raise InputError(f"model role {role!r}: known are 'decoder' and 'encoder'")
    copy = Tokenizer.from_str(tokenizer.to_str())
    encoder = role == "encoder"
    copy.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A {EOS}" if encoder else f"{BOS} $A",
        pair=f"{BOS} $A {EOS} $B:1 {EOS}:1" if encoder else f"{BOS} $A $B:1",
        special_tokens=[(BOS, BOS_ID), (EOS, EOS_ID)],
    )
    roles: dict[str, Any] = {"cls_token": BOS, "sep_token": EOS} if encoder else {}
    if segments:
        roles["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=copy,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        add_prefix_space=False,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        mask_token=MASK,
        unk_token=UNK,
        **roles,
    )


def save_vocabulary(tokenizer: Tokenizer, path: Path) -> None:
    """Write the bare vocabulary as ``tokenizer.json``."""
    write_atomic(path, tokenizer.to_str(pretty=True))


def load_vocabulary(path: Path) -> Tokenizer:
    """Read a vocabulary that `save_vocabulary`, or any fast tokenizer, wrote."""
    if not path.is_file():
        raise InputError(f"vocabulary {str(path)!r}: no such file; leave it out of the recipe to learn one")
    return Tokenizer.from_file(str(path))
