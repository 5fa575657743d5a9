"""Pairs of inputs to patch between, in a model's subwords: which are aligned, and the role of each position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sonde.alignment import Subwords
from sonde.languages._edits import TextPlace
from sonde.tasks._exchange import Exchange

ROLES = ("place", "definition", "uses", "rival", "other")
"""What a position is to the variable that is asked for: where the model answers (of a decoder the subword
before the variable, of an encoder the mask), the variable's first place, its further places, any place of the
variable that it is exchanged with, and everything else that is read. The first that fits counts."""


@dataclass(frozen=True, slots=True, eq=False)
class AlignedPair:
    """A clean and a corrupt text whose subwords stand at the same positions.

    Attributes:
        target: Position of the subword that is asked for: the first in which the two variables differ.
        hidden: Positions that an encoder sees a mask at: all of the variable's.
        right: The id there, right in the clean text.
        other: The id that would be right in the corrupt one.
        role: For each subword its index in `ROLES`, -1 where a decoder does not look.
    """

    target: int
    hidden: tuple[int, ...]
    right: int
    other: int
    role: Int[np.ndarray, " subword"]


def align_pair(
    exchange: Exchange, clean: Subwords, corrupt: Subwords, misused: Subwords, *, decoder: bool
) -> AlignedPair | None:
    """The pair in subwords; None where the two texts are not cut alike.

    Args:
        exchange: The two texts.
        clean: Subwords of the clean one.
        corrupt: Subwords of the corrupt one.
        misused: Subwords of `Exchange.misused`.
        decoder: Whether only what stands before the place is read.
    """
    place = _covering(clean, exchange.place)
    inside = np.flatnonzero(place)
    shared = min(len(clean), len(misused))
    apart = np.flatnonzero(clean.ids[:shared] != misused.ids[:shared])
    if not len(apart) or not place[apart[0]]:
        return None
    target = int(apart[0])
    read = target + 1 if decoder else len(clean)
    if len(corrupt) < read or (not decoder and not len(clean) == len(corrupt) == len(misused)):
        return None
    if not decoder and not place[apart].all():
        return None
    role = np.full(len(clean), ROLES.index("other"), dtype=np.int64)
    marked = {
        "rival": exchange.rival,
        "uses": exchange.uses,
        "definition": (exchange.definition,),
    }
    changed = clean.ids[:read] != corrupt.ids[:read]
    for name, places in marked.items():
        for one in places:
            covered = _covering(clean, one)
            if covered[:read].any() and not (covered[:read] & changed).any():
                # What was exchanged has to be seen.
                return None
            role[covered] = ROLES.index(name)
    if (changed & ((role[:read] == ROLES.index("other")) | place[:read])).any():
        return None
    if decoder:
        role[target:] = -1
        role[target - 1] = ROLES.index("place")
    else:
        role[inside] = ROLES.index("place")
    hidden = tuple(inside.tolist())
    return AlignedPair(target, hidden, int(clean.ids[target]), int(misused.ids[target]), role)


def _covering(subwords: Subwords, place: TextPlace) -> Bool[np.ndarray, " subword"]:
    """Which subwords share a character with a place."""
    return (subwords.start < place.end) & (subwords.end > place.start)
