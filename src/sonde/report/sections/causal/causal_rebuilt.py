"""What probes still find behind an erasure in functions that its map never saw, by layer."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number
from sonde.lenses.causal.findings import NAMES, select_reprobing_scores
from sonde.report.charts import label_cells, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.results.tables import Column, Table, score_columns
from sonde.results.text_format import COUNT, caveat, with_interval

LENS = "causal"


class CausalNewProbes:
    """Layers erased by layers read, coloured by what a new probe gets right."""

    title = "Interventions: what later layers rebuild"
    lens = LENS
    order = 352
    caption = (
        "Share of the examples that a new probe gets right whose states were read at one layer (a column) "
        "after the property was erased at another (a row). Probes are trained and tested, fold by fold, on "
        "functions that the map was not fitted to: on the others they are at the commonest class by "
        "construction. On the diagonal the property was just erased; to the right of it what later layers "
        "rebuild from elsewhere. In the first row, nothing was erased."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One map a property, model and language."""
        every = run.every_score.filter(pl.col("lens") == LENS)
        rows = select_reprobing_scores(every)
        rows = rows.filter(pl.col("dimensions").list.len() == 1)
        both = rows.filter(pl.col("control").is_null())
        if not (both["erased"] >= 0).any():
            return None
        names = {model.name: model.label for model in run.models}
        charts: list[Chart] = []
        said: list[str] = []
        for place, ((model, language, task), part) in enumerate(
            both.partition_by("model", "language", "task", as_dict=True, maintain_order=True).items()
        ):
            name = NAMES.get(str(task), str(task))
            of = ", ".join(
                [
                    name,
                    *([names[str(model)]] if run.several else []),
                    *([str(language)] if len(run.languages) > 1 else []),
                ]
            )
            charts.append(
                Chart(name=f"causal-rebuilt-{place}", title=f"Probes, {of}", spec=_build_spec(part))
            )
            common = rows.filter(
                (pl.col("control") == "majority") & (pl.col("model") == model)
                & (pl.col("language") == language) & (pl.col("task") == task)
            )  # fmt: skip
            said.append(_format_sentence(of, part, common))
        return Figure(answer="\n".join(filter(None, said)), charts=charts, table=_build_table(rows))


def _format_sentence(of: str, rows: pl.DataFrame, common: pl.DataFrame) -> str:
    """What the last layer gives away after an erasure in the middle."""
    last = int(rows["layer"].max())  # type: ignore[arg-type]
    middle = last // 2
    at = {
        name: rows.filter((pl.col("erased") == erased) & (pl.col("layer") == layer))
        for name, erased, layer in (
            ("before", -1, last), ("itself", middle, middle), ("later", middle, last)
        )
    }  # fmt: skip
    if any(part.is_empty() for part in at.values()):
        return ""
    value = {name: f"{with_interval(part.row(0, named=True), 100, 1)} %" for name, part in at.items()}
    few = next(filter(None, (caveat(part.row(0, named=True)) for part in at.values())), "")
    least = "".join(f" (the commonest class {number(100 * row, 1)} %)" for row in common["value"][:1])
    return (
        f"{of}: erased at layer {middle}, a new probe finds {value['itself']} there{least} and "
        f"{value['later']} at layer {last}, where it finds {value['before']} with nothing erased{few}."
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "erased": "nothing" if row["erased"] < 0 else str(row["erased"]),
            "layer": row["layer"],
            "value": row["value"],
            "text": f"{100 * row['value']:.0f}",
            "reading": with_interval(row, 100, 1),
        }
        for row in rows.sort("erased", "layer").iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer read", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("erased:N", title="layer erased", sort=None),
        tooltip=[
            alt.Tooltip("erased:N", title="erased at"),
            alt.Tooltip("layer:O", title="read at"),
            alt.Tooltip("reading:N", title="right, %"),
        ],
    )
    colour = alt.Color("value:Q", title="right", scale=alt.Scale(domain=[0, 1]), legend=None)
    cells = base.mark_rect().encode(color=colour)
    columns = rows["layer"].n_unique()
    return to_vega_lite(
        alt.layer(cells, *label_cells(base, "text:N", columns)).properties(height=alt.Step(22))
    )


def _build_table(rows: pl.DataFrame) -> Table:
    return Table(
        summary="Every layer erased and read, in % of the tested examples",
        columns=[
            Column(title="Property", value=lambda row: NAMES.get(row["task"], row["task"])),
            Column(title="What", value=lambda row: "commonest class" if row["control"] else "probe"),
            Column(
                title="Erased at layer", value=lambda row: row["erased"] if row["erased"] >= 0 else "none"
            ),
            Column(title="Read at", value="layer", format=COUNT),
            *score_columns("Right, %", digits=1, scale=100),
        ],
        rows=rows.sort("task", "erased", "layer", maintain_order=True),
    )


plot = CausalNewProbes()
