"""Each text alone and after the code above it: which subwords the file helps with, and how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sonde.base.formatting import count, join_names, number
from sonde.report.charts import model_order, plot_differences
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import (
    BITS_PER_NAT,
    LENS,
    MIN_COUNT,
    list_subword_notes,
    read_observations,
)
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import BITS, PLAIN, Number, Unit, insufficient_data_reason, with_interval

_CHANGE, _WITH_FILE = "file-none", "file"


_ORIGINS = {
    "internal": "internal call",
    "external": "external call",
    "builtin": "builtin call",
    "local": "call within the file",
    "internal-external": "internal minus external calls",
}


_MEASURES = {"bits_per_byte": "bits per byte", "bits": "bits per subword", "top1": "top-1 accuracy, %"}


_COUNTS = {"bits_per_byte": "bytes"}
"""Plural noun of what ``n`` counts, by metric, where it is not subwords."""


_KEYS = ["model", "language", "metric", "dimension", "name"]


_DIMENSIONS = ("kind", "role", "origin")


_ORDER = ("all", *_DIMENSIONS)


_ROLES_SHOWN = 10


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw the changes by kind, role and origin, with a table of all numbers."""
    charts: list[Chart] = []
    for dimension, metric, title, unit in (
        ("kind", "bits", "Surprisal by kind of token", "change, bits per subword"),
        ("kind", "top1", "Top-1 accuracy by kind of token", "change, percentage points"),
        ("role", "bits", "Surprisal by role of identifier", "change, bits per subword"),
        ("origin", "bits", "Surprisal by the origin of a call", "change, bits per subword"),
    ):
        changes = rows.filter((pl.col("dimension") == dimension) & (pl.col("metric") == metric))
        if names := _select_names(changes, descending=metric == "top1"):
            spec = plot_differences(changes.filter(pl.col("name").is_in(names)), names, unit, "subwords")
            charts.append(Chart(name=f"behind-file-{dimension}-{metric}", title=title, spec=spec))
    show_model = rows["shown"].n_unique() > 1
    return Figure(
        answer="\n".join(
            f"{part['shown'][0]}: {sentence}" if show_model else sentence
            for part in rows.partition_by("shown", maintain_order=True)
            for sentence in _list_answers(part)
        ),
        charts=charts,
        table=Table(
            summary="Every number with and without the file",
            columns=[
                *([MODEL] if show_model else []),
                Column(
                    title="Of",
                    value=lambda row: (
                        row["name"]
                        if row["dimension"] in ("all", "origin")
                        else f"{row['dimension']}: {row['name']}"
                    ),
                ),
                Column(title="What", value=lambda row: _MEASURES[row["metric"]]),
                Column(title="Alone", value="alone", format=Number(), help="The function read by itself."),
                Column(
                    title="Behind the file",
                    value="behind",
                    format=Number(),
                    help="The same function read after the text that precedes it in its file.",
                ),
                *estimate_columns("Change", help="With the file minus alone, over the same subwords."),
                *size_columns(),
                Column(title="n counts", value=lambda row: _COUNTS.get(row["metric"], "subwords")),
            ],
            rows=rows,
        ),
        notes=[
            *filter(None, (_describe_context(run, model) for model in run.models)),
            *list_subword_notes(run),
            "The change says that the text above helps, not which part of it does: a name that was imported "
            "or defined there, or only the habits of its author. No text of another file was read as a "
            "control.",
        ],
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read the changes with the columns ``alone`` and ``behind``, in bits and percentage points."""
    changes = _read_changes(run, _CHANGE)
    for column, context in (("alone", None), ("behind", _WITH_FILE)):
        values = _read_changes(run, context).select(*_KEYS, pl.col("value").alias(column))
        changes = changes.join(values, on=_KEYS, how="left", maintain_order="left")
    # The tables of calls are in nats, the others hold both.
    scale = pl.col("metric").replace_strict({"nats": BITS_PER_NAT, "top1": 100.0}, default=1.0)
    return (
        changes.filter((pl.col("n") >= MIN_COUNT) | (pl.col("dimension") == "all"))
        .with_columns(pl.col("value", "ci_low", "ci_high", "alone", "behind") * scale)
        .with_columns(
            metric=pl.col("metric").replace("nats", "bits"),
            shown=run.subject,
            place=model_order(run),
            row=pl.col("dimension").replace_strict({name: i for i, name in enumerate(_ORDER)}),
        )
        .sort("place", "language", "row", "name", "metric")
    )


def _read_changes(run: RunData, context: str | None) -> pl.DataFrame:
    """Read the displayed rows of one reading, with ``dimension`` and the ``name`` of its value.

    Args:
        run: The run.
        context: Value of the dimension ``before``; None reads texts without their file.
    """
    outer = () if context is None else ("before",)
    # The first condition keeps the others from the many rows of the other readings.
    rows = run.scores(
        lens=LENS, metrics=[*_MEASURES, "nats"], where=dimension_value("before").eq_missing(context)
    )
    dimensions = [pl.when(has_dimension_names(*outer, name)).then(pl.lit(name)) for name in _DIMENSIONS]
    totals = pl.when(has_dimension_names(*outer)).then(pl.lit("all"))
    rows = rows.with_columns(
        dimension=pl.coalesce(*dimensions, totals),
        name=pl.coalesce(*(dimension_value(name) for name in _DIMENSIONS), pl.lit("everything")),
    )
    is_call = pl.col("dimension") == "origin"
    name = pl.when(is_call).then(pl.col("name").replace_strict(_ORIGINS, default="")).otherwise("name")
    return (
        rows.filter(
            # Of the gap between calls there is one row a weighting, all of them of the same two sides.
            pl.when(name == _ORIGINS["internal-external"])
            .then(pl.col("weighting") == "count")
            .otherwise(pl.col("weighting").is_null())
            & pl.col("dimension").is_in(_ORDER)
            & ((pl.col("metric") == "nats") == is_call)
        )
        .with_columns(name=name)
        .filter(pl.col("name") != "")
    )


def _select_names(rows: pl.DataFrame, *, descending: bool) -> list[str]:
    """Select the most frequent names and sort them by mean change, without the difference between calls."""
    sizes = rows.filter(pl.col("name") != _ORIGINS["internal-external"]).group_by("name")
    sizes = sizes.agg(pl.col("n").sum(), pl.col("value").mean())
    frequent = sizes.sort("n", "name", descending=[True, False]).head(_ROLES_SHOWN)
    return frequent.sort("value", "name", descending=[descending, False])["name"].to_list()


def _list_answers(rows: pl.DataFrame) -> Iterator[str]:
    by_key = {(row["dimension"], row["name"], row["metric"]): row for row in rows.iter_rows(named=True)}
    if total := by_key.get(("all", "everything", "bits_per_byte")):
        yield (
            f"After the code above it in its file, a text costs {number(total['behind'])} bits per byte "
            f"instead of {number(total['alone'])}, a change of {with_interval(total)}"
            f"{BITS.difference_caveat(total)}."
        )
    if first := by_key.get(("all", "everything", "top1")):
        yield (
            f"The first guess is right for {number(first['behind'], 1)} % of the subwords instead "
            f"of {number(first['alone'], 1)} %, a change of {with_interval(first, digits=1)} points"
            f"{Unit(digits=1, difference=' points').difference_caveat(first)}."
        )
    if ("origin", "internal call", "bits") in by_key:
        yield _describe_calls(
            {name: row for (dimension, name, _), row in by_key.items() if dimension == "origin"}
        )


_CALLS = {
    "internal call": "for calls into the repository",
    "external call": "for calls out of it",
    "builtin call": "for calls of builtins",
}


def _describe_calls(calls: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe the change per kind of call, and whether internal calls gain more than external ones."""
    parts = [
        f"by {with_interval(calls[name])} {words}{PLAIN.difference_caveat(calls[name])}"
        for name, words in _CALLS.items()
        if name in calls
    ]
    sentence = f"Subwords of calls change, in bits, {join_names(parts)}."
    gap = calls.get(_ORIGINS["internal-external"])
    if gap is None:
        return sentence
    difference = f"a difference of {with_interval(gap)}"
    if reason := insufficient_data_reason(gap):
        question = "on whether it helps more with calls into the repository than with calls out of it"
        return f"{sentence} {reason[:1].upper()}{reason[1:]}; {question}: {difference}."
    if gap["ci_low"] <= 0 <= gap["ci_high"]:
        sides = "between calls into the repository and calls out of it"
        null_result = PLAIN.null_result(gap)
        return f"{sentence} {null_result[:1].upper()}{null_result[1:]} {sides}: {difference}."
    comparison = "more" if gap["value"] < 0 else "less"
    return (
        f"{sentence} It helps {comparison} with calls into the repository than with calls out of it: "
        f"{difference}."
    )


def _describe_context(run: RunData, model: ModelInfo) -> str:
    """Describe how many texts have code above them in their file, and how much of it `model` read."""
    rows = read_observations(run, model, ["item_id", "context", "file_context"])
    context_size = (pl.col("file_context") - pl.col("context")).max()
    items = rows.group_by("item_id").agg(above=context_size).collect(engine="streaming").drop_nulls("above")
    if items.is_empty():
        return ""
    sizes = items.filter(pl.col("above") > 0)["above"]
    prefix = f"{model.label}: " if run.several else ""
    median_text = (
        f", of which the model read a median of {count(sizes.median())} subwords" if len(sizes) else ""  # pyright: ignore[reportArgumentType]  a median of numbers
    )
    return (
        f"{prefix}{count(len(sizes))} of {count(items.height)} texts have something above them in their file"
        f"{median_text}; the others count as unchanged."
    )


plot = SectionPlot(
    title="Behind its file: what the text above tells the model",
    lens=LENS,
    order=85,
    caption=(
        "Each text is read twice: alone, and after the code above it in its file (imports, earlier "
        "definitions; the end of that code, as far as the context allows). Only the text itself is scored, "
        "so each subword is compared with itself and the difficulty of the text cancels. Dots are changes, "
        "with the file minus alone, with paired 95 % intervals. Left of zero, the file makes subwords less "
        "surprising; for top-1 accuracy, right of zero is better."
    ),
    select=_read_rows,
    figure=_draw,
)
