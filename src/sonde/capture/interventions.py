"""Interventions on a model and patching of text pairs, as plain data without torch.

A `Change` says where (side, layer, site, heads, positions) and what: a state is mapped (`Affine`) or replaced
by another one (`Put`). Positions are subwords of the item; special tokens and pads stay as they are.

`Patches` ask for a pair of texts that differ in little: a clean text and a corrupt one, in which another
answer is correct at the same place. States of one text replace those of the other, and the score measures how
far the answer follows (Zhang and Nanda 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from sonde.base.fingerprint import derive_seed, fingerprint, hash_bytes

Site = Literal["residual", "heads"]
"""``"residual"``: the state behind a layer, 0 the embeddings, as `sonde.capture.requests.HiddenStates` reads
it (the last one behind the model's final norm). ``"heads"``: what heads give, before the projection that
mixes them; layers from 0 as `sonde.capture.requests.AttentionRows` counts them."""


@dataclass(frozen=True, eq=False)
class Affine:
    """A map of low rank: ``x -> x - ((x - centre) @ down) @ up``.

    LEACE is such a map (Belrose et al. 2023), and so is every other projection of a subspace to its mean.

    Attributes:
        down: To the subspace.
        up: Back from it.
        centre: What stays as it is.
    """

    down: Float[np.ndarray, "width rank"]
    up: Float[np.ndarray, "rank width"]
    centre: Float[np.ndarray, " width"]
    index: ClassVar[None] = None

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return what it computes with; the last one is as wide as the states."""
        return self.down, self.up, self.centre


@dataclass(frozen=True, eq=False)
class Put:
    """Other states in the place of those that are there: patching, or ablation by zero, mean, another item.

    Attributes:
        values: What may be put.
        index: For each item id, which of the values each of the positions gets, in the order of
            `Change.positions` (of all subwords where that is None); None where every one gets the first.
    """

    values: Float[np.ndarray, "value width"]
    index: Mapping[str, Int[np.ndarray, " position"]] | None = None

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return what it puts; as wide as the states."""
        return (self.values,)


@dataclass(frozen=True, eq=False)
class Change:
    """One change at one place of a model; two that hold the same are the same.

    Attributes:
        layer: Which layer, see `Site`.
        what: What is done to the states there.
        site: The states after a layer, or what its heads give.
        heads: Of the site ``"heads"`` which query heads; the width of what is done is theirs together, in
            this order.
        positions: For each item id the subwords that are changed, and items without an entry are not read;
            None for all subwords of every item.
        side: ``"encoder"``, ``"decoder"`` or ``"cross"`` (heads from decoder to encoder); empty for the side
            that reads the text.
    """

    layer: int
    what: Affine | Put
    site: Site = "residual"
    heads: tuple[int, ...] = ()
    positions: Mapping[str, tuple[int, ...]] | None = None
    side: str = ""

    def concerns(self, item: str) -> bool:
        """Return whether the change applies to an item."""
        has_positions = self.positions is None or bool(self.positions.get(item))
        return has_positions and (self.what.index is None or item in self.what.index)

    @cached_property
    def key(self) -> str:
        """Return a fingerprint of the whole change."""
        operation, index = self.what, self.what.index
        entries = None if index is None else {item: values.tolist() for item, values in index.items()}
        arrays = [(array.shape, array.dtype.str, hash_bytes(array.tobytes())) for array in operation.arrays]
        positions = None if self.positions is None else dict(self.positions)
        location = (self.layer, self.site, self.heads, self.side)
        return fingerprint("change", type(operation).__name__, location, arrays, entries, positions)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Change) and self.key == other.key)

    def __hash__(self) -> int:
        return hash((self.layer, self.site, self.heads, self.side, type(self.what)))


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
    """The place in a model at which states are replaced.

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
    """Patching of text pairs; the first pair of each item that the model cuts alike is used.

    All layers and cells are attributed from one forward and one backward of a pair (attribution patching,
    Nanda 2023); some are patched one by one.

    Attributes:
        pairs: For each item id, pairs whose clean text is the item's.
        cells: Cells by name, each with the roles of the subwords whose states are put together.
        patched: Cells that are patched in every pair.
        drawn: How many further cells of each pair are drawn at random and patched, so that attribution can be
            compared with what it guesses.
        seed: Of the draw.
    """

    pairs: Mapping[str, tuple[TextPair, ...]]
    cells: Mapping[str, tuple[str, ...]]
    patched: tuple[PatchCell, ...] = ()
    drawn: int = 0
    seed: int = 0

    def for_item(self, item: str) -> None:
        """Ask nothing of the input itself: pairs of texts are read by themselves."""

    def of_pair(self, item: str, layers: int) -> tuple[list[PatchCell], list[PatchCell]]:
        """Return the cells patched in every pair, and those drawn at random for this one.

        None is drawn of the last layer, whose states answer linearly, so that attribution is right by itself.
        """
        fixed_cells = [cell for cell in self.patched if cell.layer < layers and cell.cell in self.cells]
        candidates = [
            PatchCell(direction, layer, cell)
            for direction in DIRECTIONS
            for layer in range(layers - 1)
            for cell in self.cells
        ]
        order = np.random.default_rng(derive_seed("patches", self.seed, item)).permutation(len(candidates))
        return fixed_cells, [candidates[index] for index in order[: self.drawn].tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class PatchEffect:
    """The result of one pair; margins are the right answer's logit less the other's.

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
    pair: PatchEffect | None
