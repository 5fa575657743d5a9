"""What a user may choose about interventions."""

from __future__ import annotations

from typing import Annotated

from sonde.base.options import Count, OneOf, Options, option
from sonde.lenses.engine.lens import LensSettings

LENS = "causal"

METHODS = ("erase", "ablate", "patch", "logit_lens")
"""Public names of the methods, a module of `sonde.lenses.causal` each."""


class CausalOptions(Options):
    """The options of the lens."""

    lens = LENS

    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = option(
        METHODS,
        "erase: properties are taken out of states; ablate: heads are replaced; patch: states of a function "
        "are put into another in which the other of two variables is right; logit_lens: layers are read "
        "through the model's head",
    )
    draws: Count = option(
        5,
        "random heads that each effect of heads is held against; 20 for a paper. What erasing a property "
        "costs is held against as many draws as its verdict needs, whatever is given here",
    )
    items: Count = option(
        100,
        "most functions that effects are measured on: those of the test split, and those of validation, by "
        "which layers are chosen",
    )
    patched_cells: Count = option(
        100,
        "cells (layer, role of a position, direction) that are patched in every pair of functions, those of "
        "the largest attributed effect on the training split",
    )
    drawn_cells: Count = option(
        6, "further cells that are drawn at random in each pair, to hold attribution against patching"
    )
    tuned: bool = option(
        False,
        "with logit_lens, also read each layer through an affine map that is trained for it on the training "
        "split (tuned lens)",
    )


def read_options(settings: LensSettings) -> CausalOptions:
    """The options of a lens's settings.

    Raises:
        UsageError: A value that cannot be used.
    """
    return CausalOptions.read(settings.options)
