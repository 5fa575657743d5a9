"""What a decoder reads before the text that it is scored on."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import get_args

from sonde.base.errors import UnknownNameError
from sonde.capture.requests import Padded, Pass, Plain, Start, TokenScores
from sonde.lenses._lens import Option
from sonde.lenses.surprisal.pads import PADS

FIRST_UNSCORED = "perplexed.first_unscored"

OPTIONS: Mapping[str, str] = {
    "bos": "what a decoder reads before each text: auto (its start token, or its end of text in place of "
    "one, where it has either), always (the same, and a model that has neither is refused), none, or "
    "tokenizer (what the tokenizer puts there by itself; default auto)",
}


def reading(scores: TokenScores, options: Mapping[str, Option], quirks: Set[str]) -> tuple[Pass, ...]:
    """The passes of a decoder.

    Raises:
        UnknownNameError: An option has no such value.
    """
    plain = Plain(start="tokenizer", cut=True) if FIRST_UNSCORED in quirks else Plain(start=_start(options))
    passes = (Pass(plain, (scores,)),)
    return (*passes, Pass(Padded(start=plain.start), (scores,))) if PADS in quirks else passes


def _start(options: Mapping[str, Option]) -> Start:
    asked = options.get("bos", "auto")
    for start in get_args(Start):
        if asked == start:
            return start
    raise UnknownNameError("value of option bos", str(asked), get_args(Start))
