"""Where the call that a piece belongs to goes: the labels of `call_origin` on subwords."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.base.errors import UsageError
from sonde.lenses._surprisal_spans import Pieces, at_ends, owners, touched

BARE_CALLS_ONLY = "codetokenizers.bare_calls_only"
ARGUMENT_NAMES = "codetokenizers.argument_names"
LOCAL_IS_EXTERNAL = "perplexed.local_is_external"

_CALL_COLUMNS = ("start", "end", "label", "part", "call_form")


@dataclass(frozen=True, slots=True)
class CallColumns:
    """One entry a piece; empty where it belongs to no call, or its ends do not agree."""

    origin: list[str]
    part: list[str]
    form: list[str]


def call_columns(labels: Mapping[str, pl.DataFrame], pieces: Pieces, quirks: Set[str]) -> CallColumns:
    """Join call labels with pieces by their characters.

    Of nested calls the innermost decides, so ``g`` in ``f(g(x))`` is a name, not an argument. A piece over
    several spans (``f(``, ``))``) keeps what both of its ends agree on.

    Args:
        labels: The rows of the tasks `call_origin` and, for its quirk, `argument_names`.
        pieces: The pieces of the item.
        quirks: Those of the published code that are on.
    """
    # Null labels, calls inside ERROR nodes, belong to nothing; an outer call may still hold their pieces.
    columns = (labels["call_origin"][name].to_list() for name in _CALL_COLUMNS)
    calls = [row for row in zip(*columns, strict=True) if row[2] is not None]
    start = np.array([row[0] for row in calls], np.int32)
    end = np.array([row[1] for row in calls], np.int32)
    first, last = at_ends(owners(start, end, pieces.length), pieces)
    origin = _agreed([_origin(label, form, quirks) for _, _, label, _, form in calls], first, last)
    if ARGUMENT_NAMES in quirks:
        _flag_named_arguments(origin, labels, pieces)
    return CallColumns(
        origin,
        part=_agreed([row[3] for row in calls], first, last),
        form=_agreed([row[4] for row in calls], first, last),
    )


def _origin(label: str, form: str, quirks: Set[str]) -> str:
    if label == "internal" and form == "method" and BARE_CALLS_ONLY in quirks:
        return "external"
    if label == "local" and LOCAL_IS_EXTERNAL in quirks:
        return "external"
    return label


def _agreed(
    values: list[str], first: Int[np.ndarray, " piece"], last: Int[np.ndarray, " piece"]
) -> list[str]:
    padded = [*values, ""]
    return [
        padded[a] if padded[a] == padded[b] else ""
        for a, b in zip(first.tolist(), last.tolist(), strict=True)
    ]


def _flag_named_arguments(origin: list[str], labels: Mapping[str, pl.DataFrame], pieces: Pieces) -> None:
    if "argument_names" not in labels:
        raise UsageError(f"quirk {ARGUMENT_NAMES!r} needs the labels of the task 'argument_names'")
    for start, end in labels["argument_names"].select("start", "end").iter_rows():
        for piece in np.flatnonzero(touched(start, end, pieces)).tolist():
            origin[piece] = "internal"
