"""What a run prints of the probes: a line a task and model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sonde.lenses.probe.rows import BEST
from sonde.lenses.probe.score import LEFT_OUT

_KEY = ("model", "task", "language")


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """Accuracy of the layer chosen on validation, with its gain over the best surface baseline."""
    test = scores.filter((pl.col("split") == "test") & (pl.col("slice") == BEST))
    own = test.filter((pl.col("metric") == "accuracy") & pl.col("control").is_null())
    linear = own.filter(pl.col("params").struct.field("name") != "mlp")
    chosen = linear.unique(_KEY, keep="first", maintain_order=True)
    gains = test.filter(pl.col("metric") == "gain").unique(_KEY, keep="first", maintain_order=True)
    joined = chosen.join(gains, on=_KEY, how="left", suffix="_gain", maintain_order="left")
    for row in joined.iter_rows(named=True):
        line = (
            f"{row['task']} ({row['language']}), {row['model']}: accuracy {_interval(row, '')} "
            f"at layer {row['layer']}"
        )
        if row["value_gain"] is not None:
            line += f"; {100 * row['value_gain']:+.1f} points over {row['control_gain']}"
        yield line
    for row in scores.filter(pl.col("metric") == LEFT_OUT).iter_rows(named=True):
        what = f" ({row['control']})" if row["control"] else ""
        yield f"left out{what}, {row['model']}: {row['slice']}"


def _interval(row: dict[str, Any], suffix: str) -> str:
    value, low, high = (row[f"{name}{suffix}"] for name in ("value", "ci_low", "ci_high"))
    if low is None or high is None:
        return f"{100 * value:.1f} %"
    return f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
