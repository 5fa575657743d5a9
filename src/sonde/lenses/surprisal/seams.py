"""Where published rules stand in for those of the lens, and the switches of what a model reads.

docs/paper-modes.md lists what stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from sonde.base.errors import UnknownNameError
from sonde.capture.requests import Prepared
from sonde.lenses._lens import LensSettings
from sonde.lenses._quirks import Seam, quirk_lines_of, quirks_on

if TYPE_CHECKING:
    from sonde.lenses.surprisal.observe import Filed, Laid
    from sonde.lenses.surprisal.origin import Summary
    from sonde.lenses.surprisal.pools import Pooled
    from sonde.lenses.surprisal.sums import Sums

LENS = "surprisal"

TagRule = Callable[[Prepared], Sequence[str]]
"""Gives the tag of each subword of an item."""

TAGS: Seam[TagRule, []] = Seam(LENS)
"""How subwords are tagged."""

CALLS: Seam[pl.DataFrame, []] = Seam(LENS)
"""Labels of calls, before subwords are joined with them."""

ORIGINS: Seam[Pooled, [Mapping[str, pl.DataFrame], Laid]] = Seam(LENS)
"""Where the call of each subword goes; told the labels of all tasks, and the items."""

FILED: Seam[Filed, [Laid]] = Seam(LENS)
"""Under which tag and call each score is filed; of scores from left to right only."""

SUBWORD: Seam[pl.Expr, []] = Seam(LENS)
"""What a slice of the dimension ``subword`` is called."""

FIRST_APART: Seam[pl.Expr, []] = Seam(LENS)
"""Which subwords are in no slice, since nothing of their text stands before them."""

SUMS: Seam[Sums, []] = Seam(LENS)
"""The sums that scores are made of."""

SUMMARY: Seam[Summary, []] = Seam(LENS)
"""How calls into the repository and out of it are summed up."""

FIRST_UNSCORED, PADS = "perplexed.first_unscored", "perplexed.pads"
"""Switches: nothing is put before a text but what the tokenizer puts there, and pads are scored."""


def active(settings: LensSettings) -> frozenset[str]:
    """The quirks of the lens that are on.

    Raises:
        UnknownNameError: A quirk of these papers that does not exist.
        InputError: Quirks are on, and what papers published is not registered.
    """
    on = frozenset(quirk.name for quirk in quirks_on(LENS, settings))
    if other := sorted(settings.quirks - on):
        known = quirk_lines_of(LENS)
        papers = {name.partition(".")[0] for name in known}
        for quirk in other:
            if quirk.partition(".")[0] in papers:
                raise UnknownNameError("quirk", quirk, known)
    return on
