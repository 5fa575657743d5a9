"""What a user may choose about surprisal."""

from __future__ import annotations

from typing import Annotated

from sonde.base.options import option
from sonde.base.values import Count, OneOf
from sonde.capture.requests import Start
from sonde.lenses._server_options import ServerOptions

CAUSAL, PLL, INFILL = "causal", "pll", "infill"
ALONE = "none"


class SurprisalOptions(ServerOptions):
    """The options of the lens, and those of a server that scores its prompts."""

    lens = "surprisal"

    min_count: Count = option(20, "fewest subwords that a slice needs for a row of its own")
    with_internal_calls: bool = option(
        False, "score only items with a call into their repository (PERPLEXED, section 3.1)"
    )
    objective: Annotated[str, OneOf((CAUSAL, PLL, INFILL))] = option(
        CAUSAL,
        "causal for decoders, pll (pseudo-log-likelihood, word by word from left to right) for masked "
        "models, infill (each code token left out and written from both sides) for encoder-decoders and for "
        "decoders trained to fill in the middle; where none is named, the first that fits all models",
    )
    bos: Start = option(
        "auto",
        "what a decoder reads before each text: auto (its start token, or its end of text in place of one, "
        "where it has either), always (the same, and a model that has neither is refused), none, or "
        "tokenizer (what the tokenizer puts there by itself)",
    )
    before: Annotated[str, OneOf((ALONE, "both"))] = option(
        ALONE,
        "what a decoder knows of a function's file: none (each text alone), or both (each also behind the "
        "text of its file before it, as much as the model takes; rows before=file and the paired change)",
    )
    pairs: tuple[str, ...] = option(
        (),
        "tasks of faults and bugs that are read as minimal pairs in place of the items (all: every one): is "
        "a function as it was written likelier than with the fault",
    )
    masked_items: Count = option(
        # Each costs a forward a subword.
        200,
        "at most this many items of a corpus and language with pll or infill, and pairs of a task with pll",
    )
    masked_characters: Count = option(
        # Cost and memory grow with the square of it.
        1500,
        "with pll or infill, longest item that is read, in characters",
    )
