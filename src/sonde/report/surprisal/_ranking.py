"""Worst and best values of one dimension: dots with intervals, and the whole table behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from sonde.report._drawing.charts import dots
from sonde.report._shared.numbers import no_verdict, with_interval
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report.surprisal._scores import MIN_COUNT, SURPRISES, Slices, first_notes, slices
from sonde.results.extremes import describe_ends
from sonde.results.tables import MODEL, Column, scored
from sonde.results.verdict import why_no_verdict
from sonde.results.words import standing

TABLE_ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What is ranked.

    Attributes:
        dimension: Of scores, for example ``"tag"``.
        what: One of them in words, for example ``"syntax tag"``.
        plural: Several of them; by default with an s.
        shown: How many at each end.
        surface: From a value of the dimension to what is shown.
    """

    dimension: str
    what: str
    plural: str = ""
    shown: int = 12
    surface: Callable[[str], str] = str

    @property
    def noun(self) -> str:
        """Several of what is ranked."""
        return self.plural or f"{self.what}s"


def rank(run: RunData, ranking: Ranking) -> Figure | None:
    """Charts of the worst and the best, and a table of the rest; models over other texts are apart."""
    held = slices(run, ranking.dimension)
    frame = _named(held.rows, run, ranking)
    if frame.is_empty():
        return None
    charts: list[Chart] = []
    for group in frame.partition_by("shown", maintain_order=True) if held.apart else [frame]:
        model = group["shown"][0] if held.apart else ""
        charts += _ends(group, ranking, held.unit, model, _overall(held, model))
    return Figure(
        answer=_answer(frame, ranking, held.unit),
        charts=charts,
        table=_table(run, frame, ranking, held.unit),
        notes=[*_notes(frame), *held.notes, *first_notes(run)],
    )


def _named(rows: pl.DataFrame, run: RunData, ranking: Ranking) -> pl.DataFrame:
    """The rows above the minimum count with the ``name`` of each, the highest first."""
    several = len(run.languages) > 1
    frame = rows.filter((pl.col("n") >= MIN_COUNT) & (pl.col("label") != ""))
    names = [
        f"{ranking.surface(label)} · {language}" if several else ranking.surface(label)
        for label, language in frame.select("label", "language").iter_rows()
    ]
    frame = frame.with_columns(name=pl.Series(names, dtype=pl.String))
    return frame.sort("value", descending=True)


def _ends(
    frame: pl.DataFrame, ranking: Ranking, unit: str, model: str, reference: float | None
) -> list[Chart]:
    order = (
        frame.group_by("name", maintain_order=True)
        .agg(pl.col("value").mean())
        .sort("value", "name", descending=[True, False])["name"]
        .to_list()
    )
    # Intervals of a few clusters can be wider than anything else on the chart; they are cut at its edge.
    firm = [row for row in frame.iter_rows(named=True) if not no_verdict(row)]
    ends = [row["ci_high"] for row in firm if row["ci_high"] is not None]
    reach = max([*frame["value"].to_list(), *ends])
    suffix = f", {model}" if model else ""
    stem = f"{ranking.dimension}{'-' + model.replace('/', '_') if model else ''}"
    if len(order) <= 2 * ranking.shown:
        title = f"Every {ranking.what} by mean surprisal{suffix}"
        parts = [(f"{stem}-all", title, order)]
    else:
        parts = [
            (f"{stem}-worst", f"The {ranking.shown} highest means{suffix}", order[: ranking.shown]),
            (f"{stem}-best", f"The {ranking.shown} lowest means{suffix}", order[: -ranking.shown - 1 : -1]),
        ]
    return [
        Chart(
            name=name,
            title=title,
            spec=dots(
                frame.filter(pl.col("name").is_in(names)), names, unit, reference=reference, reach=reach
            ),
            wide=len(parts) == 1,
        )
        for name, title, names in parts
    ]


def _overall(held: Slices, model: str) -> float | None:
    rows = held.whole.filter(pl.col("shown") == model) if model else held.whole
    return rows["value"][0] if rows.height == 1 else None


def _answer(frame: pl.DataFrame, ranking: Ranking, unit: str) -> str:
    sentences: list[str] = []
    for part in frame.partition_by("shown", maintain_order=True):
        who = f"{part['shown'][0]}: " if frame["shown"].n_unique() > 1 else ""
        said = describe_ends(
            part.to_dicts(),
            lambda row: f"“{row['name']}”",
            with_interval,
            noun=ranking.noun,
            verbs=SURPRISES,
            unit=unit,
        ) or _too_little(part, ranking, unit)
        sentences.append(f"{who}{said}.")
    return "\n".join(sentences)


def _too_little(rows: pl.DataFrame, ranking: Ranking, unit: str) -> str:
    """Say why none is named, with the ends of what was estimated."""
    ends = [rows.row(place, named=True) for place in ((0, -1) if rows.height > 1 else (0,))]
    means = " to ".join(f"{with_interval(row)} (“{row['name']}”)" for row in ends)
    if rows.height == 1:
        return f"There is one {ranking.what} alone, {means} {unit}{standing(ends[0])}"
    why = next(filter(None, map(why_no_verdict, rows.to_dicts())), "they do not vary")
    return f"Too little data on which {ranking.what} is the most surprising ({why}): {means} {unit}"


def _notes(frame: pl.DataFrame) -> list[str]:
    notes = [f"Ranked among those with at least {MIN_COUNT} occurrences."]
    few = sum(no_verdict(row) for row in frame.iter_rows(named=True))
    if few:
        notes.append(
            f"{few:,} of {frame.height:,} rest{'s' * (few == 1)} on too little code for a verdict; "
            f"{'its dot is' if few == 1 else 'their dots are'} hollow."
        )
    return notes


def _table(run: RunData, frame: pl.DataFrame, ranking: Ranking, unit: str) -> Table:
    chosen = frame
    if frame.height > 2 * TABLE_ROWS:
        chosen = pl.concat([frame.head(TABLE_ROWS), frame.tail(TABLE_ROWS)])
        summary = f"The {TABLE_ROWS} highest and {TABLE_ROWS} lowest of {frame.height:,} means"
    else:
        summary = f"All {frame.height:,} rows"
    return Table(
        summary=summary,
        columns=[
            Column(title=ranking.what[0].upper() + ranking.what[1:], value="name"),
            *([MODEL] if run.several else []),
            *scored(unit.capitalize(), help="How unexpected it is to the model: 0 where it was sure."),
        ],
        rows=chosen,
    )
