"""States of a function put into another, by layer and role: where the right variable is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number, plural
from sonde.lenses.causal.findings import patching_sentence
from sonde.report.charts import layer_axis, plot_heat_map, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.causal import LENS
from sonde.results.schema import dimension_value, has_dimension_names, has_dimensions
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import verdict_mark, with_interval

CELLS: Mapping[str, str] = {
    "names": "both variables, all places",
    "definition": "its first place",
    "uses": "its further places",
    "rival": "places of the other variable",
    "other": "everything else that is read",
    "place": "where it answers",
}
"""Labels of the cells, in the order drawn."""


DIRECTIONS: Mapping[str, str] = {
    "denoising": "what suffices: right states put into the function in which another is right",
    "noising": "what is needed: wrong states put into the function as it was written",
}


PATCH, ATTRIBUTION = "patch", "attribution"


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one heat map per model, language and direction."""
    cells = rows.filter((pl.col("metric") == "recovered") & has_dimension_names("direction", "cell"))
    parts = list(split_by_subject(prefer_measured_cells(rows)))
    positions = {name: position for position, name in enumerate(CELLS)}
    table = Table(
        summary="Every cell",
        columns=[
            MODEL,
            Column(title="Direction", value="direction"),
            Column(title="States of", value=lambda row: CELLS.get(row["cell"], row["cell"])),
            Column(title="Layer", value="layer"),
            Column(
                title="How", value=lambda row: "patched" if row["method"] == PATCH else "guessed by gradients"
            ),
            *score_columns(
                "Of the way, %", 1, 100, n="Pairs", help="How far the answer follows the states put there."
            ),
        ],
        rows=cells.sort(
            "subject", "direction", "method", "layer",
            pl.col("cell").replace_strict(positions, default=9, return_dtype=pl.Int64),
            descending=[False, False, True, False, False],
        ),
    )  # fmt: skip
    sentences = (patching_sentence(subject, part) for subject, _, part in split_by_subject(rows))
    return Figure(
        answer="\n".join(filter(None, sentences)),
        charts=[
            Chart(
                name=f"causal-patching-{direction}{slug}",
                title=f"{words[0].upper()}{words[1:]}{f' ({subject})' if slug else ''}",
                spec=_plot_map(part.filter(pl.col("direction") == direction)),
            )
            for subject, slug, part in parts
            for direction, words in DIRECTIONS.items()
        ],
        table=table if parts else None,
        notes=list(_list_notes(rows)),
    )


def prefer_measured_cells(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep one row per cell, measured rather than guessed by gradients.

    The last layer is left out: only the place of the answer has an effect there.
    """
    cells = rows.filter((pl.col("metric") == "recovered") & has_dimension_names("direction", "cell"))
    cells = cells.filter(pl.col("layer") < pl.col("layer").max().over("subject"))
    return cells.sort(pl.col("method") != PATCH, maintain_order=True).unique(
        ["subject", "direction", "cell", "layer"], keep="first", maintain_order=True
    )


def _plot_map(cells: pl.DataFrame) -> dict[str, Any]:
    return plot_heat_map(
        [
            {
                "cell": CELLS.get(row["cell"], row["cell"]),
                "layer": row["layer"],
                "value": min(1.0, max(0.0, row["value"])),
                # Without the sign of what is none.
                "text": "~" * (row["method"] == ATTRIBUTION) + number(round(100 * row["value"]) + 0.0, 0),
                "reading": with_interval(row, 100, 0),
                "how": "guessed by gradients" if row["method"] == ATTRIBUTION else "measured",
                "n": row["n"],
            }
            for row in cells.iter_rows(named=True)
        ],
        layer_axis(),
        alt.Y("cell:N", sort=list(CELLS.values()), title=None),
        {
            "cell:N": "states of",
            "layer:O": "",
            "reading:N": "of the way, %",
            "how:N": " ",
            "n:Q": "pairs|,",
        },
        text="text",
        columns=max(1, cells["layer"].n_unique()),
        step=26,
    )


def _list_notes(rows: pl.DataFrame) -> Iterator[str]:
    """Yield notes on the pairs, the model's preference in them, and the accuracy of gradients."""
    for row in rows.filter(pl.col("metric") == "aligned").iter_rows(named=True):
        yield (
            f"{row['subject']}: {with_interval(row, 100, 0)} % of the {plural(row['n'], 'exchange')} that "
            f"{'was' if row['n'] == 1 else 'were'} tried are cut into subwords alike and could be read"
            f"{verdict_mark(row)}."
        )
    prefers = rows.filter(pl.col("metric") == "prefers_right")
    clean, corrupt = (
        {row["subject"]: row for row in prefers.filter(has_dimensions({"text": text})).iter_rows(named=True)}
        for text in ("clean", "corrupt")
    )
    for subject in (subject for subject in clean if subject in corrupt):
        yield (
            f"{subject}: in the original code, the actual variable is the likelier one in "
            f"{with_interval(clean[subject], 100, 0)} % of the pairs; with both exchanged, where it is "
            f"wrong, still in {with_interval(corrupt[subject], 100, 0)} %{verdict_mark(corrupt[subject])}."
        )
    for row in rows.filter(pl.col("metric") == "spearman").iter_rows(named=True):
        yield (
            f"{row['subject']}: over {plural(row['n'], 'cell')} drawn at random, what gradients guess and "
            f"what patching does agree with a rank correlation of {with_interval(row)}{verdict_mark(row)}."
        )


plot = SectionPlot(
    title="Interventions: where the right variable is kept",
    lens=LENS,
    order=550,
    caption=(
        "In each pair of functions, two variables are exchanged everywhere except at one place, so that "
        "the other variable is right there. The states of one function after a layer (0 is the embedding) "
        "are put into the other at the subwords of one role. The number is how far the answer follows: the "
        "logit difference of the two variables, in per cent of the way between the two functions, as a "
        "ratio of sums over pairs. Values above 100 or below 0 occur if only one variable's places are "
        "patched. A number after ~ is estimated by gradients (attribution patching); all others were "
        "measured."
    ),
    select=lambda run: run.scores(
        metrics=["recovered", "margin_change", "prefers_right", "aligned", "spearman"],
        where=pl.col("method").is_in([PATCH, ATTRIBUTION]),
        lens=LENS,
    ).with_columns(subject=run.subject, direction=dimension_value("direction"), cell=dimension_value("cell")),
    figure=_draw,
)
