"""What a decoder reads before the text that it is scored on."""

from __future__ import annotations

from collections.abc import Set

from sonde.capture.requests import Padded, Pass, Plain, Start, TokenScores
from sonde.lenses.surprisal.pads import PADS

FIRST_UNSCORED = "perplexed.first_unscored"


def reading(scores: TokenScores, start: Start, quirks: Set[str]) -> tuple[Pass, ...]:
    """The passes of a decoder that is given a start."""
    plain = Plain(start="tokenizer", cut=True) if FIRST_UNSCORED in quirks else Plain(start=start)
    passes = (Pass(plain, (scores,)),)
    return (*passes, Pass(Padded(start=plain.start), (scores,))) if PADS in quirks else passes
