"""Where the call that a piece belongs to goes: the labels of `call_origin` on subwords."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.base.errors import UsageError
from sonde.lenses.surprisal.pools import Pooled
from sonde.lenses.surprisal.spans import Pieces, at_ends, owners

BARE_CALLS_ONLY = "codetokenizers.bare_calls_only"
ARGUMENT_NAMES = "codetokenizers.argument_names"
LOCAL_IS_EXTERNAL = "perplexed.local_is_external"


@dataclass(frozen=True, slots=True)
class CallColumns:
    """One entry a piece; empty where it belongs to no call, or its ends do not agree."""

    origin: Pooled
    part: Pooled
    form: Pooled


def call_columns(
    labels: Mapping[str, pl.DataFrame],
    laid: Callable[[pl.DataFrame], pl.DataFrame],
    pieces: Pieces,
    quirks: Set[str],
) -> CallColumns:
    """Join call labels with pieces by their characters.

    Of nested calls the innermost decides, so ``g`` in ``f(g(x))`` is a name, not an argument. A piece over
    several spans (``f(``, ``))``) keeps what both of its ends agree on.

    Args:
        labels: The rows of the tasks `call_origin` and, for its quirk, `argument_names`.
        laid: Takes rows to where the pieces are.
        pieces: The pieces.
        quirks: Those of the published code that are on.
    """
    # Null labels, calls inside ERROR nodes, belong to nothing; an outer call may still hold their pieces.
    calls = laid(labels["call_origin"].drop_nulls("label"))
    ends = at_ends(owners(*_spans(calls), pieces.length), pieces)
    form = calls["call_form"].to_list()
    origin = _agreed([_origin(*call, quirks) for call in zip(calls["label"], form, strict=True)], *ends)
    if ARGUMENT_NAMES in quirks:
        if "argument_names" not in labels:
            raise UsageError(f"quirk {ARGUMENT_NAMES!r} needs the labels of the task 'argument_names'")
        origin = _with_named_arguments(origin, laid(labels["argument_names"]), pieces)
    return CallColumns(origin, part=_agreed(calls["part"].to_list(), *ends), form=_agreed(form, *ends))


def _spans(table: pl.DataFrame) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
    return table["start"].to_numpy(), table["end"].to_numpy()


def _origin(label: str, form: str, quirks: Set[str]) -> str:
    if label == "internal" and form == "method" and BARE_CALLS_ONLY in quirks:
        return "external"
    if label == "local" and LOCAL_IS_EXTERNAL in quirks:
        return "external"
    return label


def _agreed(
    values: Sequence[str], first: Int[np.ndarray, " piece"], last: Int[np.ndarray, " piece"]
) -> Pooled:
    at_first, at_last = (Pooled.of([*values, ""]).at(ends) for ends in (first, last))
    return at_first.where(at_first.codes == at_last.codes)


def _with_named_arguments(origin: Pooled, arguments: pl.DataFrame, pieces: Pieces) -> Pooled:
    named = owners(*_spans(arguments), pieces.length) >= 0
    before = np.concatenate([[0], np.cumsum(named)])
    touched = before[pieces.end] > before[pieces.start]
    return Pooled((*origin.pool, "internal"), np.where(touched, len(origin.pool), origin.codes))
