"""Where in the model a property is: accuracy by layer and task, and ranks (INSPECT, section 6.3)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import specification
from sonde.report._shared.asked import label_of, ordered
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import ModelInfo, RunData
from sonde.report.probe._scores import LENS, layers, sparkline, whose
from sonde.results.extremes import find_extreme, list_layers
from sonde.results.formats import COUNT
from sonde.results.tables import Column

PLACES = ("early", "middle", "late")


class ProbeLayers:
    """A heat map of layers and tasks, and sparklines of the layers' ranks."""

    title = "Layers: where it is encoded"
    lens = LENS
    order = 210
    caption = (
        "Accuracy of every layer on the tested examples, 0 the embeddings; colour runs from the lowest to "
        "the highest accuracy of each task, the number is in the tooltip. A task is early, middle or late if "
        "all layers that cannot be told from its highest lie in that third of the depth. In the table layers "
        "are ranked within each task (higher is better) and ranks averaged over models or over tasks."
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
        return Figure(answer=_answer(rows, run), charts=charts, table=_table(rows))


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
    colour = alt.Color("share:Q", title="lowest to highest", legend=alt.Legend(format="%"))
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


def _leading(rows: pl.DataFrame) -> dict[str, list[int]]:
    """By task the layers that cannot be told from the highest; none where nothing can be told."""
    found: dict[str, list[int]] = {}
    for (task,), part in rows.partition_by("task", as_dict=True, maintain_order=True).items():
        highest = find_extreme(part.to_dicts())
        told = highest.rows if highest is not None and highest.is_told else ()
        found[str(task)] = [row["layer"] for row in told]
    return found


def _answer(rows: pl.DataFrame, run: RunData) -> str:
    lines: list[str] = []
    for part in rows.partition_by("model", "language", maintain_order=True):
        depth = int(part["layer"].max())  # pyright: ignore[reportArgumentType]  layers are integers
        found: dict[str, list[str]] = {place: [] for place in (*PLACES, _SEVERAL, _UNTOLD)}
        leading = _leading(part)
        for task in ordered(leading):
            places = {place_of(layer, depth) for layer in leading[task]}
            found[places.pop() if len(places) == 1 else _SEVERAL if places else _UNTOLD].append(
                label_of(task)
            )
        who = whose(run, part.row(0, named=True))
        said = "; ".join(f"{place}: {', '.join(names)}" for place, names in found.items() if names)
        lines.append(
            f"{who}{': w' if who else 'W'}here the highest accuracy lies, by the third of the depth, {said}."
        )
    return "\n".join(lines)


_SEVERAL = "in more than one third"
_UNTOLD = "cannot be told"


def _table(rows: pl.DataFrame) -> Table:
    parts = rows.partition_by("model", "language")
    leading: dict[str, set[int]] = {}
    for part in parts:
        for task, layers_of_task in _leading(part).items():
            leading.setdefault(task, set()).update(layers_of_task)
    records: list[dict[str, Any]] = []
    for by, other in (("task", "models"), ("model", "tasks")):
        for (key, depth), part in (
            _ranks(rows, by).partition_by(by, "depth", as_dict=True, maintain_order=True).items()
        ):
            told = leading.get(str(key)) if by == "task" else None
            records.append(
                {
                    "name": label_of(str(key)) if by == "task" else part["shown"][0],
                    "over": other,
                    "line": sparkline(part.sort("layer")["rank"].to_list()),
                    "leading": list_layers(told).partition(" ")[2] if told else None,
                    "depth": depth,
                }
            )
    return Table(
        summary="Ranks of layers",
        columns=[
            Column(title="Of", value="name"),
            Column(title="Averaged over", value="over"),
            Column(title="Ranks by layer", value="line", help="The higher, the better the layer."),
            Column(
                title="Not told from the highest",
                value="leading",
                help="Layers that cannot be told from the highest, in any model; 0 is the embedding.",
            ),
            Column(title="Layers", value="depth", format=COUNT, help="How many layers the model has."),
        ],
        rows=records,
    )


plot = ProbeLayers()
