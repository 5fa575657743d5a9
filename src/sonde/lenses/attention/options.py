"""Options of the attention lens, and the hooks at which published rules replace its own.

docs/paper-modes.md lists the published rules of each hook. The quirks of the published labels belong to the
languages instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sonde.base.options import Options, Share, option
from sonde.capture.requests import RankRules
from sonde.lenses.engine.lens import LensSettings, QuirkHook

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool


class AttentionOptions(Options):
    """The options of the lens."""

    lens = "attention"

    snippet: str = option("", "a file with a function whose attention is drawn in the page", scoring=True)
    mask_delimiters: bool = option(
        False, "newlines and semicolons that no dependent ends in cannot be predicted"
    )
    random_weights_share: Share = option(0.25, "share of the items that a model with random weights reads")


LENS = "attention"


RANKS: QuirkHook[RankRules, []] = QuirkHook(LENS)
"""How words are ranked."""


BASELINES: QuirkHook[Bool[np.ndarray, " edge"], [Bool[np.ndarray, " edge"]]] = QuirkHook(LENS)
"""Edges that baselines are chosen on; told those that they are scored on."""


AVERAGED: QuirkHook[tuple[str, ...], [tuple[str, ...]]] = QuirkHook(LENS)
"""Relations that the average is over; told those that the paper's plots keep."""


def get_rank_rules(settings: LensSettings) -> RankRules:
    """How words are ranked."""
    return RANKS.resolve(settings, RankRules(picks=settings.stage > 0))


METRICS = ("first_hit", "last_hit", "any_hit")
