"""What a run prints of interventions."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.lenses.causal.findings import ablated_of, bits, erased_of, lead
from sonde.lenses.causal.sentences import sentences
from sonde.results.dimensions import REASON, dimension
from sonde.results.scores import LEFT_OUT
from sonde.results.words import standing


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """What the model uses, and what it merely holds; then a line a property and relation."""
    for model, language, found in erased_of(scores):
        yield lead(f"{model} ({language})", found)
        for one in found:
            line = (
                f"{one.name} ({language}), {model}: erased at layer {one.layer} {bits(one.bits)} bits, "
                f"{bits(one.excess, sign='+')} more than a random subspace"
            )
            if one.apart is not None:
                line += f"; in {one.construct} {bits(one.apart, sign='+')} further than elsewhere"
            yield f"{line}{standing(one.excess)}"
    rows = ablated_of(scores)
    chosen = rows.filter(
        (pl.col("metric") == "excess") & (pl.col("control") == "random") & (pl.col("where") == "here")
    )
    for row in chosen.sort("value", descending=True).iter_rows(named=True):
        yield (
            f"{row['relation']} ({row['language']}), {row['model']}: its head {row['layer']}.{row['head']} "
            f"ablated {bits(row, sign='+')} bits at its dependents more than other heads of the layer"
            f"{standing(row)}"
        )
    yield from sentences(scores)
    left = scores.filter(pl.col("metric") == LEFT_OUT).with_columns(reason=dimension(REASON))
    for row in left.iter_rows(named=True):
        yield f"left out, {row['model']}: {row['reason']}"
