"""Sections of a comparison: an overview, what changed by lens, what could not be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sonde.report._drawing.charts import differences as difference_chart
from sonde.report._shared.plot import Chart, Figure
from sonde.results.changes import (
    changed,
    counts,
    in_sentence,
    overview,
    scale_of,
    table,
    unit_of,
    with_words,
)
from sonde.results.formats import COUNT, Number, counted
from sonde.results.tables import Column, Table
from sonde.results.words import plain_words
from sonde.store.rundir import slug

CHARTED = 24
"""Differences that a chart shows of one lens, the strongest first."""

_NOTHING = 8
"""Differences that are charted where none is a finding."""

_AROUND = 32
"""Characters shown on either side of a place."""

_ONE_WAY = ("better", "worse", "higher", "lower")
"""Outcomes that are findings."""

CITED = ("benjamini1995",)
"""What the pages of comparisons cite."""

TABLE_ROWS = 1000
"""Rows that a table of the page holds; ``comparison.parquet`` has all of them."""

CAPTION = (
    "Each dot is a difference on the same items: the model's number minus that of the model it is held "
    "against, with its 95 % interval; what is hard for both drops out. Hollow dots rest on too little for a "
    "verdict. A number is called better or worse where its p-value, adjusted over all that is compared, is "
    "below 0.05 and the difference is as large as matters."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadComparison:
    """What the sections of a comparison are made from.

    Attributes:
        differences: The rows of ``comparison.parquet``.
        comparisons: What ``comparison.json`` says of each pair of models.
        of: Key of the scores of the run whose models are compared; empty where runs are.
        moved: The rows of ``moved.parquet``; None where no lens says how likely a place is.
        series: The rows of ``series.parquet``; None where no checkpoints of a training are compared.
    """

    differences: pl.DataFrame
    comparisons: Sequence[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    of: str = ""
    moved: pl.DataFrame | None = None
    series: pl.DataFrame | None = None

    @property
    def several(self) -> bool:
        """Whether there are several pairs of models."""
        return len(self.comparisons) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSection:
    """One section: its heading, how it is read, and its figure."""

    name: str
    title: str
    caption: str
    figure: Figure


def parts(compared: ReadComparison) -> list[ComparisonSection]:
    """The sections, in the order of the page."""
    rows = with_words(compared.differences)
    found = [_first(compared, rows)]
    for (lens,), part in rows.group_by("lens", maintain_order=True):
        for (model,), own in part.group_by("model", maintain_order=True):
            found.append(_of_lens(str(lens), str(model) if compared.several else "", own))
    if compared.moved is not None and compared.moved.height:
        found += _moved(compared.moved, several=compared.several)
    if unpaired := list(_unpaired(compared)):
        found.append(_alone(unpaired))
    return found


def sentences(compared: ReadComparison) -> Iterator[str]:
    """What each pair of models and lens comes to, one line each."""
    for row in counts(compared.differences):
        of = f"{plain_words(row['model'])}, " if compared.several else ""
        yield f"{of}{plain_words(row['lens'])}: {in_sentence(row)}"


def _first(compared: ReadComparison, rows: pl.DataFrame) -> ComparisonSection:
    best = overview(rows)
    return ComparisonSection(
        name="compared_overview",
        title="What changed",
        caption="For each lens and task the number that is over the most, on the same items for both models.",
        figure=Figure(
            answer="\n".join(sentences(compared)),
            charts=list(_charts("compared_overview", best, several=compared.several)),
            table=table(counted(best.height, "number"), best, several=compared.several),
        ),
    )


def _of_lens(lens: str, model: str, rows: pl.DataFrame) -> ComparisonSection:
    """What changed of one lens, for one model where there are several."""
    name = f"compared_{lens}_{model}" if model else f"compared_{lens}"
    about = f"{plain_words(lens).capitalize()}{f' of {plain_words(model)}' if model else ''}"
    strongest = pl.concat([changed(rows, name) for name in _ONE_WAY])
    shown = strongest.sort("strength", descending=True, nulls_last=True, maintain_order=True)
    rest = pl.concat([changed(rows, name) for name in ("slight", "undecided", "alike")])
    every = pl.concat([shown, rest])
    kept = (
        counted(every.height, "number")
        if every.height <= TABLE_ROWS
        else (f"The first {TABLE_ROWS:,} of {every.height:,} numbers; comparison.parquet has all of them")
    )
    charted = shown.head(CHARTED) if shown.height else rest.head(_NOTHING)
    return ComparisonSection(
        name=slug(name),
        title=f"{about}: what got better and what got worse",
        caption=CAPTION,
        figure=Figure(
            answer="" if shown.height else _nothing_found(rows),
            charts=list(_charts(name, charted, several=False)),
            table=table(kept, every.head(TABLE_ROWS), several=False),
        ),
    )


def _nothing_found(rows: pl.DataFrame) -> str:
    """Say of a lens without a difference that matters what was found, and of how much too little is known."""
    open_ones = rows.filter(pl.col("why") != "")
    told, slight = rows.height - open_ones.height, rows.filter(pl.col("outcome") == "slight").height
    if not told:
        why = open_ones["why"].mode().sort()[0]
        return (
            f"Too little data for a verdict on any number of this lens ({why}); the table has the estimates."
        )
    few = open_ones.height
    if told == 1:
        of = f"The one number of this lens{' that allows a verdict' if few else ''} does not differ"
    else:
        of = f"Of the {told:,} numbers of this lens{' that allow a verdict' if few else ''} none differs"
    if slight:
        less = "it differs" if told == 1 else f"{slight:,} differ{'s' * (slight == 1)}"
        found = f"{of} by as much as matters; {less} by less."
    else:
        found = f"{of} by more than chance allows; the table says what would have been found."
    return f"{found} {few:,} more rest{'s' * (few == 1)} on too little data." if few else found


def _charts(name: str, rows: pl.DataFrame, *, several: bool) -> Iterator[Chart]:
    """One chart a unit, since an axis has one."""
    units = pl.Series([unit_of(row) for row in rows.iter_rows(named=True)], dtype=pl.String)
    for place, ((unit,), part) in enumerate(
        rows.with_columns(unit=units).group_by("unit", maintain_order=True)
    ):
        alike = part["what"].n_unique() == 1
        records = [_record(row, alike=alike) for row in part.iter_rows(named=True)]
        frame = pl.DataFrame(records, infer_schema_length=None)
        order = frame["name"].unique(maintain_order=True).to_list()
        title = f"Difference in {unit}" + (", by model" if several else "")
        spec = difference_chart(frame, order, str(unit))
        yield Chart(name=slug(f"{name}_{place}"), title=title, spec=spec, wide=True)


def _record(row: Mapping[str, Any], *, alike: bool) -> dict[str, Any]:
    """What a chart draws of a difference; where all are of one number its name is not said again."""
    scale = scale_of(row)

    def scaled(value: float | None) -> float | None:
        return None if value is None else value * scale

    named = str(row["label"]) if alike and row["label"] else str(row["what"])
    about = named if alike or not row["label"] else f"{named}, {row['label']}"
    return {
        "name": about,
        "shown": row["model"],
        "value": row["difference"] * scale,
        "ci_low": scaled(row["ci_low"]),
        "ci_high": scaled(row["ci_high"]),
        "ci_method": row["ci_method"],
        "n": row["n"],
        "n_clusters": row["n_clusters"],
        "effective_clusters": row["effective_clusters"],
        "n_eff": None,
        "seeds": row["seeds"],
    }


def _moved(rows: pl.DataFrame, *, several: bool) -> Iterator[ComparisonSection]:
    """The places and items that moved most, with what stands around them."""
    titles = {"place": "Places that moved most", "item": "Items that moved most"}
    for of, title in titles.items():
        own = rows.filter(pl.col("of") == of)
        if not own.height:
            continue
        yield ComparisonSection(
            name=f"compared_moved_{of}",
            title=title,
            caption="Bits of the same place under both models; above zero the second is less sure. "
            "These are the ends of a distribution, shown to be looked at, and no findings.",
            figure=Figure(
                table=Table(
                    summary=counted(own.height, of),
                    columns=[
                        *([Column(title="Model", value="model")] if several else []),
                        Column(title="Lens", value="lens"),
                        Column(title="Before", value=lambda row: row["before"][-_AROUND:]),
                        Column(title="Text", value="text"),
                        Column(title="After", value=lambda row: row["after"][:_AROUND]),
                        Column(title="Held against, bits", value="base_bits", format=Number()),
                        Column(title="Value, bits", value="bits", format=Number()),
                        Column(title="Difference, bits", value="difference", format=Number()),
                        Column(title="Where", value=lambda row: f"{row['path']} {row['name']}"),
                    ],
                    rows=own,
                ),
            ),
        )


def _unpaired(compared: ReadComparison) -> Iterator[dict[str, Any]]:
    for one in compared.comparisons:
        for alone in one.get("unpaired") or ():
            yield {"model": one["model"]["label"], **alone}


def _alone(rows: Sequence[Mapping[str, Any]]) -> ComparisonSection:
    total = sum(int(row["count"]) for row in rows)
    return ComparisonSection(
        name="compared_not",
        title="What could not be compared",
        caption="Two numbers are compared only where inputs, definitions, modes and poolings are the same.",
        figure=Figure(
            answer=f"{counted(total, 'number')} {'stands' if total == 1 else 'stand'} on one side alone, or "
            f"{'is' if total == 1 else 'are'} not the same on both.",
            table=Table(
                summary=counted(len(rows), "reason"),
                columns=[
                    Column(title="Model", value="model"),
                    Column(title="Lens", value="lens"),
                    Column(title="Reason", value="reason"),
                    Column(title="Numbers", value="count", format=COUNT),
                    Column(title="For example", value="example"),
                ],
                rows=rows,
            ),
        ),
    )
