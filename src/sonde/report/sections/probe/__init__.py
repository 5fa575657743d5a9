"""Sections of the lens `probe`: their title, and the scores, layers and findings that they show.

The token explorer shows what probes say of single functions and their tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import colour_by_kind, layer_axis, list_tooltips, plot_lines
from sonde.report.run_tables import RunData
from sonde.report.section import ANSWER, Chart, CrossLensNumber, LensTitle, Rows, TokenFindings, TokenLens
from sonde.report.text import task_family, task_label
from sonde.results.headlines import HeadlineMetric
from sonde.results.layers import LayerSummary, summarise_layers
from sonde.results.local_cues import CUES_GAIN, index_cues
from sonde.results.schema import dimension_value, has_dimensions
from sonde.results.tables import Column
from sonde.results.text_format import COUNT, PERCENT, Format, Row
from sonde.stats.verdict import format_effective_clusters

LENS = "probe"


BEST = has_dimensions({"selection": "best"})
"""Scores of the layer that was chosen on validation."""


EVERY = has_dimensions({})
"""Scores of every layer."""


CONSTRUCTS: Mapping[str, tuple[str, ...]] = {
    "KTX KFC": ("branch", "loop"),
    "KTX KEH": ("exception_handling",),
    "KTX KPT": ("type",),
    "KTX OAR": ("operator_expression",),
    "KTX OAS": ("assignment",),
    "KTX OLB": ("operator_expression",),
    "KTX ORE": ("operator_expression",),
    "IDN IDP": ("import",),
}
"""Classes of tokens, with the constructs of all languages that they stand in; others stand in too many."""


KEY = ("model", "task", "language")


SURFACE = Column(title="Surface, %", value="surface", format=PERCENT, help="The accuracy of that guess.")
"""The accuracy of the best surface, behind the column that names it."""


ENCODED = Column(
    title="Encoded",
    value="encoded",
    help="Whether the chosen layer is surely beyond the best surface, and which layers serve as well.",
)
"""Where a task is encoded, as the account of its layers says it."""


def read_all_poolings(run: RunData) -> pl.DataFrame:
    """Read what `read_headline` does for each pooling."""
    rows = run.scores(metrics=["accuracy"], where=BEST & pl.col("layer").is_not_null(), lens=LENS)
    return rows.filter((pl.col("split") == "test") & (pl.col("method") != "mlp"))


def read_headline(run: RunData) -> pl.DataFrame:
    """Read the test accuracy of the layer chosen on validation, one row per model, task and language.

    Where a task was probed by several poolings, the first is the headline's.
    """
    return (
        read_all_poolings(run)
        .unique(KEY, keep="first", maintain_order=True)
        .with_columns(
            family=pl.col("task").map_elements(task_family, pl.String),
            name=pl.col("task").map_elements(task_label, pl.String),
        )
    )


def read_layer_summaries(run: RunData) -> dict[tuple[str, ...], LayerSummary]:
    """Summarise where each task is encoded, by model, task and language."""
    rows = run.every_score.filter(pl.col("lens") == LENS)
    return {summary.key: summary for summary in summarise_layers(rows)}


def describe_fits(run: RunData) -> Iterator[str]:
    """Yield for each kind of fit how examples were tested, and how many clusters that rests on."""
    for (folds,), part in read_headline(run).partition_by("k", as_dict=True, maintain_order=True).items():
        names = ", ".join(part["name"].unique(maintain_order=True))
        sentence = f"Tested on the test part of the split that is kept as it is: {names}."
        if folds is not None:
            sentence = (
                f"Cross-fitted over {folds} folds: every example is tested once, by a probe that saw nothing "
                "of its cluster and whose layer and penalty were chosen on another fold, never on the tested "
                "one."
            )
        clusters = part["effective_clusters"].drop_nulls()
        extremes = [clusters.min(), clusters.max()] if len(clusters) else []
        ends = dict.fromkeys(format_effective_clusters(float(str(value))) for value in extremes)
        size = plural(" to ".join(ends), "effective cluster")
        yield f"{sentence}{f' The intervals rest on {size} a task.' if ends else ''}"


def format_layers(row: Row) -> str:
    """Format the layer of each fold where they differ, else the one layer.

    >>> format_layers({"layer": 2, "fold_layers": [2, 3, 2]})
    '2 (2 3 2)'
    >>> format_layers({"layer": 1, "fold_layers": None})
    '1'
    """
    layers = row["fold_layers"] or []
    return f"{row['layer']} ({' '.join(map(str, layers))})" if len(set(layers)) > 1 else str(row["layer"])


def read_with_controls(
    run: RunData, metrics: Sequence[str], where: pl.Expr | None = None, **columns: str
) -> pl.DataFrame:
    """Read the rows of the headline's pooling, with controls among them.

    Args:
        run: The run.
        metrics: Names of metrics.
        where: A further condition, for example `BEST`.
        columns: Columns that have to have these values.
    """
    rows = run.scores(metrics=metrics, lens=LENS, controls=True, where=where)
    for column, value in columns.items():
        rows = rows.filter(pl.col(column) == value)
    pooling = read_headline(run).select(*KEY, "pooling", "family", "name")
    return rows.join(pooling, on=[*KEY, "pooling"], maintain_order="left")


def read_local_cues(run: RunData) -> dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]]:
    """Read the scores of local cues and the paired difference to them, by model, task and language."""
    return index_cues(read_with_controls(run, ["accuracy", CUES_GAIN], BEST, split="test"))


def read_layers(run: RunData) -> pl.DataFrame:
    """Read the test accuracy of every layer of the headline's pooling."""
    rows = read_with_controls(run, ["accuracy"], EVERY, split="test")
    rows = rows.filter(pl.col("control").is_null() & pl.col("layer").is_not_null())
    return rows.filter(pl.col("method") != "mlp").sort("layer", maintain_order=True)


def get_key(row: Row) -> tuple[str, ...]:
    """Return the model, task and language of a row."""
    return tuple(row[name] for name in KEY)


def index_by_key(rows: pl.DataFrame) -> dict[tuple[str, ...], dict[str, Any]]:
    """Index the first row of each model, task and language."""
    first = rows.unique(KEY, keep="first", maintain_order=True)
    return {get_key(row): row for row in first.iter_rows(named=True)}


def format_row_label(run: RunData, row: Row) -> str:
    """Format the model and language that a row is about, as far as the run has several."""
    return ", ".join(list_qualifiers(run, row))


def start_sentence(run: RunData, row: Row) -> str:
    """Return how a sentence about a row begins: with its label and a colon, or with nothing."""
    label = format_row_label(run, row)
    return f"{label}: " if label else ""


def list_qualifiers(run: RunData, row: Row, *, slugs: bool = False) -> list[str]:
    """List what sets the rows of a model and language apart from others of the run.

    Args:
        run: The run.
        row: Any of them.
        slugs: Whether the model is named as in names of files.
    """
    slug = next((model.slug for model in run.models if model.name == row["model"]), "")
    name = slug if slugs else row["shown"]
    return [*([name] if run.several else []), *([row["language"]] if len(run.languages) > 1 else [])]


_MEASURE_KEY = ("model", "language", "metric")


def find_control_row(controls: pl.DataFrame, row: Row, control: str) -> dict[str, Any] | None:
    """Find the first row of a control for the same model, language and measure."""
    key = {name: row[name] for name in _MEASURE_KEY}
    return next(controls.filter(control=control, **key).iter_rows(named=True), None)


def control_columns(
    controls: pl.DataFrame,
    names: Mapping[str, str],
    form: Format | Callable[[Row], Format],
    help: str = "",
) -> Iterator[Column]:
    """Yield the mean of each control for the same model, language and measure, by title of its column."""
    for title, name in names.items():
        rows = controls.filter(pl.col("control") == name).group_by(_MEASURE_KEY).agg(pl.col("value").mean())
        means = {tuple(key): value for *key, value in rows.rows()}
        yield Column(
            title=title,
            value=lambda row, means=means: means.get(tuple(row[column] for column in _MEASURE_KEY)),
            format=form,
            help=help,
        )


CHOSEN_LAYER = Column(
    title="Layer", value="layer", format=COUNT, help="Chosen on validation; 0 is the embedding."
)


def plot_by_layer(
    run: RunData,
    rows: pl.DataFrame,
    name: str,
    title: str,
    unit: str | None = None,
    legend: str | None = None,
) -> list[Chart]:
    """Plot a chart a model and language, with a line for each value of the column ``series``.

    Args:
        run: The run.
        rows: Scores of every layer.
        name: Beginning of the charts' names.
        title: Beginning of their titles.
        unit: Title of the axis.
        legend: Title of the lines.
    """
    charts: list[Chart] = []
    for part in rows.partition_by("model", "language", maintain_order=True):
        row = part.row(0, named=True)
        points = part.sort("layer", maintain_order=True).select("series", "layer", "value")
        base = alt.Chart(alt.Data(values=points.to_dicts())).encode(
            x=layer_axis(),
            color=colour_by_kind("series", legend),
            tooltip=list_tooltips({"series:N": legend or " ", "layer:O": "", "value:Q": "|.2f"}),
        )
        charts.append(
            Chart(
                name="-".join([name, *list_qualifiers(run, row, slugs=True)]),
                title=", ".join([title, *list_qualifiers(run, row)]),
                spec=plot_lines(base, alt.Y("value:Q", title=unit, scale=alt.Scale(zero=True))),
            )
        )
    return charts


def _list_item_ids(run: RunData) -> list[str]:
    tables = [run.answers(LENS, model).select("item_id") for model in run.models]
    return pl.concat(tables)["item_id"].unique().to_list() if tables else []


def _read_findings(run: RunData, items: Sequence[str], characters: int) -> TokenFindings | None:
    rows: dict[str, Mapping[str, Rows]] = {}
    whole: dict[str, Mapping[str, Rows]] = {}
    for model in run.models:
        answers = run.answers(LENS, model).filter(pl.col("item_id").is_in(list(items)))
        if answers.is_empty():
            continue
        token_rows: defaultdict[str, list[list[Any]]] = defaultdict(list)
        item_rows: defaultdict[str, list[list[Any]]] = defaultdict(list)
        for row in answers.sort("item_id", "start", "task").iter_rows(named=True):
            answer = [task_label(row["task"]), row["said"], row["label"], int(row["said"] == row["label"])]
            if row["whole"]:
                item_rows[row["item_id"]].append(answer)
            elif row["start"] < characters:
                token_rows[row["item_id"]].append([row["start"], row["end"], *answer, row["layer"]])
        rows[model.slug], whole[model.slug] = token_rows, item_rows
    if not rows:
        return None
    return TokenFindings(
        lens=LENS,
        label="Probes",
        kind=ANSWER,
        columns=("group", "said", "right", "hit", "layer"),
        texts=frozenset({"group", "said", "right"}),
        facts=(("layer", "layer", ""),),
        group="task",
        rows=rows,
        whole=whole,
        note=(
            "a task asks about one token of a function or about the whole of it; what is shown was answered "
            "by the chosen layer of a probe that learned from other code"
        ),
    )


title = LensTitle(
    name="Probes",
    question="What can be read from the model's states? A simple classifier answers each task from them.",
    counts={
        "": "example",
        **dict.fromkeys(("uuas", "distance_spearman", "depth_spearman", "tree_f1", "bracket_f1"), "function"),
    },
    cites=("karmakar2024inspect", "hewitt2019control"),
    cross_lens=CrossLensNumber(
        title="Probe, tokens of a class told",
        question=HeadlineMetric(
            subject="Probes",
            measure="tokens of a class",
            metrics=("confusion",),
            where=(pl.col("split") == "test")
            & pl.col("task").is_in(["ktx", "idn"])
            & (dimension_value("gold") == dimension_value("predicted")),
        ),
        fact=pl.concat_str(pl.col("task").str.to_uppercase(), dimension_value("gold"), separator=" "),
        constructs=CONSTRUCTS,
        against="chance, one in the number of classes",
        level=1 / dimension_value("gold").n_unique(),
        inside=True,
        same="of probes, the classes of keywords, operators and names inside it: KFC is every keyword of "
        "control flow, so it counts for branches and loops alike",
    ),
    tokens=TokenLens(known=_list_item_ids, findings=_read_findings),
)
