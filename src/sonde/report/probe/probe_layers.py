"""Where in the model a property is: accuracy by layer and task, and ranks (INSPECT, section 6.3)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import specification
from sonde.report._shared.asked import label_of, ordered
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import ModelInfo, RunData
from sonde.report.probe._scores import LENS, layers, sparkline
from sonde.results.formats import COUNT
from sonde.results.tables import Column

PLACES = ("early", "middle", "late")


class ProbeLayers:
    """A heat map of layers and tasks, and sparklines of the layers' ranks."""

    title = "Layers: where it is encoded"
    lens = LENS
    order = 210
    caption = (
        "Accuracy of every layer on the tested examples, 0 the embeddings; colour runs from the worst to the "
        "best layer of each task, the number is in the tooltip. In the table layers are ranked within each "
        "task (higher is better) and ranks averaged over models or over tasks; the peak is early, middle or "
        "late by the third of the depth that it lies in."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One heat map a model and language."""
        rows = layers(run)
        if rows.is_empty():
            return None
        charts: list[Chart] = []
        for model in run.models:
            own = rows.filter(pl.col("model") == model.name)
            for (language,), part in own.partition_by("language", as_dict=True).items():
                charts.append(_chart(run, model, str(language), part))
        return Figure(answer=_answer(rows), charts=charts, table=_table(rows))


def _chart(run: RunData, model: ModelInfo, language: str, rows: pl.DataFrame) -> Chart:
    several = len(run.languages) > 1
    name = "-".join(
        ["probe-layers", *([model.slug] if run.several else []), *([language] if several else [])]
    )
    of = ", ".join([*([model.label] if run.several else []), *([language] if several else [])])
    return Chart(
        name=name, title=f"Accuracy by layer and task{f', {of}' if of else ''}", spec=_spec(rows), wide=True
    )


def _spec(rows: pl.DataFrame) -> dict[str, Any]:
    low, high = (getattr(pl.col("value"), end)().over("task") for end in ("min", "max"))
    shown = rows.with_columns(
        share=pl.when(high > low).then((pl.col("value") - low) / (high - low)).otherwise(0.5)
    )
    records = shown.select("name", "family", "layer", "value", "share").to_dicts()
    order = [label_of(task) for task in ordered(rows["task"].to_list())]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("name:N", sort=order, title=None),
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            alt.Tooltip("family:N"),
            alt.Tooltip("layer:O"),
            alt.Tooltip("value:Q", format=".1%", title="accuracy"),
        ],
    )
    colour = alt.Color("share:Q", title="worst to best layer", legend=alt.Legend(format="%"))
    return specification(base.mark_rect().encode(color=colour).properties(height=alt.Step(20)))


def _ranks(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """Mean rank of each layer by task or model, where all that are averaged have as many layers."""
    key = ["model", "task", "language"]
    ranked = rows.with_columns(
        rank=pl.col("value").rank("average").over(key), depth=pl.col("layer").max().over(key)
    )
    grouped = ranked.group_by(by, "depth", "layer", maintain_order=True)
    return grouped.agg(pl.col("rank").mean(), pl.col("name", "shown", "family").first()).sort(
        "depth", "layer"
    )


def place_of(layer: int, depth: int) -> str:
    """The third of the depth that a layer lies in.

    >>> place_of(0, 12), place_of(6, 12), place_of(12, 12)
    ('early', 'middle', 'late')
    """
    return PLACES[min(2, 3 * layer // max(1, depth + 1))]


def _peak(rows: pl.DataFrame) -> int:
    return int(rows.sort("rank", "layer", descending=[True, False])["layer"][0])


def _answer(rows: pl.DataFrame) -> str:
    found: dict[str, list[str]] = {place: [] for place in PLACES}
    parts = _ranks(rows, "task").partition_by("task", "depth", as_dict=True)
    tasks = {str(task): part for (task, _), part in parts.items()}
    for task in ordered(tasks):
        part = tasks[task]
        found[place_of(_peak(part), int(part["depth"][0]))].append(label_of(task))
    said = [f"{place}: {', '.join(names)}" for place, names in found.items() if names]
    return f"Best layers by the third of the depth, {'; '.join(said)}."


def _table(rows: pl.DataFrame) -> Table:
    records: list[dict[str, Any]] = []
    for by, other in (("task", "models"), ("model", "tasks")):
        for (key, depth), part in (
            _ranks(rows, by).partition_by(by, "depth", as_dict=True, maintain_order=True).items()
        ):
            peak = _peak(part)
            records.append(
                {
                    "name": label_of(str(key)) if by == "task" else part["shown"][0],
                    "over": other,
                    "line": sparkline(part.sort("layer")["rank"].to_list()),
                    "peak": peak,
                    "place": place_of(peak, int(str(depth))),
                    "depth": depth,
                }
            )
    return Table(
        summary="Ranks of layers",
        columns=[
            Column(title="Of", value="name"),
            Column(title="Averaged over", value="over"),
            Column(title="Ranks by layer", value="line", help="The higher, the better the layer."),
            Column(title="Best layer", value="peak", format=COUNT, help="0 is the embedding."),
            Column(title="Peak", value="place", help="Where in the model that layer is."),
            Column(title="Layers", value="depth", format=COUNT, help="How many layers the model has."),
        ],
        rows=records,
    )


plot = ProbeLayers()
