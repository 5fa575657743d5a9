"""What a user may choose about interventions."""

from __future__ import annotations

from typing import Annotated

from sonde.base.options import Count, OneOf, Options, option
from sonde.lenses._lens import LensSettings

LENS = "causal"

METHODS = ("erase", "ablate")
"""Public names of the methods, a module of `sonde.lenses.causal` each."""


class CausalOptions(Options):
    """The options of the lens."""

    lens = LENS

    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = option(
        METHODS, "erase: properties are taken out of states; ablate: heads are replaced"
    )
    draws: Count = option(
        5, "random subspaces, and random heads, that each effect is held against; 20 for a paper"
    )
    items: Count = option(
        100, "most functions that effects are measured on, those of validation, on which is chosen, included"
    )


def read_options(settings: LensSettings) -> CausalOptions:
    """The options of a lens's settings.

    Raises:
        UsageError: A value that cannot be used.
    """
    return CausalOptions.read(settings.options)
