"""Worst and best values of one dimension: dots with intervals, and the whole table behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from sonde.report._drawing.charts import dots
from sonde.report._shared.numbers import no_verdict, with_interval
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report.surprisal._scores import BITS_PER_NAT, LENS, MIN_COUNT, SURPRISES, first_notes
from sonde.results.dimensions import dimensions_are
from sonde.results.extremes import describe_ends
from sonde.results.tables import MODEL, Column, scored
from sonde.results.verdict import why_no_verdict

TABLE_ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What is ranked.

    Attributes:
        dimension: Of scores, for example ``"tag"``.
        what: One of them in words, for example ``"syntax tag"``.
        plural: Several of them; by default with an s.
        shown: How many at each end.
        per_model: Rank each model for itself, where the labels depend on its tokenizer.
        surface: From a value of the dimension to what is shown.
    """

    dimension: str
    what: str
    plural: str = ""
    shown: int = 12
    per_model: bool = False
    surface: Callable[[str], str] = str

    @property
    def noun(self) -> str:
        """Several of what is ranked."""
        return self.plural or f"{self.what}s"


def rank(run: RunData, ranking: Ranking) -> Figure | None:
    """Charts of the worst and the best, and a table of the rest."""
    frame, unit = _measured(run, ranking)
    if frame.is_empty():
        return None
    charts: list[Chart] = []
    groups = frame.partition_by("shown", maintain_order=True) if ranking.per_model else [frame]
    for group in groups:
        model = group["shown"][0] if ranking.per_model and run.several else ""
        charts += _ends(group, ranking, unit, model, _overall(run, unit, model))
    return Figure(
        answer=_answer(frame, ranking, unit),
        charts=charts,
        table=_table(run, frame, ranking, unit),
        notes=[*_notes(frame), *first_notes(run)],
    )


def _measured(run: RunData, ranking: Ranking) -> tuple[pl.DataFrame, str]:
    """Rows of the dimension above the minimum count, in bits, and the unit.

    Several models are compared by code token where the run has it, since subwords are not theirs in common.
    """
    by_token = run.scores(lens=LENS, metrics=["nats_per_token"], by=ranking.dimension)
    frame, unit = run.scores(lens=LENS, metrics=["bits"], by=ranking.dimension), "bits per subword"
    if run.several and not ranking.per_model and not by_token.is_empty():
        scaled = [pl.col(name) * BITS_PER_NAT for name in ("value", "ci_low", "ci_high")]
        frame, unit = by_token.with_columns(scaled), "bits per code token"
    several = len(run.languages) > 1
    frame = frame.filter((pl.col("n") >= MIN_COUNT) & (pl.col("label") != ""))
    names = [
        f"{ranking.surface(label)} · {language}" if several else ranking.surface(label)
        for label, language in frame.select("label", "language").iter_rows()
    ]
    frame = frame.with_columns(name=pl.Series(names, dtype=pl.String))
    return frame.sort("value", descending=True), unit


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


def _overall(run: RunData, unit: str, model: str) -> float | None:
    metric, scale = ("bits", 1.0) if unit == "bits per subword" else ("nats_per_token", BITS_PER_NAT)
    rows = run.scores(lens=LENS, metrics=[metric], where=dimensions_are({}))
    rows = rows.filter(pl.col("shown") == model) if model else rows
    return rows["value"][0] * scale if rows.height == 1 else None


def _answer(frame: pl.DataFrame, ranking: Ranking, unit: str) -> str:
    sentences: list[str] = []
    for part in frame.partition_by("shown", maintain_order=True):
        who = f"{part['shown'][0]}: " if frame["shown"].n_unique() > 1 else ""
        said = (
            describe_ends(
                part.to_dicts(),
                lambda row: f"“{row['name']}”",
                with_interval,
                noun=ranking.noun,
                verbs=SURPRISES,
                unit=unit,
            )
            or f"No verdict on which {ranking.what} is the most surprising: {_why(part)}"
        )
        sentences.append(f"{who}{said}.")
    return "\n".join(sentences)


def _why(rows: pl.DataFrame) -> str:
    return next(filter(None, map(why_no_verdict, rows.to_dicts())), "there is only one")


def _notes(frame: pl.DataFrame) -> list[str]:
    notes = [f"Ranked among those with at least {MIN_COUNT} occurrences."]
    few = sum(no_verdict(row) for row in frame.iter_rows(named=True))
    if few:
        notes.append(
            f"{few:,} of {frame.height:,} rest on too little code for a verdict; their dots are hollow."
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
