"""Accepted characters, read from scores: how far greedy completions are right, by place and by slice."""

from __future__ import annotations

import polars as pl

from sonde.results.schema import SHARED_PLACES, dimension_value, has_dimension_names, has_dimensions

CHARACTERS, LINE = "accepted_characters", "accepted_line"
"""Metrics: characters in a row that a completion gets right, and whether the rest of the line is right."""


GENERATED, AGREEMENT = "generated_characters", "generation_agreement"
"""Metrics of sampled places: characters by generation, and whether they are as many as by the ranks."""


PAIRS_TABLE = "subword_pairs"
"""Name of the control that completes by a table of subword pairs."""


CURSORS = ("inside a string or comment", "line start", "after .", "after (", "inside a name", "other")
"""Kinds of places where a completion begins; of several the first."""


DIMENSIONS = ("cursor", "construct", "kind", "role")
"""What places are grouped by."""


ALL = "all places"
"""Name of the group of all places."""


def select_places(rows: pl.DataFrame) -> pl.DataFrame:
    """Select rows over places, with their ``dimension`` (empty for all places) and the ``name`` of its value.

    Several models are compared over the places at which all of them begin a subword, if there are such rows.

    Args:
        rows: Rows of scores, of the metrics wanted only.
    """
    shared = rows.filter(dimension_value(SHARED_PLACES[0]) == SHARED_PLACES[1])
    outer = (SHARED_PLACES[0],) if rows["model"].n_unique() > 1 and not shared.is_empty() else ()
    rows = shared if outer else rows
    dimension = pl.coalesce(
        pl.when(has_dimensions(dict([SHARED_PLACES]) if outer else {})).then(pl.lit("")),
        *(pl.when(has_dimension_names(*outer, name)).then(pl.lit(name)) for name in DIMENSIONS),
    )
    name = pl.coalesce(*(dimension_value(name) for name in DIMENSIONS), pl.lit(ALL))
    return rows.with_columns(dimension=dimension, name=name).filter(pl.col("dimension").is_not_null())
