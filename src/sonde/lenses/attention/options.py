"""What a user may choose about attention."""

from __future__ import annotations

from sonde.base.options import Options, option
from sonde.base.values import Share


class AttentionOptions(Options):
    """The options of the lens."""

    lens = "attention"

    snippet: str = option("", "a file with a function whose attention is drawn in the page", scoring=True)
    mask_delimiters: bool = option(
        False, "newlines and semicolons that no dependent ends in cannot be predicted"
    )
    random_weights_share: Share = option(0.25, "share of the items that a model with random weights reads")
