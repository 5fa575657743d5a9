"""What PERPLEXED and CODETOKENIZERS do otherwise than the lens `surprisal`, each from the corrected thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import polars as pl

from sonde.lenses.surprisal.observe import (
    CALLS,
    FILED,
    FIRST_APART,
    ORIGINS,
    SUBWORD,
    InternedStrings,
    Layout,
    SubwordLabels,
    shortest_spans,
)
from sonde.lenses.surprisal.origin import SUMMARY, OriginSummary
from sonde.lenses.surprisal.sums import NONE_FIRST, SUMS, Sums
from sonde.papers.perplexed import tags
from sonde.papers.quirks import build_paper_preset

_ARGUMENT_NAMES = "argument_names"
_CALL_TAGS = r"^<?(call|argument_list) -> "


def shift(filed: SubwordLabels, laid: Layout) -> SubwordLabels:
    """Every score is filed under what the subword before it has; the first of an item under nothing."""
    rows = np.arange(len(laid.item))
    before, follows = np.maximum(rows - 1, 0), rows > laid.row[laid.item]

    def of_previous(column: InternedStrings) -> InternedStrings:
        return column.take(before).mask(follows)

    tagged = (
        filed.tags if isinstance(filed.tags, InternedStrings) else InternedStrings.from_strings(filed.tags)
    )
    return SubwordLabels(of_previous(tagged), filed.calls.map(of_previous))


def local_is_external(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls of what the same file defines are external."""
    return calls.with_columns(pl.col("label").replace("local", "external"))


def bare_calls_only(calls: pl.DataFrame) -> pl.DataFrame:
    """Method calls are never internal."""
    internal = (pl.col("label") == "internal") & (pl.col("call_form") == "method")
    return calls.with_columns(label=pl.when(internal).then(pl.lit("external")).otherwise("label"))


def argument_names(
    origin: InternedStrings, labels: Mapping[str, pl.DataFrame], laid: Layout
) -> InternedStrings:
    """An argument that is named like a definition of another file is internal, whatever is called."""
    arguments, pieces = laid.labels(labels[_ARGUMENT_NAMES]), laid.pieces
    named = shortest_spans(arguments["start"].to_numpy(), arguments["end"].to_numpy(), pieces.length) >= 0
    before = np.concatenate([[0], np.cumsum(named)])
    touched = before[pieces.end] > before[pieces.start]
    return InternedStrings((*origin.pool, "internal"), np.where(touched, len(origin.pool), origin.codes))


def decode_merge(subword: pl.Expr) -> pl.Expr:
    """Ids that decode alike are one subword."""
    return pl.col("subword")


def first_in_tables(first: pl.Expr) -> pl.Expr:
    """The first subword of a text is in every table, as any other."""
    return NONE_FIRST


def call_tags(sums: Sums) -> Sums:
    """Only subwords whose tag's parent is a call or an argument list are compared."""
    return dataclasses.replace(sums, calls=sums.calls.filter(pl.col("tag").str.contains(_CALL_TAGS)))


def unweighted(summary: OriginSummary) -> OriginSummary:
    """The plain mean of all tag means alone, however rare a tag is."""
    return OriginSummary(minimum=1, weightings=("unweighted",))


published = build_paper_preset(
    "perplexed",
    "surprisal",
    {
        "perplexed.shift": FILED.quirk(shift),
        "perplexed.decode_merge": SUBWORD.quirk(decode_merge),
        "perplexed.first_in_tables": FIRST_APART.quirk(first_in_tables),
        "perplexed.unweighted": SUMMARY.quirk(unweighted),
        "perplexed.call_tags": SUMS.quirk(call_tags),
        "perplexed.local_is_external": CALLS.quirk(local_is_external),
        "codetokenizers.bare_calls_only": CALLS.quirk(bare_calls_only),
        "codetokenizers.argument_names": ORIGINS.quirk(argument_names, _ARGUMENT_NAMES),
        **tags.RULES,
    },
)
