"""What of a test set lies beyond the length limit, and how much could be right at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sonde.report._shared.numbers import count, number, with_interval
from sonde.report._shared.run import RunData
from sonde.report.finetune._scores import LENS, METRICS, PRETRAINED, key_of, labelled, measured
from sonde.results.dimensions import dimensions_are

_REACHABLE = dimensions_are({"reachable": "true"})


def ceilings(run: RunData) -> dict[tuple[Any, ...], float]:
    """The most that any answers could get right, by what a row is about, its metric and its control."""
    rows = measured(run, ["ceiling"])
    return {
        (*key_of(row), row["of_metric"], row["control"]): row["value"] for row in rows.iter_rows(named=True)
    }


def reach_notes(run: RunData) -> Iterator[str]:
    """For each task what is left out, or how much is right of what the label can be read from."""
    out = measured(run, ["out_of_reach"]).filter((pl.col("swept") == "") & (pl.col("value") > 0))
    counted = measured(run, ["accuracy"]).filter((pl.col("swept") == "") & (pl.col("method") == PRETRAINED))
    size = {key_of(row): row["n"] for row in counted.iter_rows(named=True)}
    most = ceilings(run)
    for row in out.iter_rows(named=True):
        said = (
            f"{row['subject']}: what the label rests on lies beyond the length limit in "
            f"{number(100 * row['value'], 1)} % of {count(row['n'])} test examples"
        )
        if size.get(key_of(row), row["n"]) < row["n"]:
            yield f"{said}, which are left out; the rest is read in full where it matters."
            continue
        ceiling = most.get((*key_of(row), "accuracy", None))
        bound = f"; at most {number(100 * ceiling, 1)} % can be right" if ceiling is not None else ""
        yield f"{said}{bound}.{_reachable(run, row)}"


def _reachable(run: RunData, about: dict[str, Any]) -> str:
    """What is right of the other examples."""
    scores = run.scores(metrics=list(METRICS), where=_REACHABLE, lens=LENS, controls=True)
    rows = labelled(scores, run).filter(pl.col("subject") == about["subject"])
    parts = [
        f"{row['method']} {with_interval(row, 100, 1)} % {METRICS[row['metric']]}"
        for row in rows.iter_rows(named=True)
    ]
    return f" Of the others: {'; '.join(parts)}." if parts else ""
