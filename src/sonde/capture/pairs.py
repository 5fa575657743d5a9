"""Pairs of texts in a model's subwords: which are cut alike, and what each subword is to the place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from sonde.alignment import Subwords, encode
from sonde.capture.patches import OTHER, PLACE, Span, TextPair
from sonde.capture.requests import Prepared


@dataclass(frozen=True, slots=True, eq=False)
class AlignedPair:
    """A clean and a corrupt text whose subwords stand at the same positions.

    Attributes:
        clean: Subwords of the clean text, of a decoder up to the place.
        corrupt: Those of the corrupt one.
        target: Position of the subword that is asked for: the first in which the two answers differ.
        other: The id that would be right there in the corrupt text.
        masked: Positions that an encoder sees a mask at, all of the place; none for a decoder.
        role: For each subword its number among the roles: those of the pair in their order, then `PLACE` and
            `OTHER`; -1 where a decoder does not look.
        roles: Names of these numbers.
    """

    clean: Subwords
    corrupt: Subwords
    target: int
    other: int
    masked: tuple[int, ...]
    role: Int[np.ndarray, " subword"]
    roles: tuple[str, ...]

    def belonging(self, cells: Sequence[Sequence[str]]) -> Bool[np.ndarray, "cell subword"]:
        """Which subwords belong to which cells, given the roles of each cell."""
        numbers = [[self.roles.index(name) for name in cell if name in self.roles] for cell in cells]
        return np.stack([np.isin(self.role, mine) for mine in numbers])


def align_pair(tokenizer: Any, clean: Subwords, pair: TextPair, *, decoder: bool) -> AlignedPair | None:
    """The pair in subwords; None where the two texts are not cut alike.

    Args:
        tokenizer: A fast transformers tokenizer.
        clean: Subwords of the clean text.
        pair: The other text.
        decoder: Whether only what stands before the place is read.
    """
    corrupt, swapped = encode(tokenizer, pair.corrupt), encode(tokenizer, pair.swapped)
    place = _covering(clean, pair.place)
    shared = min(len(clean), len(swapped))
    apart = np.flatnonzero(clean.ids[:shared] != swapped.ids[:shared])
    if not len(apart) or not place[apart[0]]:
        return None
    target = int(apart[0])
    read = target + 1 if decoder else len(clean)
    if target == 0 or len(corrupt) < read:
        return None
    if not decoder and not (len(corrupt) == len(swapped) == read and place[apart].all()):
        return None
    roles = (*pair.roles, PLACE, OTHER)
    changed = clean.ids[:read] != corrupt.ids[:read]
    role = np.full(read, roles.index(OTHER), dtype=np.int64)
    for name, spans in pair.roles.items():
        for span in spans:
            mine = _covering(clean, span)[:read]
            if mine.any() and not changed[mine].any():
                # What was exchanged has to be seen.
                return None
            role[mine] = roles.index(name)
    if changed[(role == roles.index(OTHER)) | place[:read]].any():
        return None
    masked: tuple[int, ...] = ()
    if decoder:
        role[target], role[target - 1] = -1, roles.index(PLACE)
    else:
        masked = tuple(np.flatnonzero(place).tolist())
        role[place] = roles.index(PLACE)
    other = int(swapped.ids[target])
    return AlignedPair(_up_to(clean, read), _up_to(corrupt, read), target, other, masked, role, roles)


def reading(prepared: Prepared, subwords: Subwords, side: str) -> Prepared:
    """An item as a model is shown one side of a pair of it."""
    item = dataclasses.replace(prepared.item, item_id=f"{prepared.item.item_id}/{side}")
    alignment = dataclasses.replace(prepared.alignment, subwords=subwords)
    return dataclasses.replace(prepared, item=item, alignment=alignment)


def _covering(subwords: Subwords, span: Span) -> Bool[np.ndarray, " subword"]:
    """Which subwords share a character with a stretch."""
    return (subwords.start < span[1]) & (subwords.end > span[0])


def _up_to(subwords: Subwords, stop: int) -> Subwords:
    columns = ("ids", "start", "end", "bytes", "surface")
    return dataclasses.replace(subwords, **{name: getattr(subwords, name)[:stop] for name in columns})
