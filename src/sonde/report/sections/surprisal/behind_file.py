"""Each text alone and behind the text of its file: which subwords the file helps with, and how much."""

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
from sonde.results.tables import CLUSTERS, MODEL, Column, N, Table, estimate_columns
from sonde.results.text_format import (
    Number,
    describe_null_result,
    difference_caveat,
    insufficient_data_reason,
    with_interval,
)

_CHANGE, _BEHIND = "file-none", "file"


_ORIGINS = {
    "internal": "internal call",
    "external": "external call",
    "builtin": "builtin call",
    "local": "call within the file",
    "internal-external": "internal minus external calls",
}


_GROUPS = (
    ("kind", "bits", "Surprisal by kind of token", "change, bits per subword"),
    ("kind", "top1", "Top-1 accuracy by kind of token", "change, percentage points"),
    ("role", "bits", "Surprisal by role of identifier", "change, bits per subword"),
    ("origin", "bits", "Surprisal by where a call goes", "change, bits per subword"),
)


_MEASURES = {"bits_per_byte": "bits per byte", "bits": "bits per subword", "top1": "top-1 accuracy, %"}


_KEYS = ["model", "language", "metric", "dimension", "name"]


_DIMENSIONS = ("kind", "role", "origin")


_ORDER = ("all", *_DIMENSIONS)


_ROLES_SHOWN = 10


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """The charts of changes."""
    charts: list[Chart] = []
    for cut, metric, title, unit in _GROUPS:
        held = rows.filter((pl.col("dimension") == cut) & (pl.col("metric") == metric))
        if names := _names(held, most_first=metric == "top1"):
            spec = plot_differences(held.filter(pl.col("name").is_in(names)), names, unit)
            charts.append(Chart(name=f"behind-file-{cut}-{metric}", title=title, spec=spec))
    several = rows["shown"].n_unique() > 1
    return Figure(
        answer="\n".join(
            f"{part['shown'][0]}: {said}" if several else said
            for part in rows.partition_by("shown", maintain_order=True)
            for said in _list_answers(part)
        ),
        charts=charts,
        table=Table(
            summary="Every number with and without the file",
            columns=[
                *([MODEL] if several else []),
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
                *estimate_columns("Change", help="Behind the file minus alone, over the same subwords."),
                N,
                CLUSTERS,
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
    """Changes with ``alone`` and ``behind`` beside them, in bits and percentage points."""
    found = _read_changes(run, _CHANGE)
    for column, before in (("alone", None), ("behind", _BEHIND)):
        values = _read_changes(run, before).select(*_KEYS, pl.col("value").alias(column))
        found = found.join(values, on=_KEYS, how="left", maintain_order="left")
    # The tables of calls are in nats, the others hold both.
    scale = pl.col("metric").replace_strict({"nats": BITS_PER_NAT, "top1": 100.0}, default=1.0)
    return (
        found.filter((pl.col("n") >= MIN_COUNT) | (pl.col("dimension") == "all"))
        .with_columns(pl.col("value", "ci_low", "ci_high", "alone", "behind") * scale)
        .with_columns(
            metric=pl.col("metric").replace("nats", "bits"),
            shown=run.subject,
            place=model_order(run),
            row=pl.col("dimension").replace_strict({name: i for i, name in enumerate(_ORDER)}),
        )
        .sort("place", "language", "row", "name", "metric")
    )


def _read_changes(run: RunData, before: str | None) -> pl.DataFrame:
    """The rows that are shown of one reading, with the ``dimension`` that cuts them and its ``name``."""
    outer = () if before is None else ("before",)
    # The first condition keeps the others from the many rows of the other readings.
    rows = run.scores(
        lens=LENS, metrics=[*_MEASURES, "nats"], where=dimension_value("before").eq_missing(before)
    )
    cut = [pl.when(has_dimension_names(*outer, name)).then(pl.lit(name)) for name in _DIMENSIONS]
    whole = pl.when(has_dimension_names(*outer)).then(pl.lit("all"))
    rows = rows.with_columns(
        dimension=pl.coalesce(*cut, whole),
        name=pl.coalesce(*(dimension_value(name) for name in _DIMENSIONS), pl.lit("everything")),
    )
    of_calls = pl.col("dimension") == "origin"
    name = pl.when(of_calls).then(pl.col("name").replace_strict(_ORIGINS, default="")).otherwise("name")
    return (
        rows.filter(
            # Of the gap between calls there is one row a weighting, all of them of the same two sides.
            pl.when(name == _ORIGINS["internal-external"])
            .then(pl.col("weighting") == "count")
            .otherwise(pl.col("weighting").is_null())
            & pl.col("dimension").is_in(_ORDER)
            & ((pl.col("metric") == "nats") == of_calls)
        )
        .with_columns(name=name)
        .filter(pl.col("name") != "")
    )


def _names(rows: pl.DataFrame, *, most_first: bool) -> list[str]:
    """Where the file helps most first; of roles the most frequent, of calls each side alone."""
    sized = rows.filter(pl.col("name") != _ORIGINS["internal-external"]).group_by("name")
    sized = sized.agg(pl.col("n").sum(), pl.col("value").mean())
    often = sized.sort("n", "name", descending=[True, False]).head(_ROLES_SHOWN)
    return often.sort("value", "name", descending=[most_first, False])["name"].to_list()


def _list_answers(rows: pl.DataFrame) -> Iterator[str]:
    held = {(row["dimension"], row["name"], row["metric"]): row for row in rows.iter_rows(named=True)}
    if whole := held.get(("all", "everything", "bits_per_byte")):
        yield (
            f"Behind its file a text costs {number(whole['behind'])} bits per byte instead of "
            f"{number(whole['alone'])}, a change of {with_interval(whole)}"
            f"{difference_caveat(whole, digits=2, unit=' bits')}."
        )
    if first := held.get(("all", "everything", "top1")):
        yield (
            f"The first guess is right for {number(first['behind'], 1)} % of the subwords instead "
            f"of {number(first['alone'], 1)} %, a change of {with_interval(first, digits=1)} points"
            f"{difference_caveat(first, unit=' points')}."
        )
    if ("origin", "internal call", "bits") in held:
        yield _describe_calls({name: row for (of, name, _), row in held.items() if of == "origin"})


_CALLS = {
    "internal call": "where the call goes into the repository",
    "external call": "where it goes out of it",
    "builtin call": "where it goes to a builtin",
}


def _describe_calls(held: Mapping[str, Mapping[str, Any]]) -> str:
    """The change of each kind of call, and whether own code gains more than outside code."""
    parts = [
        f"by {with_interval(held[name])} {words}{difference_caveat(held[name], digits=2)}"
        for name, words in _CALLS.items()
        if name in held
    ]
    said = f"Subwords of calls change, in bits, {join_names(parts)}."
    gap = held.get(_ORIGINS["internal-external"])
    if gap is None:
        return said
    difference = f"a difference of {with_interval(gap)}"
    if why := insufficient_data_reason(gap):
        of = "on whether it helps more with calls into the repository than with calls out of it"
        return f"{said} {why[:1].upper()}{why[1:]}; {of}: {difference}."
    if gap["ci_low"] <= 0 <= gap["ci_high"]:
        between = "between calls into the repository and calls out of it"
        found = describe_null_result(gap, digits=2)
        return f"{said} {found[:1].upper()}{found[1:]} {between}: {difference}."
    more = "more" if gap["value"] < 0 else "less"
    return f"{said} It helps {more} with calls into the repository than with calls out of it: {difference}."


def _describe_context(run: RunData, model: ModelInfo) -> str:
    """How many texts have anything above them, and how much of it was read."""
    rows = read_observations(run, model, ["item_id", "context", "file_context"])
    above = (pl.col("file_context") - pl.col("context")).max()
    items = rows.group_by("item_id").agg(above=above).collect(engine="streaming").drop_nulls("above")
    if items.is_empty():
        return ""
    behind = items.filter(pl.col("above") > 0)["above"]
    who = f"{model.label}: " if run.several else ""
    read = f", of which the model read a median of {count(behind.median())} subwords" if len(behind) else ""  # pyright: ignore[reportArgumentType]  a median of numbers
    return (
        f"{who}{count(len(behind))} of {count(items.height)} texts have something above them in their file"
        f"{read}; the others count as unchanged."
    )


plot = SectionPlot(
    title="Behind its file: what the text above tells the model",
    lens=LENS,
    order=85,
    caption=(
        "Each text is read twice: alone, and behind what stands above it in its file (imports, earlier "
        "definitions), as much of the end of that as the model can take. Only the text itself is scored, so "
        "the same subwords are compared with themselves, and what makes one text harder than another "
        "cancels. Dots are changes, behind the file minus alone, with their paired 95 % intervals: left of "
        "zero, the file makes the subwords less surprising; for top-1 accuracy, right of zero is better."
    ),
    select=_read_rows,
    figure=_draw,
)
