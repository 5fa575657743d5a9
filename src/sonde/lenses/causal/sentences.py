"""What layers and patching say of a model, each in one sentence: for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sonde.results.dimensions import dimensions_are, dimensions_named
from sonde.results.extremes import list_layers, split_at
from sonde.results.formats import with_interval
from sonde.results.words import standing

LAYERS, PATCH = "logit_lens", "patch"


def sentences(scores: pl.DataFrame) -> Iterator[str]:
    """The sentences of each model and language."""
    rows = scores.filter(pl.col("method").is_in([LAYERS, PATCH]))
    for (model, language), part in rows.partition_by(
        "model", "language", as_dict=True, maintain_order=True
    ).items():
        for sentence in (layers_sentence, patching_sentence):
            if said := sentence(f"{model} ({language})", part):
                yield said


def _overall(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    return rows.filter((pl.col("metric") == metric) & dimensions_named())


def layers_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Where the right subword comes to the top, and from where frequency is beaten; empty without scores.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language, those of controls included.
    """
    own = rows.filter((pl.col("method") == "logit_lens") & pl.col("control").is_null())
    bits = {row["layer"]: row for row in _overall(own, "bits").iter_rows(named=True)}
    first = _overall(own, "first_layer").to_dicts()
    if not bits or not first:
        return ""
    depth = max(bits)
    said = (
        f"{subject}: of the subwords that it gets right, the right one stays on top from layer "
        f"{with_interval(first[0])} of {depth} on, on average; {with_interval(bits[depth])} bits a subword "
        f"in the end, {with_interval(bits[depth - 1])} one layer before"
    )
    for row in _overall(rows, "bits").filter(pl.col("control") == "unigram").iter_rows(named=True):
        beaten = [layer for layer, one in bits.items() if _below(one, row)]
        where = f"surely above that of {list_layers(beaten)}" if beaten else "surely above that of no layer"
        said += f"; by frequency alone {with_interval(row)}, {where}"
    return f"{said}{standing(first[0])}."


def _below(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the whole interval of one number lies below that of another."""
    high, low = one["ci_high"], other["ci_low"]
    return high is not None and low is not None and high < low


def patching_sentence(subject: str, rows: pl.DataFrame) -> str:
    """Whether the model follows the exchange at all, and where the answer moves to; empty without scores.

    Args:
        subject: Whom the rows are about.
        rows: Scores of one model and language.
    """
    change = rows.filter(pl.col("metric") == "margin_change").to_dicts()
    if not change:
        return ""
    told = change[0]
    if told["ci_low"] is None or told["ci_low"] <= 0:
        return (
            f"{subject}: exchanging two variables moves the answer by {with_interval(told)} logits, which "
            f"cannot be told from nothing over {told['n']:,} pairs, so that the maps say nothing."
        )
    measured = rows.filter((pl.col("metric") == "recovered") & (pl.col("method") == PATCH))
    at = {
        cell: {
            row["layer"]: row
            for row in measured.filter(dimensions_are({"direction": "denoising", "cell": cell})).iter_rows(
                named=True
            )
        }
        for cell in ("names", "place")
    }
    said = (
        f"{subject}: exchanging two variables moves the answer by {with_interval(told)} logits "
        f"({told['n']:,} pairs)"
    )
    # Of several layers each is named at a level that holds for all of them together.
    kept, moved = (
        [row["layer"] for row in split_at(at[cell].values(), 0.5)[0]] for cell in ("names", "place")
    )
    if kept:
        said += (
            f"; the states of both variables' places surely bring back more than half of it at "
            f"{list_layers(kept)} ({with_interval(at['names'][max(kept)], 100, 0)} % at layer {max(kept)})"
        )
    if moved:
        said += (
            f"; those of where the model answers at {list_layers(moved)} "
            f"({with_interval(at['place'][min(moved)], 100, 0)} % at layer {min(moved)})"
        )
    else:
        said += "; those of where the model answers do so surely at no layer before the last"
    return f"{said}{standing(told)}."
