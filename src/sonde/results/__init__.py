"""Scores: the schema of score rows, means by group, and the text and tables that show them.

    from sonde.results import Mean, means

Everything here is imported when it is first used, so that reading finished scores needs no statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sonde.results.example_scores import (
        mean_rows,
        r2_difference_rows,
        r2_rows,
        share_rows,
        spearman_rows,
        statistic_rows,
        trained_rows,
    )
    from sonde.results.group_means import Mean, cells, mean_differences, means
    from sonde.results.scores import Score, left_out

__all__ = [
    "Mean",
    "Score",
    "cells",
    "left_out",
    "mean_differences",
    "mean_rows",
    "means",
    "r2_difference_rows",
    "r2_rows",
    "share_rows",
    "spearman_rows",
    "statistic_rows",
    "trained_rows",
]

_MODULES = {
    **dict.fromkeys(__all__, "sonde.results.example_scores"),
    **dict.fromkeys(("Mean", "cells", "mean_differences", "means"), "sonde.results.group_means"),
    **dict.fromkeys(("Score", "left_out"), "sonde.results.scores"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
