"""What a decoder reads that is asked for what is left out of a text: both sides, then what it writes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from sonde.base.errors import InputError
from sonde.capture.requests import Prepared
from sonde.capture.row import Row
from sonde.capture.union import Input
from sonde.capture.windows import around_gap, gap_of
from sonde.models import LoadedModel


def infilled(
    source: int,
    asked: Input,
    prepared: Prepared,
    ids: Int[np.ndarray, " subword"],
    loaded: LoadedModel,
    context: int,
) -> Row:
    """One window around a gap; the subwords of the gap are written behind it, and scored there.

    Args:
        source: Index of the input.
        asked: The input, with the subwords that are left out.
        prepared: Its item.
        ids: The item's subwords, as the whole text is cut.
        loaded: The model.
        context: Positions that it takes at once.

    Raises:
        InputError: The model has no tokens to be asked by, or more than scores is asked for, or the subwords
            are not one run, or too many.
    """
    name, hidden = loaded.spec.name, asked.shape.masked
    signs = loaded.special.infill
    if signs is None:
        raise InputError(
            f"model {name!r} is a decoder whose tokenizer has no tokens for filling in; ask an encoder"
        )
    if not asked.wanted.plain or asked.shape.changes:
        raise InputError(f"model {name!r}: of what a decoder fills in scores alone can be asked for")
    lead = loaded.special.added
    # The last subword of the gap is written, and never read.
    room = context - len(lead) - (2 if signs.write is None else 3) + 1
    first, stop = gap_of(hidden, room, prepared.item.item_id, name)
    begin, end = around_gap(first, stop, len(ids), room)
    preceding = [signs.before, *ids[begin:first].tolist()]
    following = [signs.behind, *ids[stop:end].tolist()]
    sides = [*following, *preceding] if signs.reversed else [*preceding, *following]
    shown = [*lead, *sides, *(() if signs.write is None else (signs.write,))]
    return Row(
        source=source,
        tokens=np.concatenate([np.array(shown, dtype=np.int64), ids[first : stop - 1]]),
        origin=0,
        read_start=0,
        read_stop=0,
        query=np.arange(stop - first) + len(shown) - 1,
        gold=ids[first:stop],
        target=np.arange(first, stop),
        first=begin,
    )
