"""What a run prints of the probes: a line a task and model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sonde.lenses.probe.fit import BEST
from sonde.results.dimensions import REASON, dimension, dimensions_are
from sonde.results.local_cues import cues_by_key, describe_cues
from sonde.results.scores import LEFT_OUT
from sonde.results.verdict import verdict_allowed
from sonde.results.words import figures, standing

_KEY = ("model", "task", "language")


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """Yield the accuracy of each chosen layer, its gain and what local cues tell; first what they rest on."""
    test = scores.filter((pl.col("split") == "test") & dimensions_are(dict([BEST])))
    own = test.filter((pl.col("metric") == "accuracy") & pl.col("control").is_null())
    linear = own.filter(pl.col("method") != "mlp")
    chosen = linear.unique(_KEY, keep="first", maintain_order=True)
    gains = test.filter(pl.col("metric") == "gain").unique(_KEY, keep="first", maintain_order=True)
    joined = chosen.join(gains, on=_KEY, how="left", suffix="_gain", maintain_order="left")
    told = cues_by_key(test)
    for part in joined.partition_by("model", "language", maintain_order=True):
        yield _rests(part)
    for row in joined.iter_rows(named=True):
        line = (
            f"{row['task']} ({row['language']}), {row['model']}: accuracy {figures(row, 100)} % at "
            f"layer {row['layer']}, chosen on validation{standing(row)}"
        )
        if row["value_gain"] is not None:
            gain = _gain_of(row)
            line += f"; {figures(gain, 100, sign='+')} points over {gain['control']}{standing(gain)}"
        if (both := told.get(tuple(row[name] for name in _KEY))) is not None:
            line += f"; {describe_cues(row, *both)}"
        yield line
    left_out = scores.filter(pl.col("metric") == LEFT_OUT).with_columns(reason=dimension(REASON))
    for row in left_out.iter_rows(named=True):
        what = f" ({row['control']})" if row["control"] else ""
        yield f"left out{what}, {row['model']}: {row['reason']}"


def _gain_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the gain, which was joined to that of the accuracy."""
    return {name.removesuffix("_gain"): value for name, value in row.items() if name.endswith("_gain")}


def _rests(rows: pl.DataFrame) -> str:
    """How the tasks of a model were tested, on how many effective clusters, and how many allow a verdict."""
    first = rows.row(0, named=True)
    held = rows.to_dicts()
    firm = sum(row["value_gain"] is not None and verdict_allowed(_gain_of(row)) for row in held)
    folds = sorted({row["k"] or 1 for row in held})
    crossed = f"cross-fitted over {folds[-1]} folds by cluster"
    how = "on the test part of their split" if folds == [1] else crossed
    worth = sorted(row["effective_clusters"] for row in held if row["effective_clusters"] is not None)
    rests = f", {worth[0]:.0f} to {worth[-1]:.0f} effective clusters a task" if worth else ""
    tasks = f"{len(held)} task{'s' if len(held) != 1 else ''}"
    return (
        f"{first['model']} ({first['language']}): {tasks} tested {how}{rests}; the gain over the surface of "
        f"the code allows a verdict in {firm}"
    )
