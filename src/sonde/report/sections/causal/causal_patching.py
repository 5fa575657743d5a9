"""Where a model keeps which variable is right: states of a function put into another, by layer and role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number, plural
from sonde.lenses.causal.findings import patching_sentence
from sonde.report.charts import label_cells, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.results.schema import dimension_value, has_dimension_names, has_dimensions
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import caveat, with_interval

LENS = "causal"


CELLS: Mapping[str, str] = {
    "names": "both variables, all places",
    "definition": "its first place",
    "uses": "its further places",
    "rival": "places of the other variable",
    "other": "everything else that is read",
    "place": "where it answers",
}
"""What each cell holds, in the order drawn."""


DIRECTIONS: Mapping[str, str] = {
    "denoising": "what suffices: right states put into the function in which another is right",
    "noising": "what is needed: wrong states put into the function as it was written",
}


PATCH, ATTRIBUTION = "patch", "attribution"


class CausalPatchMaps:
    """Two maps of layers and roles."""

    title = "Interventions: where the right variable is kept"
    lens = LENS
    order = 550
    caption = (
        "In each pair of functions two variables are exchanged everywhere except at one place, so that the "
        "other one is right there. The states of one function behind a layer, 0 the embeddings, are put into "
        "the other, at the subwords of one role; the number is how far the answer follows, the logit of one "
        "variable less that of the other, in per cent of the way between the two functions, as a ratio of "
        "sums over pairs. More than 100 or less than 0 happens where a variable's places are changed and the "
        "other's are not. A number after ~ is a guess by gradients (attribution patching); all others were "
        "measured."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Maps a model and language."""
        rows = run.scores(
            metrics=["recovered", "margin_change", "prefers_right", "aligned", "spearman"],
            where=pl.col("method").is_in([PATCH, ATTRIBUTION]),
            lens=LENS,
        ).with_columns(
            subject=run.subject, direction=dimension_value("direction"), cell=dimension_value("cell")
        )
        if rows.is_empty():
            return None
        cells = prefer_measured_cells(rows)
        charts: list[Chart] = []
        parts = cells.partition_by("subject", as_dict=True, maintain_order=True)
        for place, ((subject,), part) in enumerate(parts.items()):
            for direction, words in DIRECTIONS.items():
                ending = direction + (f"-{place}" if len(parts) > 1 else "")
                of = f" ({subject})" if len(parts) > 1 else ""
                charts.append(
                    Chart(
                        name=f"causal-patching-{ending}",
                        title=f"{words[0].upper()}{words[1:]}{of}",
                        spec=_map(part.filter(pl.col("direction") == direction)),
                    )
                )
        said = [
            patching_sentence(str(subject), part)
            for (subject,), part in rows.partition_by("subject", as_dict=True, maintain_order=True).items()
        ]
        return Figure(
            answer="\n".join(filter(None, said)),
            charts=charts,
            table=_build_table(rows) if cells.height else None,
            notes=_list_notes(rows),
        )


def prefer_measured_cells(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a cell: what was measured, else what was guessed; behind the last layer the place is all."""
    cells = rows.filter((pl.col("metric") == "recovered") & has_dimension_names("direction", "cell"))
    cells = cells.filter(pl.col("layer") < pl.col("layer").max().over("subject"))
    return cells.sort(pl.col("method") != PATCH, maintain_order=True).unique(
        ["subject", "direction", "cell", "layer"], keep="first", maintain_order=True
    )


def _format_percent(share: float) -> str:
    """Per cent without decimals, and without the sign of what is none.

    >>> _format_percent(-0.001), _format_percent(-0.47)
    ('0', '−47')
    """
    return number(round(100 * share) + 0.0, 0)


def _map(cells: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "cell": CELLS.get(row["cell"], row["cell"]),
            "layer": row["layer"],
            "value": min(1.0, max(0.0, row["value"])),
            "text": ("~" if row["method"] == ATTRIBUTION else "") + _format_percent(row["value"]),
            "reading": with_interval(row, 100, 0),
            "how": "guessed by gradients" if row["method"] == ATTRIBUTION else "measured",
            "n": row["n"],
        }
        for row in cells.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("cell:N", sort=list(CELLS.values()), title=None),
        tooltip=[
            alt.Tooltip("cell:N", title="states of"),
            alt.Tooltip("layer:O"),
            alt.Tooltip("reading:N", title="of the way, %"),
            alt.Tooltip("how:N", title=" "),
            alt.Tooltip("n:Q", format=",", title="pairs"),
        ],
    )
    colour = alt.Color("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), legend=None)
    texts = label_cells(base, "text:N", max(1, cells["layer"].n_unique()))
    return to_vega_lite(
        alt.layer(base.mark_rect().encode(color=colour), *texts).properties(height=alt.Step(26))
    )


def _list_notes(rows: pl.DataFrame) -> list[str]:
    """What the pairs are, what the model makes of them, and how far gradients can be trusted."""
    notes = [
        f"{row['subject']}: {with_interval(row, 100, 0)} % of the {plural(row['n'], 'exchange')} that "
        f"{'was' if row['n'] == 1 else 'were'} tried are cut into subwords alike and could be read"
        f"{caveat(row)}."
        for row in rows.filter(pl.col("metric") == "aligned").iter_rows(named=True)
    ]
    clean, corrupt = (
        {
            row["subject"]: row
            for row in rows.filter(
                (pl.col("metric") == "prefers_right") & has_dimensions({"text": text})
            ).iter_rows(named=True)
        }
        for text in ("clean", "corrupt")
    )
    notes += [
        f"{subject}: as it was written, the variable that stands there is the likelier one in "
        f"{with_interval(one, 100, 0)} % of the pairs; with both exchanged, where it is wrong, still in "
        f"{with_interval(corrupt[subject], 100, 0)} %{caveat(corrupt[subject])}."
        for subject, one in clean.items()
        if subject in corrupt
    ]
    notes += [
        f"{row['subject']}: over {plural(row['n'], 'cell')} drawn at random, what gradients guess and what "
        f"patching does agree with a rank correlation of {with_interval(row)}{caveat(row)}."
        for row in rows.filter(pl.col("metric") == "spearman").iter_rows(named=True)
    ]
    return notes


def _build_table(rows: pl.DataFrame) -> Table:
    cells = rows.filter((pl.col("metric") == "recovered") & has_dimension_names("direction", "cell"))
    places = {name: place for place, name in enumerate(CELLS)}
    ordered = cells.sort(
        "subject", "direction", "method", "layer",
        pl.col("cell").replace_strict(places, default=9, return_dtype=pl.Int64),
        descending=[False, False, True, False, False],
    )  # fmt: skip
    return Table(
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
        rows=ordered,
    )


plot = CausalPatchMaps()
