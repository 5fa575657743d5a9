"""What layers and patching say of a model, each in one sentence: for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sonde.results.dimensions import dimensions_are, dimensions_named
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
        where = f"first below that at layer {min(beaten)}" if beaten else "never clearly below that"
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
    kept = [layer for layer, row in at["names"].items() if row["value"] >= 0.5]
    if kept:
        row = at["names"][max(kept)]
        said += (
            f"; up to layer {max(kept)} the states of both variables' places bring back half of it or more "
            f"({with_interval(row, 100, 0)} %)"
        )
    moved = [layer for layer, row in at["place"].items() if row["value"] >= 0.5]
    if moved:
        row = at["place"][min(moved)]
        said += (
            f"; from layer {min(moved)} on it stands where the model answers ({with_interval(row, 100, 0)} %)"
        )
    else:
        said += "; only behind the last layer does it stand where the model answers"
    return f"{said}{standing(told)}."
