"""Shares of names that are right among the first k answers: which statements, and their curves.

Curves have who answers in colours, or models in colours and who answers in dashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import by_dashes, by_meaning, specification
from sonde.report._shared.numbers import with_interval
from sonde.report._shared.run import RunData

_HEIGHT = 230
_DASHES = [[1, 0], [7, 4], [2, 4], [10, 3, 2, 3], [1, 7], [4, 2]]

TEMPLATE = "template"
"""Dimension of one kind of statement."""

TEMPLATES: Mapping[str, str] = {
    "call": "calls",
    "import": "imports",
    "alias": "aliases",
    "adversarial": "adversarial aliases",
}


def with_k(run: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``subject`` and ``place`` of the model in the run, in the order of place and k."""
    places = {model.name: place for place, model in enumerate(run.models)}
    named = rows.with_columns(
        subject=run.subject,
        place=pl.col("model").replace_strict(places, default=len(places), return_dtype=pl.Int64),
    )
    return named.sort("place", "k", maintain_order=True)


def curves(
    rows: pl.DataFrame, order: Sequence[str], controls: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A curve for each answerer and model over k, with a band for the first answerer's interval.

    Args:
        rows: Scores with ``who``, ``subject`` and ``k``.
        order: Answerers as they are listed.
        controls: Their words by the name of the control, where they are the model and its controls.
    """
    several = rows["subject"].n_unique() > 1
    present = [who for who in order if who in set(rows["who"])]
    records = [
        {
            "who": row["who"],
            "banded": row["who"] == present[0],
            "subject": row["subject"],
            "k": row["k"],
            "value": row["value"],
            "low": None if row["ci_low"] is None else max(row["ci_low"], 0.0),
            "high": None if row["ci_high"] is None else min(row["ci_high"], 1.0),
            "reading": with_interval(row, 100, 1),
        }
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("k:Q", title="k", axis=alt.Axis(format="d", tickMinStep=1)),
        detail=["subject:N", "who:N"],
        tooltip=[
            alt.Tooltip("subject:N", title=" "),
            alt.Tooltip("who:N", title="answers"),
            alt.Tooltip("k:Q"),
            alt.Tooltip("reading:N", title="right, %"),
        ],
    )
    if several:
        # Models are told apart by colour, as everywhere on the page.
        base = base.encode(color=alt.Color("subject:N", title=None, sort=None))
    elif controls:
        base = base.encode(color=by_meaning("who", controls, present))
    scale = alt.Scale(domain=[0, 1], nice=False)
    y = alt.Y("value:Q", title="right among the first k", axis=alt.Axis(format="%"), scale=scale)
    line = base.mark_line(style="trend").encode(y=y)
    if len(present) > 1 and (several or not controls):
        dashes = alt.Scale(domain=present, range=_DASHES)
        line = line.encode(strokeDash=by_dashes("who", scale=dashes))
    band = (
        base.transform_filter("datum.banded")
        .transform_filter("isValid(datum.low)")
        .mark_area(style="band")
        .encode(y=alt.Y("low:Q", title="right among the first k"), y2="high:Q")
    )
    layers = alt.layer(band, line, base.mark_point(style="dot", filled=True).encode(y=y))
    return specification(layers.properties(height=_HEIGHT))
