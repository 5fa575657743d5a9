"""What a run prints of the probes: a line a task and model."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.lenses.probe.rows import BEST
from sonde.lenses.probe.score import LEFT_OUT
from sonde.results.words import bounds, standing

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
            f"{row['task']} ({row['language']}), {row['model']}: accuracy {100 * row['value']:.1f} % "
            f"{bounds(row, 100)} at layer {row['layer']}{standing(row)}"
        )
        if row["value_gain"] is not None:
            gain = {
                name.removesuffix("_gain"): value for name, value in row.items() if name.endswith("_gain")
            }
            line += (
                f"; {100 * gain['value']:+.1f} {bounds(gain, 100, sign='+')} points over {gain['control']}"
            )
            line += standing(gain)
        yield line
    for row in scores.filter(pl.col("metric") == LEFT_OUT).iter_rows(named=True):
        what = f" ({row['control']})" if row["control"] else ""
        yield f"left out{what}, {row['model']}: {row['slice']}"
