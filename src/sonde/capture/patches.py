"""What may be asked of a pair of texts that differ in little: plain data, no torch here.

A clean text and a corrupt one, in which another answer is right at the same place, are read side by side.
States of the one are put in the place of the other's, and it is seen how far the answer follows (Zhang and
Nanda 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sonde.base.fingerprint import derive_seed

DIRECTIONS = ("denoising", "noising")
"""Clean states put into the corrupt text: what suffices; corrupt ones into the clean text: what is needed."""

PLACE, OTHER = "place", "other"
"""Roles of subwords that every pair has: where the model answers (of a decoder the subword before the place,
of an encoder the masks), and whatever is read and has no other role."""

Span = tuple[int, int]
"""Characters of the clean text, end exclusive."""


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text and what is compared with it.

    Attributes:
        corrupt: The other text; what stands at the place is the same in both.
        swapped: The clean text with the other answer at the place, from which its subwords are read.
        place: Where the model answers, in characters of the clean text.
        roles: Stretches of the clean text that are exchanged in the corrupt one, by what they are to the
            place; of a subword that touches several the last counts.
    """

    corrupt: str
    swapped: str
    place: Span
    roles: Mapping[str, tuple[Span, ...]]


class PatchCell(NamedTuple):
    """Where states are put.

    Attributes:
        direction: One of `DIRECTIONS`.
        layer: The states behind which layer, 0 the embeddings.
        cell: Name of the cell, see `Patches.cells`.
    """

    direction: str
    layer: int
    cell: str


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """What patching does to pairs of texts; each item's first pair that the model cuts alike is taken.

    All layers and cells are attributed from one forward and one backward of a pair (attribution patching,
    Nanda 2023); some are patched one by one.

    Attributes:
        pairs: For each item id, pairs whose clean text is the item's.
        cells: Cells by name, each with the roles of the subwords whose states are put together.
        patched: Cells that are patched in every pair.
        drawn: How many further cells of each pair are drawn at random and patched, so that attribution can be
            held against what it guesses.
        seed: Of the draw.
    """

    pairs: Mapping[str, tuple[TextPair, ...]]
    cells: Mapping[str, tuple[str, ...]]
    patched: tuple[PatchCell, ...] = ()
    drawn: int = 0
    seed: int = 0

    def of_pair(self, item: str, layers: int) -> tuple[list[PatchCell], list[PatchCell]]:
        """The cells of one pair that are patched as in every pair, and those drawn at random.

        None is drawn of the last layer, whose states answer linearly, so that attribution is right by itself.
        """
        known = [one for one in self.patched if one.layer < layers and one.cell in self.cells]
        every = [
            PatchCell(direction, layer, cell)
            for direction in DIRECTIONS
            for layer in range(layers - 1)
            for cell in self.cells
        ]
        order = np.random.default_rng(derive_seed("patches", self.seed, item)).permutation(len(every))
        return known, [every[at] for at in order[: self.drawn].tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class Patched:
    """What came of one pair; margins are the right answer's logit less the other's.

    Attributes:
        place: Characters of the place.
        clean: Margin of the clean text.
        corrupt: Margin of the corrupt one.
        attributed: By how much the margin of the text that states are put into would change, by its gradient.
        patched: By how much it did change; NaN where nothing was put.
        drawn: Where it was patched because it was drawn at random.
    """

    place: Span
    clean: float
    corrupt: float
    attributed: Float[np.ndarray, "direction layer cell"]
    patched: Float[np.ndarray, "direction layer cell"]
    drawn: Bool[np.ndarray, "direction layer cell"]


@dataclass(frozen=True, slots=True, eq=False)
class PatchedItem:
    """Answer to `Patches` for one item.

    Attributes:
        tried: Pairs of the item.
        aligned: Those of them that the model cuts alike, and can read at once.
        pair: What came of the first of those; None where there is none.
    """

    tried: int
    aligned: int
    pair: Patched | None
