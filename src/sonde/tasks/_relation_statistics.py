"""Statistics of labelled relations: how many there are, and how far the dependents stand from their heads.

Tables 1 and 8 and figure 3 of "Benchmarking Language Models for Code Syntax Understanding". All functions
take rows as `syntax_relations` gives them, of any number of items together; rows without a label are texts
that did not parse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Float

NEAR = 10.0
"""Words: relations whose dependents stand nearer on average are near, the others far (section 2)."""

BIN_START, BIN_END = 5, 10
"""Words a bar in figure 3, for dependents' first and last words."""


def relation_counts(languages: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Edges of each relation, one column a language, null where the language has none (table 8).

    Args:
        languages: Rows by language.
    """
    table = pl.DataFrame(schema={"label": pl.String})
    for language, rows in languages.items():
        counts = rows.drop_nulls("label").group_by("label").agg(pl.len().cast(pl.Int64).alias(language))
        table = table.join(counts, on="label", how="full", coalesce=True)
    return table.sort("label")


def totals(rows: pl.DataFrame, items: int) -> dict[str, int]:
    """What a data set holds: samples, those of them that did not parse, relations and edges (section 2).

    Args:
        rows: Label rows.
        items: Number of items that were labelled; an item may have no relation at all.
    """
    labelled = rows.drop_nulls("label")
    return {
        "samples": items,
        "not parsed": rows.height - labelled.height,
        "relations": labelled["label"].n_unique(),
        "edges": labelled.height,
    }


def relation_offsets(rows: pl.DataFrame) -> pl.DataFrame:
    """Words from the head to the dependent, on average over a relation's edges.

    Distances count without a sign, so that natural language, whose dependents stand on both sides, can be
    put beside code.

    Returns:
        ``label, edges, first, last, class``: the mean distance of the dependent's first and of its last word,
        and whether the relation is ``"near"`` or ``"far"`` by its first word.
    """
    return (
        rows.drop_nulls("label")
        .group_by("label")
        .agg(
            pl.len().alias("edges"),
            (pl.col("dep_first") - pl.col("head_word")).abs().mean().alias("first"),
            (pl.col("dep_last") - pl.col("head_word")).abs().mean().alias("last"),
        )
        .with_columns(
            pl.when(pl.col("first") < NEAR).then(pl.lit("near")).otherwise(pl.lit("far")).alias("class")
        )
        .sort("label")
    )


def near_and_far(offsets: pl.DataFrame, averaged: Sequence[str]) -> dict[str, int]:
    """How many of the relations that the paper averages over are near and far.

    Args:
        offsets: See `relation_offsets`.
        averaged: The relations of the language's average.
    """
    kept = offsets.filter(pl.col("label").is_in(list(averaged)))["class"]
    return {name: int((kept == name).sum()) for name in ("near", "far")}


def offset_distribution(means: Float[np.ndarray, " relation"], width: int) -> list[tuple[float, float, int]]:
    """Bars of figure 3: relations by their mean offset.

    Args:
        means: Mean offset of each relation.
        width: Words a bar.

    Returns:
        Lower and upper edge and number of relations of each bar, the first one from zero, empty ones between
        others included.
    """
    if not len(means):
        return []
    bars = np.floor_divide(means, width).astype(np.int64)
    counts = np.bincount(bars)
    return [(float(bar * width), float((bar + 1) * width), int(count)) for bar, count in enumerate(counts)]
