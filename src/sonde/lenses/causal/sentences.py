"""What layers and patching say of a model, each in one sentence: for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.results.detectable import detectable_apart
from sonde.results.dimensions import dimensions_are, dimensions_named
from sonde.results.extremes import list_layers, split_at
from sonde.results.formats import with_interval
from sonde.results.verdict import why_no_verdict
from sonde.results.words import (
    NO_DIFFERENCE,
    TOO_LITTLE,
    in_brackets,
    nothing_found,
    standing,
    would_be_found,
)

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
        "in the end"
    )
    if depth - 1 in bits:
        said += f", {with_interval(bits[depth - 1])} one layer before"
    for row in _overall(rows, "bits").filter(pl.col("control") == "unigram").iter_rows(named=True):
        said += f"; by frequency alone {with_interval(row)}"
        if why_no_verdict(row):
            continue
        judged = {layer: one for layer, one in bits.items() if not why_no_verdict(one)}
        beaten = [layer for layer, one in judged.items() if one["ci_high"] < row["ci_low"]]
        if beaten:
            said += f", surely above that of {list_layers(beaten)}"
        elif judged and all(one["ci_low"] > row["ci_high"] for one in judged.values()):
            said += ", surely below that of every layer"
        elif judged:
            reach = would_be_found(max(detectable_apart(one, row) for one in judged.values()), digits=2)
            said += f", {NO_DIFFERENCE} by which it is above that of any layer{in_brackets(reach)}"
    return f"{said}{standing(first[0])}."


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
    over = f"{told['n']:,} pair{'s' * (told['n'] != 1)}"
    moves = (
        f"{subject}: exchanging two variables moves the answer by {with_interval(told)} logits over {over}"
    )
    if why := why_no_verdict(told):
        return (
            f"{subject}: {TOO_LITTLE} on whether exchanging two variables moves the answer ({why}): "
            f"{with_interval(told)} logits over {over}."
        )
    if told["ci_high"] < 0:
        return f"{moves}, away from where it should, so that the maps say nothing."
    if told["ci_low"] <= 0:
        return f"{moves}, {nothing_found(told, digits=2, unit=' logits')}, so that the maps say nothing."
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
    said = moves
    # Of several layers each is named at a level that holds for all of them together.
    kept, moved = (
        [row["layer"] for row in split_at(at[cell].values(), 0.5)[0] if not why_no_verdict(row)]
        for cell in ("names", "place")
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
    return f"{said}."
