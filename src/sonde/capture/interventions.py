"""What may be changed while a model reads an item: plain data, no torch here.

A `Change` says where (side, layer, site, heads, positions) and what: a state is mapped (`Affine`) or another
one is put in its place (`Put`). Positions are subwords of the item; special tokens and pads stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from sonde.base.fingerprint import fingerprint, hash_bytes

Site = Literal["residual", "heads"]
"""``"residual"``: the state behind a layer, 0 the embeddings, as `HiddenStates` reads it (the last one behind
the model's final norm). ``"heads"``: what heads give, before the projection that mixes them; layers from 0 as
`AttentionRows` counts them."""


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

    def __call__(self, states: Float[np.ndarray, "*axes width"]) -> Float[np.ndarray, "*axes width"]:
        """The mapped states."""
        return states - ((states - self.centre) @ self.down) @ self.up


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
        """Whether it says what is changed of an item."""
        known = self.positions is None or bool(self.positions.get(item))
        index = self.what.index if isinstance(self.what, Put) else None
        return known and (index is None or item in index)

    @cached_property
    def key(self) -> str:
        """Fingerprint of all that it says."""
        what = self.what
        if isinstance(what, Affine):
            held = [what.down, what.up, what.centre]
            index = None
        else:
            held = [what.values]
            index = None if what.index is None else {item: at.tolist() for item, at in what.index.items()}
        arrays = [(array.shape, array.dtype.str, hash_bytes(array.tobytes())) for array in held]
        positions = None if self.positions is None else dict(self.positions)
        where = (self.layer, self.site, self.heads, self.side)
        return fingerprint("change", type(what).__name__, where, arrays, index, positions)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Change) and self.key == other.key)

    def __hash__(self) -> int:
        return hash((self.layer, self.site, self.heads, self.side, type(self.what)))
