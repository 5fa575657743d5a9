"""Which rows are forwarded together: a function of the plan alone, never of workers or arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


def compose(lengths: Sequence[int], keys: Sequence[str], budget: int, fill: float = 0.0) -> list[list[int]]:
    """Group rows of similar length under a budget of padded tokens.

    Rows are sorted by length, longest first (so that memory is at its peak in the first batch), equal lengths
    by key. A row longer than the budget is a batch of its own.

    Args:
        lengths: Tokens of each row.
        keys: A key of each row that does not depend on the order in which rows arrive, for example a hash.
        budget: Rows times longest row of a batch stay at or under this.
        fill: Share of a batch's padded tokens that are real, at least; a row that would take it below begins
            a batch of its own.

    Returns:
        Batches of indices into ``lengths``; each index occurs once.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], keys[row]))
    batches: list[list[int]] = []
    real = 0
    for row in order:
        real += lengths[row]
        whole = lengths[batches[-1][0]] * (len(batches[-1]) + 1) if batches else 0
        if batches and whole <= budget and real >= fill * whole:
            batches[-1].append(row)
        else:
            batches.append([row])
            real = lengths[row]
    return batches


def pad(rows: Sequence[Int[np.ndarray, " token"]], value: int) -> Int[np.ndarray, "batch token"]:
    """Stack rows, filling the shorter ones on the right.

    To the right, because then a decoder's real positions keep their numbers and never see the padding.
    """
    width = max((len(row) for row in rows), default=0)
    stacked = np.full((len(rows), width), value, dtype=np.int64)
    for index, row in enumerate(rows):
        stacked[index, : len(row)] = row
    return stacked
