"""What a run prints of interventions."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.lenses.causal.findings import (
    ALIKE,
    LESS,
    MORE,
    bits,
    compared_with_others,
    erased_of,
    lead,
    tests_beside,
)
from sonde.lenses.causal.sentences import sentences
from sonde.results.dimensions import REASON, dimension
from sonde.results.scores import LEFT_OUT
from sonde.results.words import TOO_LITTLE, nothing_found

SAID = {MORE: "costs more than", LESS: "costs less than"}
"""What a head costs compared with others."""


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """What the model uses, what it merely holds and what lies between; then a line a relation and layer."""
    for model, language, found in erased_of(scores):
        yield lead(f"{model} ({language})", found)
        for one in found:
            if one.construct:
                yield (
                    f"{one.name} ({language}), {model}: erased at layer {one.layer}, in {one.construct} "
                    f"{bits(one.apart, sign='+')} bits per subword further than elsewhere"
                )
    tests = tests_beside(scores)
    for row, kind in compared_with_others(scores):
        who = f"{row['relation']} ({row['language']}), {row['model']}"
        head, others = f"its head {row['layer']}.{row['head']} ablated", "other heads of the layer"
        if kind in SAID:
            said = f"{head} {SAID[kind]} {others} at its dependents"
        elif kind == ALIKE:
            found = nothing_found(row, digits=3, unit=" bits", among=tests)
            said = f"{found} between {head} and {others} at its dependents"
        else:
            said = f"{TOO_LITTLE} on {head} beside {others} at its dependents ({kind})"
        yield f"{who}: {said}: {bits(row, sign='+')} bits"
    yield from sentences(scores)
    left = scores.filter(pl.col("metric") == LEFT_OUT).with_columns(reason=dimension(REASON))
    for row in left.iter_rows(named=True):
        yield f"left out, {row['model']}: {row['reason']}"
