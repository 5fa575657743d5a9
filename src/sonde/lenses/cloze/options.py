"""What a user may choose about queries and their ranks."""

from __future__ import annotations

from typing import Annotated

from sonde.base.options import option
from sonde.base.values import Count, OneOf
from sonde.tasks._cloze_options import StatementOptions

BOTH, UNIFIED = "both", "unified"


class ClozeOptions(StatementOptions):
    """The options of the lens, beside those of its tasks."""

    unified: tuple[str, ...] = option(
        (),
        "models whose shared vocabulary is ranked beside the model's own",
        unset="the models of the run, where there are several",
    )
    ranking: Annotated[str, OneOf((BOTH, UNIFIED))] = option(
        BOTH,
        f"{BOTH}: ranks and probabilities over each model's own vocabulary and over the shared one; "
        f"{UNIFIED}: of answers of one subtoken over the shared one alone, faster",
    )
    min_count: Count = option(20, "fewest cloze queries that a library needs for a row of its own")
