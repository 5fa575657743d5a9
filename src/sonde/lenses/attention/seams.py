"""Where published rules stand in for those of the lens; docs/paper-modes.md lists what stands there.

The quirks of the published labels are the languages' own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sonde.capture.requests import RankRules
from sonde.lenses._lens import LensSettings
from sonde.lenses._quirks import Seam

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool

    from sonde.lenses.attention.choice import HeadChoice

LENS = "attention"

RANKS: Seam[RankRules, []] = Seam(LENS)
"""How words are ranked."""

HEAD_CHOICE: Seam[HeadChoice, []] = Seam(LENS)
"""How the best head of a relation is chosen."""

BASELINES: Seam[Bool[np.ndarray, " edge"], [Bool[np.ndarray, " edge"]]] = Seam(LENS)
"""Edges that baselines are chosen on; told those that they are scored on."""

AVERAGED: Seam[tuple[str, ...], [tuple[str, ...]]] = Seam(LENS)
"""Relations that the average is over; told those that the paper's plots keep."""


def rules_of(settings: LensSettings) -> RankRules:
    """How words are ranked."""
    return RANKS.as_asked(settings, RankRules(picks=settings.stage > 0))
