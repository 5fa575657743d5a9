"""Where the call that a piece belongs to goes: the labels of `call_origin` on subwords."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.lenses.surprisal.pools import Pooled
from sonde.lenses.surprisal.spans import Pieces, at_ends, owners


@dataclass(frozen=True, slots=True)
class CallColumns:
    """One entry a piece; empty where it belongs to no call, or its ends do not agree."""

    origin: Pooled
    part: Pooled
    form: Pooled

    def each(self, rule: Callable[[Pooled], Pooled]) -> CallColumns:
        """The same rule over every column."""
        return CallColumns(*map(rule, (self.origin, self.part, self.form)))


def call_columns(
    labels: pl.DataFrame, laid: Callable[[pl.DataFrame], pl.DataFrame], pieces: Pieces
) -> CallColumns:
    """Join call labels with pieces by their characters.

    Of nested calls the innermost decides, so ``g`` in ``f(g(x))`` is a name, not an argument. A piece over
    several spans (``f(``, ``))``) keeps what both of its ends agree on.

    Args:
        labels: The rows of the task `call_origin`.
        laid: Takes rows to where the pieces are.
        pieces: The pieces.
    """
    # Null labels, calls inside ERROR nodes, belong to nothing; an outer call may still hold their pieces.
    calls = laid(labels.drop_nulls("label"))
    ends = at_ends(owners(calls["start"].to_numpy(), calls["end"].to_numpy(), pieces.length), pieces)
    columns = (_agreed(calls[name].to_list(), *ends) for name in ("label", "part", "call_form"))
    return CallColumns(*columns)


def _agreed(
    values: Sequence[str], first: Int[np.ndarray, " piece"], last: Int[np.ndarray, " piece"]
) -> Pooled:
    at_first, at_last = (Pooled.of([*values, ""]).at(ends) for ends in (first, last))
    return at_first.where(at_first.codes == at_last.codes)
